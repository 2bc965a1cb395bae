/* Beam search against the rules of tests/parity/README.md, section 4, written out the long way, on
 * random "models": the logits of a hypothesis are a hash of its tokens. Both sides sum in float32
 * in the same order, so tokens and scores must be equal to the bit, ties included. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../support/random.h"
#include "kernels/kernels.h" /* kernels_scalar */
#include "search/search.h"

enum { MAX_VOCAB = 30, MAX_K = MAX_BEAM, MAX_TOKENS = 14, END = 1, START = 0, N_ROUNDS = 4000 };

struct model {
    uint64_t seed;
    int vocab_size;
    bool coarse; /* few different logits: many ties */
    float end_bonus;
    bool forbidden[MAX_VOCAB];
    bool renormalize;
    struct acre_decoding decoding;
    struct constraint *constraint;
    struct search_prefix prefix;
    int32_t tokens[MAX_TOKENS]; /* of the prefix; the reference looks at the first only */
};

static void model_logits(const struct model *model, const int32_t *tokens, int n, float *logits)
{
    uint64_t history = model->seed;
    for (int i = 0; i < n; i++)
        history = (history ^ (uint64_t)(tokens[i] + 1)) * UINT64_C(0x100000001B3) + 12345;
    random_seed(history);
    for (int id = 0; id < model->vocab_size; id++)
        logits[id] = model->coarse ? (float)random_pick(0, 2) : random_uniform(-4, 4);
    logits[END] += model->end_bonus;
}

/* Leaves the random sequence where the next round finds it again. */
static void make_model(uint64_t round, struct model *model)
{
    static const float penalties[] = {0, 0.6f, 1, 1.4f, -0.5f};
    random_seed(round * 77 + 5);
    *model = (struct model){.seed = random_bits()};
    int forbidden[MAX_VOCAB], n_forbidden = 0;
    model->vocab_size = (int)random_pick(3, MAX_VOCAB);
    model->coarse = random_pick(0, 2) == 0;
    model->end_bonus = model->coarse ? (float)random_pick(0, 3) : random_uniform(-2, 4);
    model->renormalize = random_pick(0, 1);
    for (int id = 0; id < model->vocab_size; id++) /* START, and some others, not END, not 2 */
        if (id == START || (id > 2 && random_pick(0, 5) == 0))
            model->forbidden[forbidden[n_forbidden++] = id] = true;
    int beam = (int)random_pick(1, random_pick(0, 20) ? 8 : MAX_K);
    int longest = (int)random_pick(1, MAX_TOKENS);
    model->decoding = (struct acre_decoding){
        .beam_size = beam,
        .num_hypotheses = beam,
        .max_length = longest,
        .min_length = (int)random_pick(0, 2) ? 0 : (int)random_pick(0, (size_t)longest),
        .length_penalty = penalties[random_pick(0, 4)],
        .beam_threshold = random_pick(0, 1) ? 0 : random_uniform(0.1F, 4),
    };
    if (random_pick(0, 1))
        model->decoding.num_hypotheses = 1;
    struct constraint_options options = {.vocab_size = model->vocab_size,
                                         .end_token = END,
                                         .forbidden = forbidden,
                                         .n_forbidden = n_forbidden};
    assert_int_equal(constraint_open(&options, &model->constraint), 0);
}

/* ---- The rules, the long way ----------------------------------------------------------------- */

struct hypothesis {
    int32_t tokens[MAX_TOKENS + 1];
    int n;
    float score;
    double normalized;
};

/* A live hypothesis continued by a token; `live` is its index. */
struct choice {
    float score;
    int live, token;
};

struct reference {
    const struct model *model;
    struct hypothesis live[MAX_K], slots[2 * MAX_K];
    int n_live, n_slots, t;
    bool open;
};

/* Log-probabilities of section 2; -INFINITY where a token may not be chosen. */
static void log_probabilities(const struct reference *r, const struct hypothesis *h, float *p)
{
    const struct model *model = r->model;
    bool may[MAX_VOCAB];
    float maximum = -INFINITY, sum = 0;
    model_logits(model, h->tokens, h->n, p);
    for (int id = 0; id < model->vocab_size; id++) {
        may[id] = !model->forbidden[id] && (id != END || r->t >= model->decoding.min_length);
        if (model->renormalize && !may[id])
            p[id] = -INFINITY;
        maximum = fmaxf(maximum, p[id]);
    }
    for (int id = 0; id < model->vocab_size; id++)
        sum += expf(p[id] - maximum);
    float log_sum = maximum + logf(sum);
    for (int id = 0; id < model->vocab_size; id++)
        p[id] = may[id] ? p[id] - log_sum : -INFINITY;
    for (int id = 0; r->t == 0 && model->prefix.n_free > 0 && id < model->vocab_size; id++)
        p[id] = id == model->tokens[0] ? 0 : -INFINITY;
}

