/* The running batch: sentences that enter at any time get what they get alone, steps allocate
 * nothing, dropped sentences leave at once. Run from the root of the tree. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../support/random.h"
#include "../support/rig.h"
#include "decode/batch.h"

enum { N_SENTENCES = 60, MAX_SLOTS = 7, MAX_K = 5, MAX_SOURCE = 40 };

/* A model with a batch over it. */
struct bench {
    struct rig rig;
    struct constraint *constraint;
    struct batch *batch;
    struct buffer *logits;
};

static void bench_open(struct bench *bench, const char *directory, size_t n_slots)
{
    struct acre_err err;
    if (rig_open(&bench->rig, directory, COMPUTE_F32, &err) != 0)
        fail_msg("%s", err.text);
    const struct config *config = &bench->rig.config;
    struct constraint_options constraint = {
        .vocab_size = config->decoder_vocab_size,
        .end_token = config->end_token,
        .forbidden = config->forbidden,
        .n_forbidden = config->n_forbidden,
        .bytes = strstr(directory, "char") != NULL,
    };
    assert_int_equal(constraint_open(&constraint, &bench->constraint), 0);
    struct search_model model = {
        .constraint = bench->constraint,
        .start_token = config->start_token,
        .end_token = config->end_token,
        .renormalize = config->renormalize,
    };
    struct batch_limits limits = {.max_sentences = n_slots, .max_beam_size = MAX_K};
    assert_int_equal(batch_open(bench->rig.network, &model, &limits, &bench->batch, &err), 0);
    assert_int_equal(bench->rig.device->ops->buffer_open(bench->rig.device, RIG_MAX_ROWS,
                                                         (size_t)config->decoder_vocab_size,
                                                         &bench->logits),
                     0);
}

static void bench_close(struct bench *bench)
{
    bench->rig.device->ops->buffer_close(bench->logits);
    batch_close(bench->batch);
    constraint_close(bench->constraint);
    rig_close(&bench->rig);
}

/* Sentences of any length, beam and limits. */
struct work {
    struct sentence sentences[N_SENTENCES];
    int32_t sources[N_SENTENCES][MAX_SOURCE];
};

static void random_sentence(struct work *work, size_t i, const struct config *config)
{
    static const float penalties[] = {0, 0.6f, 1, -0.5f};
    struct sentence *sentence = &work->sentences[i];
    sentence->source = work->sources[i];
    sentence->n_source = random_pick(0, MAX_SOURCE);
    for (size_t t = 0; t < sentence->n_source; t++)
        work->sources[i][t] = (int32_t)random_pick(3, (size_t)config->vocab_size - 2);
    int beam = (int)random_pick(1, MAX_K), longest = (int)random_pick(1, 40);
    sentence->decoding = (struct acre_decoding){
        .beam_size = beam,
        .num_hypotheses = (int)random_pick(1, (size_t)beam),
        .max_length = longest,
        .min_length = (int)random_pick(0, (size_t)longest / 2),
        .length_penalty = penalties[random_pick(0, 3)],
        .beam_threshold = random_pick(0, 1) ? 0 : random_uniform(0.1F, 2),
    };
}

static struct work *random_work(const struct config *config)
{
    struct work *work = calloc(1, sizeof(*work));
    for (size_t i = 0; i < N_SENTENCES; i++)
        random_sentence(work, i, config);
    return work;
}

static void free_work(struct work *work)
{
    for (size_t i = 0; i < N_SENTENCES; i++)
        sentence_fini(&work->sentences[i]);
    free(work);
}

/* The same sources, not yet decoded. */
static struct work *same_work(const struct work *work)
{
    struct work *copy = calloc(1, sizeof(*copy));
    for (size_t i = 0; i < N_SENTENCES; i++) {
        const struct sentence *from = &work->sentences[i];
        struct sentence *to = &copy->sentences[i];
        memcpy(copy->sources[i], work->sources[i], sizeof(copy->sources[i]));
        to->source = copy->sources[i];
        to->n_source = from->n_source;
        to->decoding = from->decoding;
    }
    return copy;
}

