/* The engine through acre.h, on three of the golden models: results do not depend on what else is
 * translated, by how many threads and in which order; what a result holds. Run from the root of
 * the tree. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/engines.h"
#include "../support/random.h"
#include "../support/temp.h"
#include "../support/vocabulary.h"
#include "base/mem.h"

enum { N_LINES = 240, MAX_TOKENS = 30 };

/* ---- Independence ---------------------------------------------------------------------------- */

/* A line of tokens for one of the models. */
struct line {
    char *text; /* owned */
    size_t model;
    struct acre_decoding decoding;
};

static struct acre_decoding random_decoding(void)
{
    static const float penalties[] = {0, 0.6f, 1, -0.5f};
    int beam = (int)random_pick(1, 5), longest = (int)random_pick(1, 25);
    return (struct acre_decoding){
        .beam_size = beam,
        .num_hypotheses = (int)random_pick(1, (size_t)beam),
        .max_length = longest,
        .min_length = (int)random_pick(0, (size_t)longest / 3),
        .length_penalty = penalties[random_pick(0, 3)],
        .beam_threshold = random_pick(0, 1) ? 0 : random_uniform(0.1F, 2),
    };
}

static struct line *random_lines(void)
{
    struct line *lines = calloc(N_LINES, sizeof(*lines));
    struct vocabulary vocabulary[N_MODELS];
    for (size_t m = 0; m < N_MODELS; m++)
        vocabulary_init(&vocabulary[m], model_directories[m]);
    for (size_t i = 0; i < N_LINES; i++) {
        lines[i].model = random_pick(0, N_MODELS - 1);
        lines[i].text = vocabulary_line(&vocabulary[lines[i].model], random_pick(0, MAX_TOKENS));
        lines[i].decoding = random_decoding();
    }
    for (size_t m = 0; m < N_MODELS; m++)
        vocabulary_fini(&vocabulary[m]);
    return lines;
}

static void free_lines(struct line *lines)
{
    for (size_t i = 0; i < N_LINES; i++)
        free(lines[i].text);
    free(lines);
}

static void assert_same(const struct acre_job *a, const struct acre_job *b)
{
    const struct acre_result *x = acre_job_result(a), *y = acre_job_result(b);
    assert_int_equal(x->status, 0);
    assert_int_equal(y->status, 0);
    assert_int_equal(x->n_hypotheses, y->n_hypotheses);
    assert_int_equal(x->n_source_tokens, y->n_source_tokens);
    for (size_t i = 0; i < x->n_hypotheses; i++) {
        const struct acre_hypothesis *p = &x->hypotheses[i], *q = &y->hypotheses[i];
        assert_string_equal(p->text, q->text);
        assert_int_equal(p->n_tokens, q->n_tokens);
        assert_memory_equal(&p->score, &q->score, sizeof(p->score));
        assert_memory_equal(&p->normalized_score, &q->normalized_score, sizeof(p->score));
    }
}

/* One line after the other. */
static void translate_alone(struct acre_engine *engine, const struct line *lines,
                            struct acre_job **jobs)
{
    struct acre_model *models[N_MODELS];
    struct acre_err err;
    for (size_t m = 0; m < N_MODELS; m++)
        models[m] = open_model(engine, model_directories[m]);
    for (size_t i = 0; i < N_LINES; i++) {
        struct acre_request request = request_of(models[lines[i].model], lines[i].text, true);
        request.decoding = lines[i].decoding;
        if (acre_translate(&request, &jobs[i], &err) != 0)
            fail_msg("%s: %s", lines[i].text, err.text);
    }
}

