/* The cache of translations: what comes out is what went in, for the same model, source and
 * decoding and for no other; it holds no more than it may, drops what was not used for longest, and
 * does without memory that it cannot get. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "cache.h"

enum { MAX_SOURCE = 12 };

/* What the translation of a source is, in these tests: so that nobody has to keep it. */
static void translate(struct sentence *sentence, uint64_t model)
{
    size_t n = (size_t)sentence->decoding.num_hypotheses, each = 1 + sentence->n_source % 5;
    size_t width = sentence->is_aligned ? 2 : 1;
    int32_t *place = mem_alloc(n * each * width * sizeof(*place));
    sentence->tokens = place;
    sentence->hypotheses = mem_calloc(n, sizeof(*sentence->hypotheses));
    sentence->n_hypotheses = n;
    for (size_t h = 0; h < n; h++) {
        struct sentence_hypothesis *to = &sentence->hypotheses[h];
        *to = (struct sentence_hypothesis){place, each, (float)h + (float)sentence->source[0],
                                           sentence->is_aligned ? place + each : NULL};
        for (size_t i = 0; i < each * width; i++)
            *place++ = (int32_t)(model * 1000 + h * 100) + sentence->source[0] + (int32_t)i;
    }
}

static void check_same(const struct sentence *a, const struct sentence *b)
{
    assert_int_equal(a->n_hypotheses, b->n_hypotheses);
    for (size_t h = 0; h < a->n_hypotheses; h++) {
        const struct sentence_hypothesis *x = &a->hypotheses[h], *y = &b->hypotheses[h];
        assert_int_equal(x->n_tokens, y->n_tokens);
        assert_memory_equal(&x->score, &y->score, sizeof(x->score));
        assert_memory_equal(x->tokens, y->tokens, x->n_tokens * sizeof(*x->tokens));
        assert_int_equal(!x->alignment, !y->alignment);
        if (x->alignment)
            assert_memory_equal(x->alignment, y->alignment, x->n_tokens * sizeof(*x->alignment));
    }
}

static struct sentence make(const int32_t *source, size_t n)
{
    return (struct sentence){
        .source = source,
        .n_source = n,
        .decoding = {
            .beam_size = 4, .num_hypotheses = 1, .max_length = 50, .length_penalty = 1.0F}};
}

static bool is_cached(struct cache *cache, uint64_t model, struct sentence sentence)
{
    struct sentence expected = sentence;
    bool is = cache_get(cache, model, &sentence);
    if (is) {
        translate(&expected, model);
        check_same(&sentence, &expected);
        sentence_fini(&expected);
        sentence_fini(&sentence);
    } else {
        assert_null(sentence.hypotheses);
        assert_null(sentence.tokens);
    }
    return is;
}

static void keep(struct cache *cache, uint64_t model, struct sentence sentence)
{
    translate(&sentence, model);
    cache_put(cache, model, &sentence);
    sentence_fini(&sentence);
}

static void every_part_of_the_key_counts(void **state)
{
    (void)state;
    static const int32_t source[] = {5, 6, 7}, other[] = {5, 6, 8};
    struct cache *cache = cache_open(100000);
    struct sentence kept = make(source, 3), sentence;
    keep(cache, 1, kept);
    assert_true(is_cached(cache, 1, kept));
    assert_false(is_cached(cache, 2, kept));
    assert_false(is_cached(cache, 1, make(other, 3)));
    assert_false(is_cached(cache, 1, make(source, 2)));
#define DIFFERS(change)                                                                            \
    sentence = kept;                                                                               \
    sentence.change;                                                                               \
    assert_false(is_cached(cache, 1, sentence));
    DIFFERS(is_aligned = true)
    DIFFERS(first_item = 1)
    DIFFERS(decoding.beam_size = 5)
    DIFFERS(decoding.num_hypotheses = 2)
    DIFFERS(decoding.min_length = 1)
    DIFFERS(decoding.max_length = 51)
    DIFFERS(decoding.length_penalty = 1.5F)
    DIFFERS(decoding.beam_threshold = 2)
#undef DIFFERS
    sentence.is_aligned = true;
    sentence.decoding.num_hypotheses = 3;
    keep(cache, 1, sentence);
    assert_true(is_cached(cache, 1, sentence));
    assert_true(is_cached(cache, 1, kept));
    cache_close(cache);
}

static void the_oldest_goes(void **state)
{
    (void)state;
    int32_t sources[100];
    struct cache *cache = cache_open(4000);
    for (int32_t i = 0; i < 100; i++) {
        sources[i] = i;
        keep(cache, 0, make(&sources[i], 1));
        assert_true(cache_bytes(cache) <= 4000);
        assert_true(is_cached(cache, 0, make(&sources[0], 1))); /* used all the time */
    }
    size_t n_cached = 0;
    for (int32_t i = 99; i > 0 && is_cached(cache, 0, make(&sources[i], 1)); i--)
        n_cached++;
    assert_in_range(n_cached, 5, 40);
    for (size_t i = 1; i < 99 - n_cached; i++)
        assert_false(is_cached(cache, 0, make(&sources[i], 1)));
    cache_close(cache);
    cache = cache_open(1);
    keep(cache, 0, make(sources, 1));
    assert_false(is_cached(cache, 0, make(sources, 1)));
    cache_close(cache);
}