static int by_rank(const void *left, const void *right)
{
    const struct choice *a = left, *b = right;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->live != b->live ? a->live - b->live : a->token - b->token;
}

/* The live hypothesis ends: into the slots, of which the best K stay, older ones first. */
static void add_finished(struct reference *r, const struct hypothesis *h, float score)
{
    struct hypothesis finished = *h;
    finished.score = score;
    finished.normalized = (double)score / pow(h->n + 1, (double)r->model->decoding.length_penalty);
    int place = r->n_slots++;
    for (; place > 0 && r->slots[place - 1].normalized < finished.normalized; place--)
        r->slots[place] = r->slots[place - 1];
    r->slots[place] = finished;
    if (r->n_slots > r->model->decoding.beam_size)
        r->n_slots = r->model->decoding.beam_size;
}

static void last_step(struct reference *r)
{
    for (int i = 0; i < r->n_live; i++)
        add_finished(r, &r->live[i], r->live[i].score);
    r->open = false;
}

static int all_choices(const struct reference *r, struct choice *choices)
{
    const struct acre_decoding *decoding = &r->model->decoding;
    int n = 0;
    for (int i = 0; i < r->n_live; i++) {
        float p[MAX_VOCAB];
        log_probabilities(r, &r->live[i], p);
        for (int id = 0; id < r->model->vocab_size; id++)
            if (p[id] > -INFINITY)
                choices[n++] = (struct choice){r->live[i].score + p[id], i, id};
    }
    qsort(choices, (size_t)n, sizeof(*choices), by_rank);
    n = n < 2 * decoding->beam_size ? n : 2 * decoding->beam_size;
    for (int i = 1; i < n; i++)
        if (decoding->num_hypotheses == 1 && decoding->beam_threshold > 0 &&
            choices[i].score < choices[0].score - decoding->beam_threshold)
            return i;
    return n;
}

static void reference_step(struct reference *r)
{
    struct choice choices[MAX_K * MAX_VOCAB];
    struct hypothesis next[MAX_K];
    int n = all_choices(r, choices), n_next = 0, beam = r->model->decoding.beam_size;
    for (int i = 0; i < n; i++) {
        const struct hypothesis *from = &r->live[choices[i].live];
        if (choices[i].token != END && n_next < beam) {
            next[n_next] = *from;
            next[n_next].tokens[next[n_next].n++] = choices[i].token;
            next[n_next++].score = choices[i].score;
        } else if (choices[i].token == END && i < beam) {
            add_finished(r, from, choices[i].score);
        }
    }
    memcpy(r->live, next, (size_t)n_next * sizeof(*next));
    r->n_live = n_next;
    r->t++;
    r->open = n_next > 0 &&
              (r->n_slots < beam ||
               (double)r->live[0].score / pow(r->t, (double)r->model->decoding.length_penalty) >
                   r->slots[r->n_slots - 1].normalized);
}

static void reference_search(const struct model *model, struct reference *r)
{
    *r = (struct reference){.model = model, .n_live = 1, .open = true};
    while (r->open) {
        if (r->t == model->decoding.max_length)
            last_step(r);
        else
            reference_step(r);
    }
}

/* ---- The search ------------------------------------------------------------------------------ */

static void scan_model(const struct model *model, const struct search *search, int b,
                       struct logit_scan *scan)
{
    float logits[32] = {0};
    int32_t tokens[MAX_TOKENS];
    struct search_result so_far = {.n_tokens = search->t, .b = b};
    search_tokens(search, &so_far, tokens);
    model_logits(model, tokens, search->t, logits);
    for (int id = 0; scan->renormalize && id < model->vocab_size; id++)
        if (!(scan->allowed[id / 32] >> (id % 32) & 1))
            logits[id] = -INFINITY;
    if (scan->has_wanted)
        scan->wanted = logits[scan->best[0].id];
    kernels_scalar.scan_logits((size_t)model->vocab_size, 0, logits, scan);
}