/* All at once, in a random order, the models mixed, some with a deadline far away. */
static void translate_together(struct acre_engine *engine, const struct line *lines,
                               struct acre_job **jobs)
{
    struct acre_model *models[N_MODELS];
    size_t order[N_LINES];
    int calls[N_LINES] = {0};
    random_order(N_LINES, order);
    for (size_t m = 0; m < N_MODELS; m++)
        models[m] = open_model(engine, model_directories[m]);
    for (size_t n = 0; n < N_LINES; n++) {
        size_t i = order[n];
        struct acre_request request = request_of(models[lines[i].model], lines[i].text, true);
        request.decoding = lines[i].decoding;
        request.timeout_ms = random_pick(0, 1) ? 1000000 : 0;
        request.done = count_done;
        request.user = &calls[i];
        assert_int_equal(acre_submit(&request, &jobs[i], NULL), 0);
    }
    wait_done(N_LINES);
    for (size_t i = 0; i < N_LINES; i++)
        assert_int_equal(calls[i], 1);
    assert_int_equal(acre_engine_queued_tokens(engine), 0);
}

static size_t distinct_texts(struct acre_job **jobs)
{
    size_t n = 0;
    for (size_t i = 0; i < N_LINES; i++) {
        size_t k = 0;
        while (k < i && strcmp(acre_job_result(jobs[k])->hypotheses[0].text,
                               acre_job_result(jobs[i])->hypotheses[0].text) != 0)
            k++;
        n += k == i;
    }
    return n;
}

static void company_changes_nothing(void **state)
{
    (void)state;
    static const struct {
        int n_threads, batch_size;
    } ways[] = {{1, 3}, {1, 32}, {3, 1}, {3, 5}, {3, 32}};
    struct acre_job *alone[N_LINES], *together[N_LINES];
    random_seed(8);
    struct line *lines = random_lines();
    struct acre_engine *one = open_engine(1, 1);
    translate_alone(one, lines, alone);
    assert_in_range(distinct_texts(alone), N_LINES / 2, N_LINES); /* they do say something */
    for (size_t way = 0; way < sizeof(ways) / sizeof(ways[0]); way++) {
        struct acre_engine *engine = open_engine(ways[way].n_threads, ways[way].batch_size);
        translate_together(engine, lines, together);
        for (size_t i = 0; i < N_LINES; i++) {
            assert_same(together[i], alone[i]);
            acre_job_close(together[i]);
        }
        acre_engine_close(engine);
    }
    for (size_t i = 0; i < N_LINES; i++)
        acre_job_close(alone[i]);
    acre_engine_close(one);
    free_lines(lines);
}

/* One of several threads that translate and cancel at the same time. */
struct user {
    pthread_t thread;
    struct acre_model *model;
    const struct acre_job *expected;
    const struct line *line;
    bool same;
};

static void *use(void *argument)
{
    struct user *user = argument;
    struct acre_request request = request_of(user->model, user->line->text, true);
    request.decoding = user->line->decoding;
    user->same = true;
    for (int i = 0; i < 20; i++) {
        struct acre_job *job, *unwanted;
        int calls = 0;
        request.done = count_done;
        request.user = &calls;
        user->same &= acre_submit(&request, &unwanted, NULL) == 0;
        acre_job_cancel(unwanted);
        user->same &= acre_translate(&request, &job, NULL) == 0;
        user->same &= strcmp(acre_job_result(job)->hypotheses[0].text,
                             acre_job_result(user->expected)->hypotheses[0].text) == 0;
        acre_job_close(job);
        wait_called(&calls);
        acre_job_close(unwanted);
    }
    return NULL;
}

/* Meanwhile another model is opened. */
static void threads_share_an_engine(void **state)
{
    (void)state;
    enum { N_USERS = 4 };
    struct user users[N_USERS];
    struct acre_job *expected[N_USERS];
    random_seed(9);
    struct line *lines = random_lines();
    struct acre_engine *engine = open_engine(2, 3);
    for (size_t i = 0; i < N_USERS; i++) {
        users[i] = (struct user){.line = &lines[i]};
        users[i].model = open_model(engine, model_directories[lines[i].model]);
        struct acre_request request = request_of(users[i].model, lines[i].text, true);
        request.decoding = lines[i].decoding;
        assert_int_equal(acre_translate(&request, &expected[i], NULL), 0);
        users[i].expected = expected[i];
    }
    for (size_t i = 0; i < N_USERS; i++)
        assert_int_equal(pthread_create(&users[i].thread, NULL, use, &users[i]), 0);
    open_model(engine, model_directories[0]);
    for (size_t i = 0; i < N_USERS; i++) {
        pthread_join(users[i].thread, NULL);
        assert_true(users[i].same);
        acre_job_close(expected[i]);
    }
    acre_engine_close(engine);
    free_lines(lines);
}

