/* What a model states that it takes is what it has taken, and closing gives all of it back. Run
 * from the root of the tree. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "../support/engines.h"
#include "base/mem.h"

#define LSTM "tests/golden/models/tiny-lstm"
#define TOKEN "tests/golden/models/tiny-token" /* stored as F32 */

/* Tokenizer, names, lists of these small models. */
enum { REST_BYTES = 64 * 1024 };

/* What a lane has once, for all its workers: most of it are the queue's places for callers; and by
 * how much the same load may differ from time to time, as malloc hands out blocks that are a little
 * larger than asked for. */
enum { SHARED_BYTES = 160 * 1024, SLACK_BYTES = 4 * 1024 };

struct stated {
    uint64_t parameters, packed, working;
};

static void assert_alike(uint64_t a, uint64_t b)
{
    assert_in_range(a + SLACK_BYTES - b, 0, 2 * SLACK_BYTES);
}

static struct stated state_of(const char *directory, struct acre_options options)
{
    struct acre_engine *engine;
    struct acre_err err;
    if (acre_engine_open(&options, &engine, &err) != 0)
        fail_msg("%s", err.text);
    const struct acre_model_info *info = acre_model_info(open_model(engine, directory));
    struct stated stated = {info->parameters, info->packed_bytes, info->working_bytes};
    acre_engine_close(engine);
    return stated;
}

/* ---- The count ------------------------------------------------------------------------------- */

static void blocks_and_mappings_count(void **state)
{
    (void)state;
    size_t before = mem_held(), page = (size_t)sysconf(_SC_PAGESIZE);
    char *block = mem_alloc(1000);
    size_t capacity = 1000;
    assert_in_range(mem_held() - before, 1000, 1100);
    assert_int_equal(mem_reserve(&block, &capacity, 5000, 1), 0);
    assert_in_range(mem_held() - before, 5000, 5100);
    mem_fail_after(0);
    assert_int_equal(mem_reserve(&block, &capacity, 9000, 1), ACRE_ENOMEM);
    assert_null(mem_map(page));
    mem_fail_after(-1);
    assert_in_range(mem_held() - before, 5000, 5100);
    mem_free(block);
    mem_free(NULL);
    assert_int_equal(mem_held(), before);
    void *pages = mem_map(page + 1);
    assert_int_equal(mem_held() - before, 2 * page);
    mem_discard(pages, page);
    assert_int_equal(mem_held() - before, 2 * page);
    mem_unmap(pages, page + 1);
    assert_int_equal(mem_held(), before);
}

static void *take(void *user)
{
    *(void **)user = mem_alloc(1 << 20);
    return NULL;
}

/* Models load side by side, and workers allocate results meanwhile. */
static void threads_count_for_themselves(void **state)
{
    (void)state;
    size_t before = mem_held();
    void *block = NULL;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take, &block), 0);
    pthread_join(thread, NULL);
    assert_non_null(block);
    assert_int_equal(mem_held(), before);
    mem_free(block);
}

/* ---- Models ---------------------------------------------------------------------------------- */

static void what_is_stated_is_held(const char *directory)
{
    size_t at_first = mem_held();
    struct acre_engine *engine = open_engine(2, 3);
    size_t before = mem_held();
    const struct acre_model_info *info = acre_model_info(open_model(engine, directory));
    size_t held = mem_held() - before, stated = info->packed_bytes + info->working_bytes;
    assert_in_range(held, stated, stated + REST_BYTES);
    assert_true(info->packed_bytes >= info->parameters); /* no type has less than a byte */
    acre_engine_close(engine);
    assert_int_equal(mem_held(), at_first);
}

static void models_state_what_they_hold(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MODELS; i++)
        what_is_stated_is_held(model_directories[i]);
    what_is_stated_is_held(LSTM);
}

static void every_worker_takes_the_same(void **state)
{
    (void)state;
    struct acre_options options = {.n_threads = 1, .batch_size = 3};
    struct stated one = state_of(TOKEN, options);
    options.n_threads = 4;
    struct stated four = state_of(TOKEN, options);
    assert_alike(four.packed, one.packed);
    assert_in_range(4 * one.working + SLACK_BYTES - four.working, 0, 3 * SHARED_BYTES);
}

/* Caches are for the largest batch of the largest beams of the longest hypotheses. */
static void caches_follow_the_limits(void **state)
{
    (void)state;
    struct acre_options options = {.n_threads = 1, .batch_size = 16, .max_beam_size = 4};
    struct stated few = state_of(TOKEN, options);
    options.max_beam_size = 8;
    struct stated wide = state_of(TOKEN, options);
    options.batch_size = 32;
    struct stated many = state_of(TOKEN, options);
    assert_true(2 * few.working > wide.working && wide.working > few.working);
    assert_true(2 * wide.working > many.working && many.working > wide.working);
    uint64_t of_beams = wide.working - few.working; /* 16 times 4 */
    assert_true(many.working - wide.working > 2 * of_beams);
    assert_alike(many.packed, few.packed);
}

/* A hypothesis of LSTMs has two rows of the cache, not one for each of its tokens: with 64
 * positions less than a single vector of 24 cells for each. */
static void lstms_cache_two_steps(void **state)
{
    (void)state;
    struct acre_options options = {.n_threads = 1, .batch_size = 32, .max_beam_size = 1};
    struct stated one = state_of(LSTM, options);
    options.max_beam_size = 8;
    struct stated eight = state_of(LSTM, options);
    assert_in_range(eight.working - one.working, 1, 32 * 7 * 64 * 24 * sizeof(float));
}

static void weights_follow_the_type(void **state)
{
    (void)state;
    struct acre_options options = {.n_threads = 1, .batch_size = 1, .compute_type = "int8"};
    struct stated int8 = state_of(TOKEN, options);
    options.compute_type = "bf16";
    struct stated bf16 = state_of(TOKEN, options);
    options.compute_type = "f32";
    struct stated f32 = state_of(TOKEN, options);
    /* The same numbers in 1, 2 and 4 bytes; int8 has scales and sums besides. */
    assert_true(f32.packed > 4 * f32.parameters);
    assert_in_range(f32.packed - bf16.packed, 18 * f32.parameters / 10, 2 * f32.parameters);
    assert_in_range(bf16.packed - int8.packed, 8 * f32.parameters / 10, f32.parameters);
}

/* Every 3rd allocation fails in turn; the last load succeeds. */
static void loads_that_fail_hold_nothing(const char *directory)
{
    struct acre_engine *engine = open_engine(2, 2);
    size_t before = mem_held();
    struct acre_model *model;
    struct acre_err err;
    long n = 0;
    for (mem_fail_after(n); acre_model_open(engine, directory, &model, &err) != 0;
         mem_fail_after(n += 3)) {
        mem_fail_after(-1);
        if (mem_held() != before)
            fail_msg("allocation %ld of %s fails: %zu bytes stay", n, directory,
                     mem_held() - before);
    }
    mem_fail_after(-1);
    assert_true(n > 60);
    acre_engine_close(engine);
}

static void failures_hold_nothing(void **state)
{
    (void)state;
    loads_that_fail_hold_nothing(TOKEN);
    loads_that_fail_hold_nothing(LSTM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_and_mappings_count),
        cmocka_unit_test(threads_count_for_themselves),
        cmocka_unit_test(models_state_what_they_hold),
        cmocka_unit_test(every_worker_takes_the_same),
        cmocka_unit_test(caches_follow_the_limits),
        cmocka_unit_test(lstms_cache_two_steps),
        cmocka_unit_test(weights_follow_the_type),
        cmocka_unit_test(failures_hold_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