static double penalties[MAX_TOKENS + 2];

static struct search_node *run_search(const struct model *model, struct search *search)
{
    struct search_node *nodes = malloc(search_nodes(&model->decoding) * sizeof(*nodes));
    struct candidate best[MAX_K][2 * MAX_K];
    struct logit_scan scans[MAX_K];
    const struct search_model known = {model->constraint, START, END, model->renormalize};
    search_fill_penalties(model->decoding.length_penalty, 0, search_penalties(&model->decoding),
                          penalties);
    search_init(search, &known, &model->decoding, nodes, penalties);
    search_set_prefix(search, &model->prefix, model->tokens);
    do {
        for (int b = 0; b < search->n_live; b++) {
            search_scan(search, b, best[b], &scans[b]);
            scan_model(model, search, b, &scans[b]);
        }
    } while (search_advance(search, scans));
    return nodes;
}

static void assert_same(const struct search *search, const struct reference *r, int round)
{
    if (search->n_results != r->n_slots)
        fail_msg("round %d: %d results, expected %d", round, search->n_results, r->n_slots);
    for (int i = 0; i < r->n_slots; i++) {
        int32_t tokens[MAX_TOKENS];
        const struct search_result *got = &search->results[i];
        const struct hypothesis *want = &r->slots[i];
        search_tokens(search, got, tokens);
        if (got->n_tokens != want->n || got->score != want->score ||
            got->normalized_score != want->normalized)
            fail_msg("round %d, result %d: %d tokens, %.9g, %.9g; expected %d, %.9g, %.9g", round,
                     i, got->n_tokens, (double)got->score, got->normalized_score, want->n,
                     (double)want->score, want->normalized);
        assert_memory_equal(tokens, want->tokens, (size_t)want->n * sizeof(*tokens));
    }
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void search_follows_the_rules(void **state)
{
    (void)state;
    int n_forced = 0, n_full = 0;
    for (int round = 0; round < N_ROUNDS; round++) {
        struct model model;
        struct search search;
        struct reference reference;
        make_model((uint64_t)round, &model);
        struct search_node *nodes = run_search(&model, &search);
        reference_search(&model, &reference);
        assert_same(&search, &reference, round);
        n_forced += search.results[0].n_tokens == model.decoding.max_length;
        n_full += search.n_results == model.decoding.beam_size;
        constraint_close(model.constraint);
        free(nodes);
    }
    assert_in_range(n_forced, N_ROUNDS / 20, N_ROUNDS); /* the rounds are of both kinds */
    assert_in_range(n_full, N_ROUNDS / 2, N_ROUNDS);
}

/* forced_bos_token_id: section 2. Also a token that is forbidden otherwise, as the start is. */
static void first_tokens_add_nothing(void **state)
{
    (void)state;
    for (int round = 0; round < N_ROUNDS / 4; round++) {
        struct model model;
        struct search search;
        struct reference reference;
        make_model((uint64_t)round, &model);
        model.prefix = (struct search_prefix){.n = 1, .n_free = 1};
        model.tokens[0] = round % 3 == 0 ? START : 2;
        struct search_node *nodes = run_search(&model, &search);
        reference_search(&model, &reference);
        assert_same(&search, &reference, round);
        constraint_close(model.constraint);
        free(nodes);
    }
}

/* What a search has found has the same score when all of it is known, to the bit. */
static void known_translations_are_scored(void **state)
{
    (void)state;
    for (int round = 0; round < N_ROUNDS / 8; round++) {
        struct model model;
        struct search search, again;
        make_model((uint64_t)round, &model);
        model.prefix = (struct search_prefix){.n = round % 2, .n_free = round % 2};
        model.tokens[0] = 2;
        struct search_node *nodes = run_search(&model, &search);
        for (int i = 0; i < search.n_results; i++) {
            const struct search_result *found = &search.results[i];
            search_tokens(&search, found, model.tokens);
            model.prefix.n = found->n_tokens;
            model.prefix.is_whole = true;
            struct acre_decoding decoding = model.decoding;
            model.decoding.beam_size = model.decoding.num_hypotheses = 1;
            struct search_node *others = run_search(&model, &again);
            model.decoding = decoding;
            assert_int_equal(again.n_results, 1);
            assert_int_equal(again.results[0].n_tokens, found->n_tokens);
            assert_true(again.results[0].score == found->score);
            free(others);
        }
        constraint_close(model.constraint);
        free(nodes);
    }
}

/* What cannot follow has no probability, and no end after it has any. */
static void what_cannot_follow_has_no_probability(void **state)
{
    (void)state;
    struct model model;
    struct search search;
    for (uint64_t round = 0; !(make_model(round, &model), model.renormalize); round++)
        constraint_close(model.constraint);
    model.decoding = (struct acre_decoding){1, 1, 0, 5, 1, 0};
    model.prefix = (struct search_prefix){.n = 2, .is_whole = true};
    model.tokens[0] = 2;
    model.tokens[1] = START;
    struct search_node *nodes = run_search(&model, &search);
    assert_int_equal(search.results[0].n_tokens, 2);
    assert_true(search.results[0].score == -INFINITY);
    constraint_close(model.constraint);
    free(nodes);
}

/* Beam size 1 takes the most probable token until it is the end token. */
static void beam_one_is_greedy(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        struct model model;
        struct search search;
        make_model((uint64_t)round, &model);
        model.decoding.beam_size = model.decoding.num_hypotheses = 1;
        struct reference greedy = {.model = &model, .n_live = 1};
        struct hypothesis *h = &greedy.live[0];
        for (; greedy.t < model.decoding.max_length; greedy.t++) {
            float p[MAX_VOCAB];
            int most = 0;
            log_probabilities(&greedy, h, p);
            for (int id = 1; id < model.vocab_size; id++)
                most = p[id] > p[most] ? id : most;
            h->score += p[most];
            if (most == END)
                break;
            h->tokens[h->n++] = most;
        }
        add_finished(&greedy, h, h->score);
        struct search_node *nodes = run_search(&model, &search);
        assert_same(&search, &greedy, round);
        constraint_close(model.constraint);
        free(nodes);
    }
}