/* ---- Results --------------------------------------------------------------------------------- */

static void hypotheses_are_ranked(void **state)
{
    (void)state;
    struct acre_engine *engine = open_engine(1, 8);
    for (size_t m = 0; m < N_MODELS; m++) {
        struct acre_job *job;
        struct acre_request request =
            request_of(open_model(engine, model_directories[m]), "a b a b", true);
        request.decoding = (struct acre_decoding){8, 8, 2, 12, 0.6f, 0};
        assert_int_equal(acre_translate(&request, &job, NULL), 0);
        const struct acre_result *result = acre_job_result(job);
        assert_int_equal(result->n_hypotheses, 8);
        assert_int_equal(result->n_sentences, 1);
        assert_int_equal(result->n_source_tokens, m == 1 ? 4 : result->n_source_tokens);
        for (size_t i = 0; i < 8; i++) {
            const struct acre_hypothesis *h = &result->hypotheses[i];
            assert_in_range(h->n_tokens, 2, 12);
            double normalized = h->score / pow((double)h->n_tokens + 1, (double)0.6f);
            assert_true(fabs(normalized - h->normalized_score) <= 1e-6 * fabs(normalized));
            assert_true(i == 0 || h[-1].normalized_score >= h->normalized_score - 1e-6);
            for (size_t k = 0; k < i; k++)
                assert_string_not_equal(h->text, result->hypotheses[k].text);
        }
        acre_job_close(job);
    }
    acre_engine_close(engine);
}

static struct acre_job *translate_up_to(struct acre_model *model, int max_length)
{
    struct acre_job *job;
    struct acre_request request = request_of(model, "The cat is old. Yes.", false);
    request.decoding = (struct acre_decoding){1, 1, 0, max_length, 1, 0};
    assert_int_equal(acre_translate(&request, &job, NULL), 0);
    return job;
}

/* Greedy search goes the same way with any limit, as far as that lets it. */
static void what_max_length_cut_says_so(void **state)
{
    (void)state;
    struct acre_engine *engine = open_engine(1, 8);
    size_t n_whole = 0;
    for (size_t m = 0; m < N_MODELS; m++) {
        struct acre_model *model = open_model(engine, model_directories[m]);
        int most = acre_model_info(model)->decoding.max_length;
        struct acre_job *job = translate_up_to(model, most);
        size_t n = acre_job_result(job)->hypotheses[0].parts[0].n_tokens;
        acre_job_close(job);
        if (n < 2 || n >= (size_t)most)
            continue;
        n_whole++;
        for (int limit = (int)n - 1; limit <= (int)n + 1 && limit <= most; limit++) {
            job = translate_up_to(model, limit);
            const struct acre_hypothesis *h = &acre_job_result(job)->hypotheses[0];
            assert_int_equal(h->parts[0].is_truncated, limit <= (int)n);
            assert_int_equal(h->is_truncated, h->parts[0].is_truncated || h->parts[1].is_truncated);
            assert_int_equal(h->parts[0].n_tokens + h->parts[1].n_tokens, h->n_tokens);
            acre_job_close(job);
        }
    }
    assert_true(n_whole > 0);
    acre_engine_close(engine);
}

/* A byte model with a max_length of its own. */
static void make_byte_model(char directory[sizeof(TEMP_TEMPLATE)], const char *generation)
{
    temp_make(directory);
    temp_copy(directory, "config.json", "tests/golden/models/tiny-char/config.json");
    temp_copy(directory, "model.safetensors", "tests/golden/models/tiny-char/model.safetensors");
    temp_copy(directory, "tokenizer_config.json",
              "tests/golden/models/tiny-char/tokenizer_config.json");
    temp_write_text(directory, "generation_config.json", generation);
}