static void assert_same(const struct sentence *a, const struct sentence *b)
{
    assert_int_equal(a->status, 0);
    assert_int_equal(b->status, 0);
    assert_int_equal(a->n_hypotheses, b->n_hypotheses);
    for (size_t i = 0; i < a->n_hypotheses; i++) {
        const struct sentence_hypothesis *x = &a->hypotheses[i], *y = &b->hypotheses[i];
        assert_int_equal(x->n_tokens, y->n_tokens);
        assert_memory_equal(x->tokens, y->tokens, x->n_tokens * sizeof(*x->tokens));
        assert_memory_equal(&x->score, &y->score, sizeof(x->score));
    }
}

/* How many finished; finished[MAX_SLOTS]. */
static size_t step(struct batch *batch, struct sentence **finished)
{
    struct batch_step step;
    size_t n_running = batch_running(batch);
    assert_int_equal(batch_step(batch, &step, NULL), 0);
    assert_int_equal(step.n_steps, n_running > 0);
    assert_true(step.n_rows >= n_running && step.n_rows <= n_running * MAX_K);
    memcpy(finished, step.finished, step.n_finished * sizeof(struct sentence *));
    return step.n_finished;
}

/* ---- Independence ---------------------------------------------------------------------------- */

static void run_alone(struct batch *batch, struct work *work)
{
    for (size_t i = 0; i < N_SENTENCES; i++) {
        struct sentence *sentence = &work->sentences[i], *finished[MAX_SLOTS];
        batch_admit(batch, &sentence, 1);
        while (step(batch, finished) == 0)
            assert_int_equal(batch_running(batch), 1);
        assert_ptr_equal(finished[0], sentence);
        assert_int_equal(batch_running(batch), 0);
    }
}

/* Newcomers in any number between steps, in a random order. */
static void run_together(struct batch *batch, struct work *work)
{
    size_t order[N_SENTENCES], n_in = 0, n_out = 0;
    random_order(N_SENTENCES, order);
    while (n_out < N_SENTENCES) {
        struct sentence *newcomers[MAX_SLOTS], *finished[MAX_SLOTS];
        size_t n = random_pick(0, MAX_SLOTS - batch_running(batch));
        n = n < N_SENTENCES - n_in ? n : N_SENTENCES - n_in;
        for (size_t i = 0; i < n; i++)
            newcomers[i] = &work->sentences[order[n_in++]];
        batch_admit(batch, newcomers, n);
        n_out += step(batch, finished);
        assert_int_equal(batch_running(batch), n_in - n_out);
    }
}

static void neighbours_change_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; rig_models[i]; i++) {
        struct bench bench;
        bench_open(&bench, rig_models[i], MAX_SLOTS);
        struct work *alone = random_work(&bench.rig.config), *together = same_work(alone);
        run_alone(bench.batch, alone);
        run_together(bench.batch, together);
        for (size_t s = 0; s < N_SENTENCES; s++)
            assert_same(&together->sentences[s], &alone->sentences[s]);
        free_work(alone), free_work(together);
        bench_close(&bench);
    }
}

/* ---- Scores ---------------------------------------------------------------------------------- */

/* The logits of a hypothesis, read by the decoder in one pass, without cache and search. free()
 * them. */
static float *read_whole(struct bench *bench, const struct sentence *sentence,
                         const struct sentence_hypothesis *h)
{
    struct rig *rig = &bench->rig;
    const struct device_ops *ops = rig->device->ops;
    int32_t ids[MAX_SOURCE + 1];
    size_t vocab = (size_t)rig->config.decoder_vocab_size, n = h->n_tokens + 1;
    struct entry entry = {
        .n_source = sentence->n_source, .source = sentence->source, .decoding = sentence->decoding};
    struct forced forced = {.n = n, .tokens = ids};
    entry.decoding.beam_size = 1;
    float *logits = malloc(n * vocab * sizeof(*logits));
    ids[0] = rig->config.start_token;
    memcpy(ids + 1, h->tokens, h->n_tokens * sizeof(*ids));
    rig_clear(rig);
    workspace_enter(&rig->workspace, 1, &entry);
    const struct buffer *hidden = workspace_decode(&rig->workspace, 1, &forced);
    ops->linear(rig->workspace.stream, rig->network->embeddings.output, rig->workspace.rows, hidden,
                ACTIVATION_NONE, bench->logits);
    ops->read(rig->workspace.stream, bench->logits, n, vocab, logits);
    return logits;
}