/* The sum of the log-probabilities of the tokens alone. */
static float score_of_tokens(const struct model *model, const int32_t *tokens, int n)
{
    struct reference r = {.model = model};
    struct hypothesis h = {.n = 0};
    float score = 0, p[MAX_VOCAB];
    for (; r.t < n; r.t++) {
        log_probabilities(&r, &h, p);
        score += p[tokens[r.t]];
        h.tokens[h.n++] = tokens[r.t];
    }
    return score;
}

static void equal_lengths_force_the_length(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        struct model model;
        struct search search;
        make_model((uint64_t)round, &model);
        model.decoding.min_length = model.decoding.max_length;
        struct search_node *nodes = run_search(&model, &search);
        assert_true(search.n_results > 0);
        for (int i = 0; i < search.n_results; i++) {
            int32_t tokens[MAX_TOKENS];
            const struct search_result *result = &search.results[i];
            search_tokens(&search, result, tokens);
            assert_int_equal(result->n_tokens, model.decoding.max_length);
            assert_true(result->score == score_of_tokens(&model, tokens, result->n_tokens));
        }
        constraint_close(model.constraint);
        free(nodes);
    }
}

/* One hypothesis lives for `longest` tokens, each of which adds `step`; at the two lengths given
 * it may also end, adding `ends`. */
struct ending {
    float penalty, step;
    int lengths[2];
    float ends[2];
    int best; /* of the two */
};

static void two_ends(const struct ending *ending)
{
    enum { LONGEST = 60001 };
    struct acre_decoding decoding = {.beam_size = 2,
                                     .num_hypotheses = 2,
                                     .max_length = LONGEST,
                                     .length_penalty = ending->penalty};
    struct constraint_options options = {.vocab_size = 4, .end_token = END};
    struct constraint *constraint;
    struct search search;
    assert_int_equal(constraint_open(&options, &constraint), 0);
    struct search_node *nodes = malloc(search_nodes(&decoding) * sizeof(*nodes));
    double *powers = malloc(search_penalties(&decoding) * sizeof(*powers));
    search_fill_penalties(decoding.length_penalty, 0, search_penalties(&decoding), powers);
    const struct search_model known = {
        .constraint = constraint, .start_token = START, .end_token = END};
    search_init(&search, &known, &decoding, nodes, powers);
    for (bool is_live = true; is_live && search.n_results < 2;) {
        struct candidate best[2] = {{0}};
        int n = 0;
        for (int i = 0; i < 2; i++)
            if (search.t == ending->lengths[i])
                best[n++] = (struct candidate){.logit = ending->ends[i], .id = END};
        best[n++] = (struct candidate){.logit = ending->step, .id = 2};
        struct logit_scan scan = {.best = best, .n = n, .maximum = 0, .sum = 1};
        is_live = search_advance(&search, &scan);
    }
    assert_int_equal(search.n_results, 2);
    assert_int_equal(search.results[0].n_tokens, ending->lengths[ending->best]);
    assert_true(search.results[0].normalized_score > search.results[1].normalized_score);
    assert_true(isfinite(search.results[1].normalized_score));
    constraint_close(constraint);
    free(powers);
    free(nodes);
}