/* How many sentences are made of WORDS words, a blank behind each. */
enum { WORDS = 50, WORD = 2 };

static size_t count_sentences(struct acre_model *model, bool is_tokens)
{
    char text[WORDS * WORD + 1] = "";
    for (size_t i = 0; i < WORDS; i++)
        memcpy(text + i * WORD, "a ", WORD);
    struct acre_job *job;
    struct acre_request request = request_of(model, text, is_tokens);
    request.decoding = (struct acre_decoding){1, 1, 0, 1, 1, 0}; /* max_length 1 */
    assert_int_equal(acre_translate(&request, &job, NULL), 0);
    size_t n = acre_job_result(job)->n_sentences;
    acre_job_close(job);
    return n;
}

/* They are up to two thirds of the model's own max_length, whatever that of the request is; but
 * what is short enough stays whole. A line of tokens is one, too. */
static void sentences_leave_room_for_their_translation(void **state)
{
    (void)state;
    static const struct {
        const char *generation;
        size_t n_sentences;
    } cases[] = {{"{\"max_length\": 127}", 2}, /* 84 bytes */
                 {"{\"max_length\": 31}", 2}}; /* 64 */
    for (size_t i = 0; i < 2; i++) {
        struct acre_engine *engine = open_engine(1, 8);
        char directory[sizeof(TEMP_TEMPLATE)];
        make_byte_model(directory, cases[i].generation);
        struct acre_model *model = open_model(engine, directory);
        assert_int_equal(count_sentences(model, false), cases[i].n_sentences);
        assert_int_equal(count_sentences(model, true), 1);
        acre_engine_close(engine);
        temp_remove(directory);
    }
}

/* White space is kept and nothing is translated: done comes from acre_submit() itself. */
static void whitespace_is_kept(void **state)
{
    (void)state;
    static const char *const texts[] = {"", " ", "\n\n", " \t\r\n \n"};
    struct acre_engine *engine = open_engine(1, 4);
    struct acre_model *model = open_model(engine, model_directories[0]);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct acre_job *job;
        int calls = 0;
        struct acre_request request = request_of(model, texts[i], false);
        request.done = count_done;
        request.user = &calls;
        assert_int_equal(acre_submit(&request, &job, NULL), 0);
        assert_int_equal(calls, 1);
        wait_done(1);
        const struct acre_result *result = acre_job_result(job);
        assert_int_equal(result->status, 0);
        assert_int_equal(result->n_hypotheses, 1);
        assert_string_equal(result->hypotheses[0].text, texts[i]);
        assert_int_equal(result->n_sentences, 0);
        assert_int_equal(result->hypotheses[0].n_tokens, 0);
        assert_true(result->hypotheses[0].score == 0);
        acre_job_close(job);
    }
    acre_engine_close(engine);
}

static void text_of_sentences_adds_up(void **state)
{
    (void)state;
    struct acre_engine *engine = open_engine(2, 4);
    struct acre_model *model = open_model(engine, model_directories[2]);
    struct acre_job *both, *one[2];
    struct acre_request request = request_of(model, " Hello there.\n\nHow are you?\n", false);
    struct acre_request parts[2] = {request_of(model, "Hello there.", false),
                                    request_of(model, "How are you?", false)};
    char text[4096];
    assert_int_equal(acre_translate(&request, &both, NULL), 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(acre_translate(&parts[i], &one[i], NULL), 0);
    const struct acre_hypothesis *a = acre_job_result(one[0])->hypotheses;
    const struct acre_hypothesis *b = acre_job_result(one[1])->hypotheses;
    const struct acre_hypothesis *whole = acre_job_result(both)->hypotheses;
    snprintf(text, sizeof(text), " %s\n\n%s\n", a->text, b->text);
    assert_string_equal(whole->text, text);
    assert_int_equal(acre_job_result(both)->n_sentences, 2);
    assert_int_equal(whole->n_tokens, a->n_tokens + b->n_tokens);
    assert_true(whole->score == a->score + b->score);
    acre_job_close(both), acre_job_close(one[0]), acre_job_close(one[1]);
    acre_engine_close(engine);
}

/* ---- Attention ------------------------------------------------------------------------------- */

static void check_place(const struct acre_attention *attention, size_t place)
{
    const struct acre_area *areas = attention->areas + attention->first[place];
    size_t n = attention->first[place + 1] - attention->first[place];
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)areas[i].weight;
        assert_true(areas[i].first >= 0 && areas[i].width >= 1 && areas[i].height == 1);
        assert_true((size_t)(areas[i].first + areas[i].width) <= attention->n_source);
        assert_true(i == 0 || areas[i - 1].weight >= areas[i].weight);
    }
    if (!(fabs(sum - 1) < 1e-5))
        fail_msg("place %zu: weights sum to %g", place, sum);
}