static void no_memory_is_no_harm(void **state)
{
    (void)state;
    static const int32_t source[] = {5, 6, 7};
    struct sentence sentence = make(source, 3), out;
    for (long n = 0; n < 2; n++) {
        mem_fail_after(n);
        struct cache *none = cache_open(100000);
        mem_fail_after(-1);
        assert_null(none);
    }
    struct cache *cache = cache_open(100000);
    translate(&sentence, 0);
    mem_fail_after(0);
    cache_put(cache, 0, &sentence);
    mem_fail_after(-1);
    assert_false(is_cached(cache, 0, make(source, 3)));
    cache_put(cache, 0, &sentence);
    for (long n = 0; n < 2; n++) {
        out = make(source, 3);
        mem_fail_after(n);
        assert_false(cache_get(cache, 0, &out));
        mem_fail_after(-1);
        assert_null(out.hypotheses);
        assert_null(out.tokens);
    }
    assert_true(is_cached(cache, 0, make(source, 3)));
    sentence_fini(&sentence);
    cache_close(cache);
}

static void *use(void *argument)
{
    struct cache *cache = argument;
    uint64_t state = (uint64_t)(uintptr_t)&state;
    for (int i = 0; i < 20000; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407U;
        int32_t source[MAX_SOURCE];
        size_t n = 1 + (state >> 60) % MAX_SOURCE;
        for (size_t t = 0; t < n; t++)
            source[t] = (int32_t)(state >> 40 & 7);
        struct sentence sentence = make(source, n);
        sentence.is_aligned = state >> 32 & 1;
        sentence.decoding.num_hypotheses = 1 + (int)(state >> 33 & 3);
        uint64_t model = state >> 36 & 1;
        if (!is_cached(cache, model, sentence))
            keep(cache, model, sentence);
    }
    return NULL;
}

static void several_threads_share_it(void **state)
{
    (void)state;
    enum { N = 4, BYTES = 20000 };
    struct cache *cache = cache_open(BYTES);
    pthread_t threads[N];
    for (size_t i = 0; i < N; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, cache), 0);
    for (size_t i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    assert_in_range(cache_bytes(cache), BYTES / 2, BYTES);
    cache_close(cache);
}

/* ---- Chosen sentences ------------------------------------------------------------------------ */

enum { N_CHOSEN = 16000, CHAINS = 4096 };

/* What the hash would be if it began with the model alone, as all of it is known to everybody. */
static uint64_t guess_hash(uint64_t model, const struct sentence *sentence)
{
    uint64_t parts[3 + MAX_SOURCE] = {model, (uint64_t)sentence->decoding.beam_size, UINT32_MAX};
    uint64_t hash = parts[0];
    for (size_t i = 0; i < sentence->n_source; i++)
        parts[3 + i] = (uint32_t)sentence->source[i];
    for (size_t i = 1; i < 3 + sentence->n_source; i++) {
        hash = (hash ^ parts[i]) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    return hash;
}

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double seconds_of(struct cache *cache, const struct sentence *sentences, size_t n)
{
    double begin = cpu_seconds();
    for (size_t i = 0; i < n; i++)
        assert_true(is_cached(cache, 1, sentences[i]));
    return cpu_seconds() - begin;
}

/* Of a cache that keeps them all. */
static double seconds_to_find(const struct sentence *sentences, size_t n)
{
    struct cache *cache = cache_open((size_t)CHAINS << 10);
    for (size_t i = 0; i < n; i++)
        keep(cache, 1, sentences[i]);
    double seconds = seconds_of(cache, sentences, n);
    cache_close(cache);
    return seconds;
}

/* One word, by ways of decoding that nobody can tell apart, and places of it. */
static void vary(struct sentence *sentence, size_t way, int i)
{
    static const int32_t word[] = {5, 6};
    *sentence = make(word, 2);
    if (way == 0)
        sentence->decoding.length_penalty = (float)i / N_CHOSEN;
    else if (way == 1)
        sentence->decoding.beam_threshold = (float)i / N_CHOSEN;
    else if (way == 2)
        sentence->decoding.max_length = 1 + i;
    else
        sentence->first_item = (size_t)i;
}

static void nobody_can_fill_one_chain(void **state)
{
    (void)state;
    static int32_t sources[N_CHOSEN][2];
    static struct sentence sentences[N_CHOSEN];
    for (int32_t i = 0; i < N_CHOSEN; i++) {
        sources[i][0] = 100000 + i / 100, sources[i][1] = i % 100;
        sentences[i] = make(sources[i], 2);
    }
    double usual = seconds_to_find(sentences, N_CHOSEN);
    for (int32_t i = 0, n = 0; n < N_CHOSEN; i++) {
        int32_t source[2] = {i >> 12, i & 4095};
        struct sentence sentence = make(source, 2);
        if (guess_hash(1, &sentence) % CHAINS == 0)
            memcpy(sources[n++], source, sizeof(source));
    }
    assert_true(seconds_to_find(sentences, N_CHOSEN) < 10 * usual + 0.02);
    for (size_t way = 0; way < 4; way++) {
        for (int i = 0; i < N_CHOSEN; i++)
            vary(&sentences[i], way, i);
        assert_true(seconds_to_find(sentences, N_CHOSEN) < 10 * usual + 0.02);
    }
}

/* Zeros are equal, and so are found for each other, whatever their signs. */
static void zeros_are_one(void **state)
{
    (void)state;
    static const int32_t source[] = {5};
    struct cache *cache = cache_open(100000);
    struct sentence sentence = make(source, 1);
    sentence.decoding.length_penalty = 0.0F;
    keep(cache, 1, sentence);
    sentence.decoding.length_penalty = -0.0F;
    assert_true(is_cached(cache, 1, sentence));
    cache_close(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_of_the_key_counts), cmocka_unit_test(the_oldest_goes),
        cmocka_unit_test(no_memory_is_no_harm),         cmocka_unit_test(several_threads_share_it),
        cmocka_unit_test(nobody_can_fill_one_chain),    cmocka_unit_test(zeros_are_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