/* The log-probability of `token` among what the search could choose. */
static double token_score(const struct bench *bench, const float *logits, int32_t token,
                          const uint32_t *allowed)
{
    double sum = 0;
    for (int id = 0; id < bench->rig.config.decoder_vocab_size; id++)
        if (!bench->rig.config.renormalize || (allowed[id / 32] >> (id % 32) & 1))
            sum += exp((double)logits[id] - (double)logits[token]);
    return -log(sum);
}

static void assert_score(struct bench *bench, const struct sentence *sentence,
                         const struct sentence_hypothesis *h)
{
    const struct acre_decoding *decoding = &sentence->decoding;
    float *logits = read_whole(bench, sentence, h);
    double score = 0;
    uint8_t state = 0;
    for (size_t t = 0; t <= h->n_tokens && t < (size_t)decoding->max_length; t++) {
        int32_t token = t < h->n_tokens ? h->tokens[t] : bench->rig.config.end_token;
        const uint32_t *allowed =
            constraint_allowed(bench->constraint, state, decoding->max_length - (int)t,
                               (int)t >= decoding->min_length);
        assert_true(allowed[token / 32] >> (token % 32) & 1);
        score += token_score(bench, logits + t * (size_t)bench->rig.config.decoder_vocab_size,
                             token, allowed);
        state = constraint_next(bench->constraint, state, token);
    }
    if (!(fabs(score - (double)h->score) <= 1e-5 * (double)(h->n_tokens + 1) + 1e-5 * fabs(score)))
        fail_msg("%zu tokens, score %.9g, expected %.9g", h->n_tokens, (double)h->score, score);
    free(logits);
}

/* Cache rows, paths and beams in order: a score is what its tokens have in one whole pass. */
static void scores_are_those_of_the_tokens(void **state)
{
    (void)state;
    for (size_t i = 0; rig_models[i]; i++) {
        struct bench bench;
        bench_open(&bench, rig_models[i], MAX_SLOTS);
        struct work *work = random_work(&bench.rig.config);
        run_together(bench.batch, work);
        for (size_t s = 0; s < N_SENTENCES; s++)
            for (size_t n = 0; n < work->sentences[s].n_hypotheses; n++)
                assert_score(&bench, &work->sentences[s], &work->sentences[s].hypotheses[n]);
        free_work(work);
        bench_close(&bench);
    }
}

/* ---- Memory, leaving early ------------------------------------------------------------------- */

/* Two allocations for a sentence that finishes (hypotheses, tokens), none otherwise. */
static void steps_do_not_allocate(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench, "tests/golden/models/tiny-area", MAX_SLOTS);
    struct work *work = random_work(&bench.rig.config);
    size_t n_in = 0, n_out = 0;
    while (n_out < N_SENTENCES) {
        struct sentence *newcomer = &work->sentences[n_in], *finished[MAX_SLOTS];
        unsigned long before = mem_count();
        if (n_in < N_SENTENCES && batch_running(bench.batch) < MAX_SLOTS)
            batch_admit(bench.batch, &newcomer, 1), n_in++;
        assert_int_equal(mem_count() - before, 0);
        size_t n = step(bench.batch, finished);
        assert_int_equal(mem_count() - before, 2 * n);
        n_out += n;
    }
    free_work(work);
    bench_close(&bench);
}