/* Every token's weights are a distribution over all areas, and the tokens are the translation's. */
static void attention_is_told(void **state)
{
    (void)state;
    struct acre_engine *engine = open_engine(1, 4);
    for (size_t m = 0; m < N_MODELS; m++) {
        struct acre_model *model = open_model(engine, model_directories[m]);
        struct vocabulary vocabulary;
        vocabulary_init(&vocabulary, model_directories[m]);
        char *line = vocabulary_line(&vocabulary, 9);
        struct acre_request request = request_of(model, line, true);
        struct acre_attention *attention, *none;
        struct acre_job *job;
        request.decoding.max_length = 12;
        request.decoding.min_length = 0;
        assert_int_equal(acre_translate(&request, &job, NULL), 0);
        const struct acre_hypothesis *best = &acre_job_result(job)->hypotheses[0];
        assert_int_equal(acre_attention_open(job, 0, 0, &attention, NULL), 0);
        assert_int_equal(attention->n_source, 10);
        assert_int_equal(attention->n_target, best->n_tokens + 1);
        for (size_t t = 0; t < best->n_tokens; t++)
            assert_string_equal(attention->target[t], best->tokens[t]);
        size_t places = attention->n_layers * attention->n_heads * attention->n_target;
        for (size_t place = 0; place < places; place++)
            check_place(attention, place);
        assert_int_equal(acre_attention_open(job, 1, 0, &none, NULL), ACRE_EOPTION);
        assert_null(none);
        acre_attention_close(attention);
        acre_job_close(job);
        vocabulary_fini(&vocabulary);
        free(line);
    }
    acre_engine_close(engine);
}

/* The worker who ends the last sentence keeps his batch waiting, so all have been written by then.
 * Here the cache has them, and who queues the job ends it. */
static void ending_a_job_writes_no_sentence(void **state)
{
    (void)state;
    enum { N_SENTENCES = 200 };
    const struct acre_options options = {.n_threads = 1, .cache_bytes = 1 << 20};
    char text[N_SENTENCES * 8 + 1] = "";
    struct acre_engine *engine;
    struct acre_job *job;
    bool is_split;
    int calls = 0;
    assert_int_equal(acre_engine_open(&options, &engine, NULL), 0);
    for (size_t i = 0; i < N_SENTENCES; i++)
        strcat(text, i % 2 ? "We go.\n" : "A cat.\n");
    struct acre_request request = request_of(open_model(engine, model_directories[0]), text, false);
    request.is_aligned = true;
    request.decoding.max_length = 5;
    assert_int_equal(acre_translate(&request, &job, NULL), 0);
    acre_job_close(job);
    request.done = count_done;
    request.user = &calls;
    assert_int_equal(acre_job_open(&request, &job, NULL), 0);
    assert_int_equal(acre_job_split(job, SIZE_MAX, &is_split, NULL), 0);
    unsigned long before = mem_count();
    assert_int_equal(acre_jobs_queue(&job, 1, NULL), 0);
    assert_in_range(mem_count() - before, 1, N_SENTENCES / 10);
    assert_int_equal(calls, 1);
    wait_done(1);
    assert_int_equal(acre_job_result(job)->n_sentences, N_SENTENCES);
    acre_job_close(job);
    acre_engine_close(engine);
}