/* The largest penalties, on sentences as long as they may be. */
static void ranks_over_the_whole_range(void **state)
{
    (void)state;
    static const struct ending endings[] = {
        {10, -1e-3f, {20000, 20100}, {-2, -2}, 1},  {10, -1e-3f, {20000, 20001}, {-2, -20}, 0},
        {-10, -1e-3f, {20000, 20100}, {-2, -2}, 0}, {-10, -1e-3f, {20000, 20001}, {-20, -2}, 1},
        {10, -1e-9f, {6000, 6001}, {0, -1e-6f}, 0}, {1, -1e-3f, {100, 200}, {-2, -2}, 1},
        {0, -1e-3f, {100, 200}, {-2, -2}, 0},
    };
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
        two_ends(&endings[i]);
}

/* No token is allowed and the end neither: the search ends with what it has. */
static void nothing_may_follow(void **state)
{
    (void)state;
    int forbidden[] = {START, 2};
    struct model model = {.seed = 1, .vocab_size = 3, .forbidden = {true, false, true}};
    struct search search;
    model.decoding = (struct acre_decoding){2, 1, 5, 10, 1, 0};
    struct constraint_options options = {
        .vocab_size = 3, .end_token = END, .forbidden = forbidden, .n_forbidden = 2};
    assert_int_equal(constraint_open(&options, &model.constraint), 0);
    struct search_node *nodes = run_search(&model, &search);
    assert_int_equal(search.n_results, 1);
    assert_int_equal(search.results[0].n_tokens, 0);
    assert_true(search.results[0].score == 0);
    constraint_close(model.constraint);
    free(nodes);
}

/* Where weights overflow, after a step that was well; also where a translation is scored. */
static void logits_that_are_no_numbers(void **state)
{
    (void)state;
    struct candidate first[] = {{.logit = -1, .id = 2}, {.logit = -1, .id = END}};
    struct candidate infinite = {.logit = INFINITY, .id = 2};
    const struct logit_scan well = {.best = first, .n = 2, .maximum = -1, .sum = 2};
    const struct logit_scan overflown[] = {
        {.maximum = -INFINITY}, /* all are NaN, which no candidate is */
        {.best = &infinite, .n = 1, .maximum = INFINITY, .sum = NAN},
    };
    struct acre_decoding decoding = {2, 2, 0, 5, 1, 0};
    struct constraint_options options = {.vocab_size = 3, .end_token = END};
    struct search_node nodes[12];
    struct constraint *constraint;
    assert_int_equal(constraint_open(&options, &constraint), 0);
    const struct search_model known = {constraint, START, END, false};
    search_fill_penalties(1, 0, search_penalties(&decoding), penalties);
    for (size_t i = 0; i < 4; i++) {
        struct search search;
        search_init(&search, &known, &decoding, nodes, penalties);
        search.prefix.is_whole = i < 2;
        if (!search.prefix.is_whole)
            assert_true(search_advance(&search, &well));
        assert_false(search_advance(&search, &overflown[i % 2]));
        assert_true(isnan(search.results[0].score));
    }
    constraint_close(constraint);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(search_follows_the_rules),
        cmocka_unit_test(first_tokens_add_nothing),
        cmocka_unit_test(known_translations_are_scored),
        cmocka_unit_test(what_cannot_follow_has_no_probability),
        cmocka_unit_test(beam_one_is_greedy),
        cmocka_unit_test(equal_lengths_force_the_length),
        cmocka_unit_test(ranks_over_the_whole_range),
        cmocka_unit_test(nothing_may_follow),
        cmocka_unit_test(logits_that_are_no_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