static void no_memory_for_results_is_an_error(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench, "tests/golden/models/tiny-token", MAX_SLOTS);
    for (long n_good = 0; n_good < 2; n_good++) {
        struct work *work = random_work(&bench.rig.config);
        struct sentence *sentence = work->sentences, *finished[MAX_SLOTS];
        batch_admit(bench.batch, &sentence, 1);
        mem_fail_after(n_good);
        while (step(bench.batch, finished) == 0)
            ;
        mem_fail_after(-1);
        assert_int_equal(sentence->status, ACRE_ENOMEM);
        assert_int_equal(sentence->n_hypotheses, 0);
        free_work(work);
    }
    bench_close(&bench);
}

static void dropped_leave_and_others_stay(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench, "tests/golden/models/tiny-area", MAX_SLOTS);
    struct work *work = random_work(&bench.rig.config), *alone = same_work(work);
    struct sentence *finished[MAX_SLOTS], *both[2] = {&work->sentences[0], &work->sentences[1]};
    for (size_t i = 0; i < 2; i++)
        both[i]->decoding.min_length = both[i]->decoding.max_length = 20;
    alone->sentences[1].decoding = both[1]->decoding;
    batch_admit(bench.batch, both, 2);
    for (int t = 0; t < 5; t++)
        assert_int_equal(step(bench.batch, finished), 0);
    batch_drop(bench.batch, both[0]);
    assert_int_equal(batch_running(bench.batch), 1);
    assert_int_equal(both[0]->n_hypotheses, 0);
    while (step(bench.batch, finished) == 0)
        ;
    assert_ptr_equal(finished[0], both[1]);
    struct sentence *again = &alone->sentences[1];
    batch_admit(bench.batch, &again, 1);
    while (step(bench.batch, finished) == 0)
        ;
    assert_same(both[1], again);
    free_work(work), free_work(alone);
    bench_close(&bench);
}

static void batch_can_be_emptied(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench, "tests/golden/models/tiny-token", MAX_SLOTS);
    struct work *work = random_work(&bench.rig.config);
    struct sentence *newcomers[3], *finished[MAX_SLOTS];
    for (size_t i = 0; i < 3; i++)
        newcomers[i] = &work->sentences[i];
    batch_admit(bench.batch, newcomers, 3);
    for (size_t i = 3; i-- > 0;)
        batch_drop(bench.batch, newcomers[i]);
    assert_int_equal(batch_running(bench.batch), 0);
    assert_int_equal(step(bench.batch, finished), 0);
    free_work(work);
    bench_close(&bench);
}

/* Of every source token a step reads keys and values of the memory and, of each hypothesis, of half
 * a cache; here heads are narrower than what they are padded to. */
static void caches_bound_a_batch(void **state)
{
    (void)state;
    struct bench bench;
    bench_open(&bench, "tests/golden/models/tiny-token", MAX_SLOTS);
    const struct config *config = &bench.rig.config;
    size_t pair = 2 * sizeof(float) * (size_t)(config->d_model * config->decoder_layers);
    size_t greedy = batch_max_load(bench.batch, 1), wide = batch_max_load(bench.batch, 8);
    assert_in_range(greedy, 1, (4 << 20) / (pair + pair / 2));
    assert_in_range(wide, 1, (4 << 20) / (pair + 4 * pair));
    assert_true(wide >= greedy / 8);
    bench_close(&bench);

    bench_open(&bench, "tests/golden/models/tiny-lstm", MAX_SLOTS); /* has states, no caches */
    assert_int_equal(batch_max_load(bench.batch, 1), batch_max_load(bench.batch, 8));
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_change_nothing),
        cmocka_unit_test(scores_are_those_of_the_tokens),
        cmocka_unit_test(steps_do_not_allocate),
        cmocka_unit_test(no_memory_for_results_is_an_error),
        cmocka_unit_test(dropped_leave_and_others_stay),
        cmocka_unit_test(batch_can_be_emptied),
        cmocka_unit_test(caches_bound_a_batch),
    };
    random_seed(7);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