/* ---- Statistics ------------------------------------------------------------------------------ */

static void statistics_count_sentences(void **state)
{
    (void)state;
    struct acre_engine *engine = open_engine(2, 3);
    struct acre_model *model = open_model(engine, model_directories[0]);
    struct acre_model *other = open_model(engine, model_directories[2]);
    struct acre_statistics got, want = {.done_sentences = 0};
    for (size_t i = 0; i < 7; i++) {
        struct acre_request request = request_of(model, "The cat is old. We go home.", false);
        struct acre_job *job;
        request.decoding.max_length = 10;
        assert_int_equal(acre_translate(&request, &job, NULL), 0);
        const struct acre_result *result = acre_job_result(job);
        want.done_sentences += result->n_sentences;
        want.done_source_tokens += result->n_source_tokens;
        want.done_target_tokens += result->hypotheses[0].n_tokens;
        acre_job_close(job);
    }
    acre_model_statistics(model, &got);
    assert_int_equal(got.done_sentences, want.done_sentences);
    assert_int_equal(got.done_source_tokens, want.done_source_tokens);
    assert_int_equal(got.done_target_tokens, want.done_target_tokens);
    assert_true(got.steps > 0 && got.rows >= got.steps);
    assert_int_equal(got.queued_sentences + got.queued_tokens + got.running_sentences, 0);
    assert_int_equal(got.cancelled_sentences + got.expired_sentences + got.failed_sentences, 0);
    acre_model_statistics(other, &got);
    assert_int_equal(got.done_sentences + got.steps, 0);
    acre_engine_close(engine);
}

/* Many texts, some cancelled at once, some too late to be in time: everybody is counted once. */
static void statistics_count_everybody_once(void **state)
{
    (void)state;
    enum { N = 60 };
    struct acre_engine *engine = open_engine(1, 2);
    struct acre_model *model = open_model(engine, model_directories[0]);
    struct acre_job *jobs[N];
    struct acre_statistics got;
    int calls[N] = {0};
    uint64_t n_cancelled = 0, n_expired = 0, n_done = 0;
    for (size_t i = 0; i < N; i++) {
        struct acre_request request = request_of(model, "The cat is old.", false);
        request.done = count_done;
        request.user = &calls[i];
        request.timeout_ms = i % 3 == 1 ? 1 : 0;
        assert_int_equal(acre_submit(&request, &jobs[i], NULL), 0);
        if (i % 3 == 2)
            acre_job_cancel(jobs[i]);
    }
    wait_done(N);
    for (size_t i = 0; i < N; i++) {
        int status = acre_job_result(jobs[i])->status;
        n_done += status == 0;
        n_cancelled += status == ACRE_ECANCELLED;
        n_expired += status == ACRE_ETIMEOUT;
        acre_job_close(jobs[i]);
    }
    acre_model_statistics(model, &got);
    assert_true(n_cancelled > 0);
    assert_int_equal(got.done_sentences, n_done);
    assert_int_equal(got.cancelled_sentences, n_cancelled);
    assert_int_equal(got.expired_sentences, n_expired);
    assert_int_equal(n_done + n_cancelled + n_expired, N);
    acre_engine_close(engine);
}

/* ---- Models that come and go ----------------------------------------------------------------- */

enum { N_ROUNDS = 30 };

/* Translates with a model that stays, as long as it is told to. */
struct resident {
    pthread_t thread;
    struct acre_model *model;
    atomic_bool is_over;
    size_t n_translated;
};

static void *translate_on(void *user)
{
    struct resident *resident = user;
    while (!atomic_load(&resident->is_over)) {
        struct acre_request request =
            request_of(resident->model, "Hello world. How are you?", false);
        struct acre_job *job;
        assert_int_equal(acre_translate(&request, &job, NULL), 0);
        assert_int_equal(acre_job_result(job)->status, 0);
        acre_job_close(job);
        resident->n_translated++;
    }
    return NULL;
}

