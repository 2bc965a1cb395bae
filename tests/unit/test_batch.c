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
};

static void bench_open(struct bench *bench, const char *directory, size_t n_slots)
{
    struct acre_err err;
    if (rig_open(&bench->rig, directory, KERNEL_F32, &err) != 0)
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
    struct batch_model model = {
        .device = bench->rig.device,
        .network = &bench->rig.network,
        .constraint = bench->constraint,
        .start_token = config->start_token,
        .end_token = config->end_token,
        .renormalize = config->renormalize,
    };
    struct batch_limits limits = {.max_sentences = n_slots, .max_beam_size = MAX_K};
    assert_int_equal(batch_open(&model, &limits, &bench->batch, &err), 0);
}

static void bench_close(struct bench *bench)
{
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
        .n_hypotheses = (int)random_pick(1, (size_t)beam),
        .max_length = longest,
        .min_length = (int)random_pick(0, (size_t)longest / 2),
        .length_penalty = penalties[random_pick(0, 3)],
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

/* ---- Independence ---------------------------------------------------------------------------- */

static void run_alone(struct batch *batch, struct work *work)
{
    for (size_t i = 0; i < N_SENTENCES; i++) {
        struct sentence *sentence = &work->sentences[i], *finished[MAX_SLOTS];
        batch_admit(batch, &sentence, 1);
        while (batch_step(batch, finished) == 0)
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
        n_out += batch_step(batch, finished);
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

/* The hypothesis read by the decoder in one pass, without cache and search, after its source was
 * encoded; hidden states are in the rig's workspace. Returns the encoder memory. */
static float *read_whole(struct bench *bench, const struct sentence *sentence,
                         const struct sentence_hypothesis *h)
{
    struct rig *rig = &bench->rig;
    int32_t ids[MAX_SOURCE + 1], positions[MAX_SOURCE + 1];
    size_t length = sentence->n_source + 1;
    size_t source[2] = {0, length}, target[2] = {0, h->n_tokens + 1};
    float *memory = malloc(transformer_memory_floats(rig->transformer, length) * sizeof(*memory));
    for (int32_t i = 0; i <= MAX_SOURCE; i++)
        positions[i] = i;
    memcpy(ids, sentence->source, sentence->n_source * sizeof(*ids));
    ids[sentence->n_source] = rig->config.end_token;
    transformer_encode(rig->transformer, rig->stream, &rig->workspace, 1, source, ids, positions);
    transformer_store_memory(rig->transformer, rig->stream, &rig->workspace, 1, source, &memory);
    struct memory_rows group = {memory, length, 0, h->n_tokens + 1};
    ids[0] = rig->config.start_token;
    memcpy(ids + 1, h->tokens, h->n_tokens * sizeof(*ids));
    transformer_decode(rig->transformer, rig->stream, &rig->workspace, 1, target, ids, positions,
                       &group);
    return memory;
}

/* The log-probability of `token` by row `row` of the workspace: once with only this token to
 * choose, for its logit, once with what the search could choose, for the softmax. */
static float token_score(struct bench *bench, size_t row, int32_t token, const uint32_t *allowed)
{
    struct rig *rig = &bench->rig;
    struct workspace at = rig->workspace;
    struct candidate best[2];
    uint32_t only[64] = {0};
    only[token / 32] = UINT32_C(1) << (token % 32);
    struct logit_scan one = {.best = &best[0], .k = 1, .maximum = -INFINITY, .allowed = only};
    struct logit_scan all = {.best = &best[1], .k = 1, .maximum = -INFINITY, .allowed = allowed};
    all.renormalize = rig->config.renormalize;
    at.hidden += row * (size_t)rig->config.d_model;
    transformer_search_output(rig->transformer, rig->stream, &at, 1, &one);
    transformer_search_output(rig->transformer, rig->stream, &at, 1, &all);
    assert_int_equal(one.n, 1);
    return best[0].logit - (all.maximum + logf(all.sum));
}

static void assert_score(struct bench *bench, const struct sentence *sentence,
                         const struct sentence_hypothesis *h)
{
    const struct acre_decoding *decoding = &sentence->decoding;
    float *memory = read_whole(bench, sentence, h), score = 0;
    uint8_t state = 0;
    for (size_t t = 0; t <= h->n_tokens && t < (size_t)decoding->max_length; t++) {
        int32_t token = t < h->n_tokens ? h->tokens[t] : bench->rig.config.end_token;
        const uint32_t *allowed =
            constraint_allowed(bench->constraint, state, decoding->max_length - (int)t,
                               (int)t >= decoding->min_length);
        assert_true(allowed[token / 32] >> (token % 32) & 1);
        score += token_score(bench, t, token, allowed);
        state = constraint_next(bench->constraint, state, token);
    }
    if (!(fabsf(score - h->score) <= 1e-5f * (float)(h->n_tokens + 1) + 1e-5f * fabsf(score)))
        fail_msg("%zu tokens, score %.9g, expected %.9g", h->n_tokens, (double)h->score,
                 (double)score);
    free(memory);
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
        size_t n = batch_step(bench.batch, finished);
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
        while (batch_step(bench.batch, finished) == 0)
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
        assert_int_equal(batch_step(bench.batch, finished), 0);
    batch_drop(bench.batch, both[0]);
    assert_int_equal(batch_running(bench.batch), 1);
    assert_int_equal(both[0]->n_hypotheses, 0);
    while (batch_step(bench.batch, finished) == 0)
        ;
    assert_ptr_equal(finished[0], both[1]);
    struct sentence *again = &alone->sentences[1];
    batch_admit(bench.batch, &again, 1);
    while (batch_step(bench.batch, finished) == 0)
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
    assert_int_equal(batch_step(bench.batch, finished), 0);
    free_work(work);
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
    };
    random_seed(7);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