static void models_come_and_go(void **state)
{
    (void)state;
    struct acre_engine *engine = open_engine(3, 4);
    struct resident resident = {.model = open_model(engine, model_directories[2])};
    char *first = NULL;
    pthread_create(&resident.thread, NULL, translate_on, &resident);
    for (size_t i = 0; i < N_ROUNDS; i++) {
        struct acre_model *guest = open_model(engine, model_directories[0]);
        struct acre_request request = request_of(guest, "One sentence. And two. And three.", false);
        struct acre_job *job;
        assert_int_equal(acre_translate(&request, &job, NULL), 0);
        assert_int_equal(acre_job_result(job)->status, 0);
        if (!first)
            first = strdup(acre_job_result(job)->hypotheses[0].text);
        assert_string_equal(acre_job_result(job)->hypotheses[0].text, first);
        acre_job_close(job);
        acre_model_close(guest);
    }
    acre_model_close(NULL);
    atomic_store(&resident.is_over, true);
    pthread_join(resident.thread, NULL);
    assert_true(resident.n_translated > 0);
    assert_int_equal(acre_engine_queued_tokens(engine), 0);
    free(first);
    acre_engine_close(engine);
}

/* Without `done`: a wait can end early, and one that ends says that the result is there. */
/* It takes long, so that nobody sees it done even where this thread does not run for a while. */
static void unfinished_job_is_not_waited_for(struct acre_model *model)
{
    static const char line[] = "The cat is old.\n";
    enum { LINES = 5000, BYTES = sizeof(line) - 1 };
    static char text[LINES * BYTES + 1];
    for (size_t i = 0; i < LINES; i++)
        memcpy(text + i * BYTES, line, BYTES);
    struct acre_request request = request_of(model, text, false);
    struct acre_job *job;
    assert_int_equal(acre_submit(&request, &job, NULL), 0);
    assert_false(acre_job_wait(job, 0));
    acre_job_cancel(job);
    assert_true(acre_job_wait(job, -1));
    assert_int_equal(acre_job_result(job)->status, ACRE_ECANCELLED);
    acre_job_close(job);
}

static void jobs_are_waited_for(void **state)
{
    (void)state;
    enum { N = 8 };
    struct acre_engine *engine = open_engine(1, 1);
    struct acre_model *model = open_model(engine, model_directories[0]);
    struct acre_request request = request_of(model, "The cat is old.", false);
    struct acre_job *jobs[N], *empty, *expected;
    assert_int_equal(acre_translate(&request, &expected, NULL), 0);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(acre_submit(&request, &jobs[i], NULL), 0);
    for (size_t i = N; i-- > 0;) {
        while (!acre_job_wait(jobs[i], 1))
            ;
        assert_true(acre_job_wait(jobs[i], -1));
        assert_string_equal(acre_job_result(jobs[i])->hypotheses[0].text,
                            acre_job_result(expected)->hypotheses[0].text);
        acre_job_close(jobs[i]);
    }
    acre_job_close(expected);
    unfinished_job_is_not_waited_for(model);
    request.text_bytes = 0;
    assert_int_equal(acre_submit(&request, &empty, NULL), 0);
    assert_true(acre_job_wait(empty, 0));
    acre_job_close(empty);
    acre_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_are_waited_for),
        cmocka_unit_test(company_changes_nothing),
        cmocka_unit_test(threads_share_an_engine),
        cmocka_unit_test(hypotheses_are_ranked),
        cmocka_unit_test(what_max_length_cut_says_so),
        cmocka_unit_test(sentences_leave_room_for_their_translation),
        cmocka_unit_test(whitespace_is_kept),
        cmocka_unit_test(text_of_sentences_adds_up),
        cmocka_unit_test(attention_is_told),
        cmocka_unit_test(ending_a_job_writes_no_sentence),
        cmocka_unit_test(statistics_count_sentences),
        cmocka_unit_test(statistics_count_everybody_once),
        cmocka_unit_test(models_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
