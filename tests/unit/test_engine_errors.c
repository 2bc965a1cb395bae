/* The engine through acre.h where things go wrong: errors are exact, done is called once whatever
 * happens, every allocation may fail. Run from the root of the tree. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/engines.h"
#include "../support/temp.h"
#include "base/mem.h" /* mem_fail_after */

/* ---- Errors ---------------------------------------------------------------------------------- */

static void assert_refused(const struct acre_request *request, int code, const char *text)
{
    struct acre_job *job = NULL;
    struct acre_err err = {.code = 0};
    assert_int_equal(acre_translate(request, &job, &err), code);
    assert_int_equal(err.code, code);
    assert_string_equal(err.text, text);
    assert_null(job);
    assert_int_equal(acre_translate(request, &job, NULL), code);
}

static void options_out_of_range(void **state)
{
    (void)state;
    static const struct {
        struct acre_decoding decoding;
        const char *text;
    } cases[] = {
        {{9, 1, 0, 10, 1, 0}, "beam_size: expected an integer from 1 to 8, found 9"},
        {{0, 1, 0, 10, 1, 0}, "beam_size: expected an integer from 1 to 8, found 0"},
        {{3, 4, 0, 10, 1, 0}, "num_hypotheses: expected an integer from 1 to 3, found 4"},
        {{3, 0, 0, 10, 1, 0}, "num_hypotheses: expected an integer from 1 to 3, found 0"},
        {{1, 1, 0, 128, 1, 0}, "max_length: expected an integer from 1 to 127, found 128"},
        {{1, 1, 0, 0, 1, 0}, "max_length: expected an integer from 1 to 127, found 0"},
        {{1, 1, 11, 10, 1, 0}, "min_length: expected an integer from 0 to 10, found 11"},
        {{1, 1, -1, 10, 1, 0}, "min_length: expected an integer from 0 to 10, found -1"},
        {{1, 1, 0, 10, 10.5f, 0}, "length_penalty: expected a number from -10 to 10, found 10.5"},
        {{1, 1, 0, 10, 1, -1}, "beam_threshold: expected a number from 0 to 1000, found -1"},
        {{1, 1, 0, 10, NAN, 0}, "length_penalty: expected a number from -10 to 10, found nan"},
    };
    struct acre_engine *engine = open_engine(1, 4);
    struct acre_request request = request_of(open_model(engine, model_directories[0]), "a", true);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        request.decoding = cases[i].decoding;
        assert_refused(&request, ACRE_EOPTION, cases[i].text);
        struct acre_job *job = (void *)&request;
        assert_int_equal(acre_job_open(&request, &job, NULL), ACRE_EOPTION);
        assert_null(job);
    }
    acre_engine_close(engine);
}

static void timeout_out_of_range(void **state)
{
    (void)state;
    struct acre_engine *engine = open_engine(1, 4);
    struct acre_request request = request_of(open_model(engine, model_directories[0]), "a", true);
    request.timeout_ms = -1;
    assert_refused(&request, ACRE_EOPTION,
                   "timeout_ms: expected an integer from 0 to 2147483647, found -1");
    acre_engine_close(engine);
}

static void texts_that_are_not_valid(void **state)
{
    (void)state;
    struct acre_engine *engine = open_engine(1, 4);
    struct acre_model *model = open_model(engine, model_directories[0]);
    struct acre_model *bytes = open_model(engine, model_directories[1]);
    struct acre_request bad = request_of(model, "caf\xE9 now", false);
    assert_refused(&bad, ACRE_EINPUT, "byte 3: expected UTF-8, found 0xE9");
    bad.is_tokens = true;
    assert_refused(&bad, ACRE_EINPUT, "byte 3: expected UTF-8, found 0xE9");
    struct acre_request word = request_of(bytes, "a bc", true);
    assert_refused(&word, ACRE_EINPUT, "expected a token of one character or <0xHH>, found \"bc\"");
    char line[257] = "";
    for (size_t i = 0; i < 128; i++)
        memcpy(line + 2 * i, "a ", 3);
    struct acre_request tokens = request_of(model, line, true);
    assert_refused(&tokens, ACRE_EINPUT, "expected at most 127 tokens, found 128");
    acre_engine_close(engine);
}

static void longest_line_is_accepted(void **state)
{
    (void)state;
    struct acre_engine *engine = open_engine(1, 4);
    char line[257] = "";
    for (size_t i = 0; i < 127; i++)
        memcpy(line + 2 * i, "a ", 3);
    struct acre_request request = request_of(open_model(engine, model_directories[0]), line, true);
    request.decoding = (struct acre_decoding){8, 8, 127, 127, 1, 0};
    struct acre_job *job;
    assert_int_equal(acre_translate(&request, &job, NULL), 0);
    assert_int_equal(acre_job_result(job)->status, 0);
    assert_int_equal(acre_job_result(job)->n_source_tokens, 127);
    assert_int_equal(acre_job_result(job)->hypotheses[7].n_tokens, 127);
    acre_job_close(job);
    acre_engine_close(engine);
}

/* Of a model with 12 beams, in an engine that has room for so many; its own decoding always fits.
 */
static int beam_size_of(const char *directory, int max_beam_size)
{
    struct acre_options options = {.n_threads = 1, .max_beam_size = max_beam_size};
    struct acre_engine *engine;
    struct acre_job *job;
    assert_int_equal(acre_engine_open(&options, &engine, NULL), 0);
    struct acre_request request = request_of(open_model(engine, directory), "a", false);
    assert_int_equal(acre_translate(&request, &job, NULL), 0);
    acre_job_close(job);
    acre_engine_close(engine);
    return request.decoding.beam_size;
}

static void decoding_of_a_model_fits_the_engine(void **state)
{
    (void)state;
    static const char *const files[] = {"config.json", "model.safetensors",
                                        "tokenizer_config.json"};
    char directory[sizeof(TEMP_TEMPLATE)], from[128];
    temp_make(directory);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(from, sizeof(from), "%s/%s", model_directories[1], files[i]);
        temp_copy(directory, files[i], from);
    }
    temp_write_text(directory, "generation_config.json", "{\"num_beams\": 12}");
    assert_int_equal(beam_size_of(directory, 0), 12);
    assert_int_equal(beam_size_of(directory, 4), 4);
    temp_remove(directory);
}

static void assert_named(const char *folder_name, const char *name)
{
    struct acre_engine *engine = open_engine(1, 1);
    struct acre_model *model = NULL;
    struct acre_err err;
    char folder[sizeof(TEMP_TEMPLATE)], golden[PATH_MAX], path[64];
    temp_make(folder);
    snprintf(path, sizeof(path), "%s/%s", folder, folder_name);
    assert_non_null(realpath(model_directories[0], golden));
    assert_int_equal(symlink(golden, path), 0);
    assert_int_equal(acre_model_open(engine, path, &model, &err), 0);
    assert_string_equal(acre_model_info(model)->name, name);
    acre_model_close(model);
    acre_engine_close(engine);
    temp_remove(folder);
}

/* They are parts of JSON, and of lines. */
static void names_are_text(void **state)
{
    (void)state;
    assert_named("mod\xE8le", "mod\xEF\xBF\xBDle");
    assert_named("en\nde", "en\xEF\xBF\xBD\x64\x65");
    assert_named("en-de\x7F", "en-de\xEF\xBF\xBD");
    assert_named("gr\xC3\xBC\xC3\x9F", "gr\xC3\xBC\xC3\x9F");
}

/* Whatever is in it before, the caller may close what was not opened. */
static void assert_not_opened(struct acre_options options, int code, const char *text)
{
    struct acre_engine *engine = (void *)&options;
    struct acre_err err = {.code = 0};
    assert_int_equal(acre_engine_open(&options, &engine, &err), code);
    assert_string_equal(err.text, text);
    assert_null(engine);
}

static void engines_that_cannot_be_opened(void **state)
{
    (void)state;
    assert_not_opened((struct acre_options){.device = "tpu"}, ACRE_EUNSUPPORTED,
                      "device: expected auto, cpu, cuda or cuda:N, found \"tpu\"");
    assert_not_opened((struct acre_options){.compute_type = "int3"}, ACRE_EUNSUPPORTED,
                      "compute_type: expected auto, f32, bf16 or int8, found \"int3\"");
    assert_not_opened((struct acre_options){.n_threads = -1}, ACRE_EOPTION,
                      "threads: expected an integer from 1 to 1024, found -1");
    assert_not_opened((struct acre_options){.batch_size = 2000}, ACRE_EOPTION,
                      "batch_size: expected an integer from 1 to 1024, found 2000");
    assert_not_opened((struct acre_options){.max_beam_size = 65}, ACRE_EOPTION,
                      "max_beam_size: expected an integer from 1 to 64, found 65");
    acre_engine_close(NULL);
}

static size_t n_processors = 1;

/* In the system's place. */
int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    (void)pid;
    if (n_processors > 8 * bytes) {
        errno = EINVAL;
        return -1;
    }
    CPU_ZERO_S(bytes, set);
    for (size_t i = 0; i < n_processors; i++)
        CPU_SET_S(i, bytes, set);
    return 0;
}

/* The number of threads is looked at before what is wrong here. */
static void more_processors_than_threads(void **state)
{
    (void)state;
    n_processors = 2 * ACRE_MAX_THREADS;
    assert_not_opened((struct acre_options){.batch_size = 2000}, ACRE_EOPTION,
                      "batch_size: expected an integer from 1 to 1024, found 2000");
    n_processors = 1;
}

static void models_that_are_no_directories(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"tests/golden/none", "tests/golden/none: expected a model directory, found nothing"},
        {"Makefile", "Makefile: expected a model directory, found a file"},
        {"Makefile/model", "Makefile/model: cannot be opened: Not a directory"},
    };
    struct acre_engine *engine = open_engine(1, 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct acre_model *model = (void *)engine;
        struct acre_err err;
        assert_int_equal(acre_model_open(engine, cases[i][0], &model, &err), ACRE_EIO);
        assert_string_equal(err.text, cases[i][1]);
        assert_null(model);
    }
    acre_engine_close(engine);
}

/* A worker that sleeps there is not in the child, to be waited for. */
static void engines_are_not_closed_in_forked_children(void **state)
{
    (void)state;
    struct acre_engine *engine = open_engine(1, 1);
    int status;
    usleep(100000);
    pid_t child = fork();
    if (child == 0) {
        alarm(10);
        acre_engine_close(engine);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    acre_engine_close(engine);
}

/* ---- Ending early ---------------------------------------------------------------------------- */

/* A text of many sentences that each run to the length limit. */
static struct acre_request long_request(struct acre_model *model, const char *text, int *calls)
{
    struct acre_request request = request_of(model, text, false);
    request.decoding = (struct acre_decoding){4, 1, 100, 100, 1, 0};
    request.done = count_done;
    request.user = calls;
    return request;
}

static char *many_sentences(size_t n)
{
    static const char sentence[] = "This is one more sentence.\n";
    char *text = calloc(n + 1, sizeof(sentence));
    for (size_t i = 0; i < n; i++)
        memcpy(text + i * strlen(sentence), sentence, sizeof(sentence));
    return text;
}

static void cancelled_job_is_done_once(void **state)
{
    (void)state;
    struct acre_engine *engine = open_engine(2, 2);
    struct acre_model *model = open_model(engine, model_directories[0]);
    char *text = many_sentences(200);
    for (int round = 0; round < 10; round++) {
        struct acre_job *job;
        int calls = 0;
        struct acre_request request = long_request(model, text, &calls);
        assert_int_equal(acre_submit(&request, &job, NULL), 0);
        usleep((useconds_t)round * 500);
        acre_job_cancel(job);
        acre_job_cancel(job);
        wait_done(1);
        const struct acre_result *result = acre_job_result(job);
        assert_int_equal(calls, 1);
        acre_job_cancel(job); /* too late, harmless */
        assert_int_equal(result->status, ACRE_ECANCELLED);
        assert_int_equal(result->n_hypotheses, 0);
        assert_string_equal(result->err.text, "the request was cancelled");
        assert_int_equal(acre_engine_queued_tokens(engine), 0);
        acre_job_close(job);
    }
    free(text);
    acre_engine_close(engine);
}

/* A job of a model, the only one. */
struct last {
    struct acre_job *job;
    struct acre_model *model;
    int calls;
};

static void close_model(void *user)
{
    struct last *last = user;
    acre_job_close(last->job);
    acre_model_close(last->model);
    count_done(&last->calls);
}

/* Cancelled while it runs: its worker was at a step of the model that it closes. */
static void done_closes_its_model(void **state)
{
    (void)state;
    struct acre_engine *engine = open_engine(1, 2);
    struct last last = {.model = open_model(engine, model_directories[0])};
    struct acre_statistics now = {0};
    char *text = many_sentences(200);
    struct acre_request request = long_request(last.model, text, NULL);
    request.done = close_model;
    request.user = &last;
    assert_int_equal(acre_submit(&request, &last.job, NULL), 0);
    while (now.running_sentences == 0)
        acre_model_statistics(last.model, &now);
    acre_job_cancel(last.job);
    wait_done(1);
    assert_int_equal(last.calls, 1);
    free(text);
    acre_engine_close(engine);
}

/* Cancelled while it waits behind another: none of its sentences was begun, and none counts as
 * queued any more although the worker is busy. */
static void waiting_job_is_cancelled(void **state)
{
    (void)state;
    struct acre_engine *engine = open_engine(1, 1);
    struct acre_model *model = open_model(engine, model_directories[0]);
    struct acre_job *jobs[2];
    int calls[2] = {0};
    char *text = many_sentences(200);
    for (size_t i = 0; i < 2; i++) {
        struct acre_request request = long_request(model, text, &calls[i]);
        assert_int_equal(acre_submit(&request, &jobs[i], NULL), 0);
    }
    acre_job_cancel(jobs[1]);
    acre_job_cancel(jobs[0]);
    assert_int_equal(acre_engine_queued_tokens(engine), 0);
    wait_done(2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(calls[i], 1);
        assert_int_equal(acre_job_result(jobs[i])->status, ACRE_ECANCELLED);
        acre_job_close(jobs[i]);
    }
    free(text);
    acre_engine_close(engine);
}

/* Of two texts in one batch one has too little time, first begun, then waiting behind the other. */
static void deadline_ends_its_job_only(void **state)
{
    (void)state;
    char *text = many_sentences(200);
    for (size_t late = 0; late < 2; late++) {
        struct acre_engine *engine = open_engine(1, 2); /* which does not know its speed */
        struct acre_model *model = open_model(engine, model_directories[0]);
        struct acre_job *jobs[2];
        int calls[2] = {0};
        for (size_t i = 0; i < 2; i++) {
            struct acre_request request = long_request(model, text, &calls[i]);
            request.timeout_ms = i == late ? 5 : 1000000;
            assert_int_equal(acre_submit(&request, &jobs[i], NULL), 0);
        }
        wait_called(&calls[late]);
        wait_called(&calls[1 - late]);
        const struct acre_result *result = acre_job_result(jobs[late]);
        assert_int_equal(calls[late], 1);
        assert_int_equal(result->status, ACRE_ETIMEOUT);
        assert_int_equal(result->n_hypotheses, 0);
        assert_string_equal(result->err.text, "the deadline has passed");
        assert_string_equal(acre_status_name(result->status), "deadline_exceeded");
        assert_int_equal(acre_status_http(result->status), 504);
        assert_int_equal(acre_job_result(jobs[1 - late])->status, 0);
        assert_int_equal(acre_engine_queued_tokens(engine), 0);
        acre_job_close(jobs[0]);
        acre_job_close(jobs[1]);
        acre_engine_close(engine);
    }
    free(text);
}

static void closing_ends_every_job(void **state)
{
    (void)state;
    enum { N_JOBS = 50 };
    struct acre_job *jobs[N_JOBS];
    int calls[N_JOBS] = {0}, n_closed = 0;
    struct acre_engine *engine = open_engine(2, 2);
    struct acre_model *model = open_model(engine, model_directories[0]);
    char *text = many_sentences(10);
    for (size_t i = 0; i < N_JOBS; i++) {
        struct acre_request request = long_request(model, text, &calls[i]);
        assert_int_equal(acre_submit(&request, &jobs[i], NULL), 0);
    }
    acre_engine_close(engine);
    for (size_t i = 0; i < N_JOBS; i++) {
        const struct acre_result *result = acre_job_result(jobs[i]);
        assert_int_equal(calls[i], 1);
        assert_true(result->status == 0 || result->status == ACRE_ECLOSED);
        n_closed += result->status == ACRE_ECLOSED;
        acre_job_close(jobs[i]);
    }
    assert_in_range(n_closed, 1, N_JOBS);
    wait_done(N_JOBS);
    free(text);
}

static void full_queue_is_busy(void **state)
{
    (void)state;
    struct acre_engine *engine;
    struct acre_options options = {.n_threads = 1, .batch_size = 1, .max_queued_tokens = 100};
    struct acre_job *job, *refused = NULL;
    struct acre_err err = {.code = 0};
    int calls = 0;
    char *text = many_sentences(200), expected[160];
    assert_int_equal(acre_engine_open(&options, &engine, NULL), 0);
    struct acre_model *model = open_model(engine, model_directories[0]);
    struct acre_request request = long_request(model, text, &calls);
    assert_int_equal(acre_submit(&request, &job, NULL), 0); /* too large, but alone */
    assert_int_equal(acre_submit(&request, &refused, &err), ACRE_EBUSY);
    assert_null(refused);
    size_t waiting, more;
    assert_int_equal(sscanf(err.text, "%zu tokens are waiting and %zu", &waiting, &more), 2);
    assert_in_range(waiting, 101, more);
    snprintf(expected, sizeof(expected),
             "%zu tokens are waiting and %zu more do not fit the limit of 100", waiting, more);
    assert_string_equal(err.text, expected);
    assert_int_equal(acre_status_http(err.code), 429);
    acre_job_cancel(job);
    wait_done(1);
    assert_int_equal(calls, 1);
    assert_int_equal(acre_job_result(job)->n_source_tokens, more);
    acre_job_close(job);
    request.text_bytes = 10;
    request.decoding.min_length = 0;
    assert_int_equal(acre_translate(&request, &job, NULL), 0); /* there is room again */
    assert_int_equal(acre_job_result(job)->status, 0);
    acre_job_close(job);
    free(text);
    acre_engine_close(engine);
}

/* ---- No memory ------------------------------------------------------------------------------- */

static void assert_no_memory(int status, const struct acre_err *err, long n)
{
    if (status != ACRE_ENOMEM || err->code != status || err->text[0] == '\0')
        fail_msg("allocation %ld fails: status %d (%s), text \"%s\"", n, status,
                 acre_status_name(status), err->text);
}

/* Far into a long series of like allocations only every 7th is tried. */
static long next_failure(long n)
{
    return n < 150 ? n + 1 : n + 7;
}

static void opening_survives_no_memory(void **state)
{
    (void)state;
    for (long n = 0;; n = next_failure(n)) {
        struct acre_engine *engine = NULL;
        struct acre_err err = {.code = 0};
        struct acre_options options = {.n_threads = 2};
        mem_fail_after(n);
        int status = acre_engine_open(&options, &engine, &err);
        mem_fail_after(-1);
        acre_engine_close(engine);
        if (status == 0)
            return;
        assert_no_memory(status, &err, n);
        assert_null(engine);
    }
}

static void model_survives_no_memory(void **state)
{
    (void)state;
    bool names_positions = false;
    for (size_t m = 0; m < N_MODELS; m++) {
        struct acre_engine *engine = open_engine(2, 2);
        for (long n = 0;; n = next_failure(n)) {
            struct acre_model *model = NULL;
            struct acre_err err = {.code = 0};
            mem_fail_after(n);
            int status = acre_model_open(engine, model_directories[m], &model, &err);
            mem_fail_after(-1);
            if (status == 0)
                break;
            assert_no_memory(status, &err, n);
            assert_null(model);
            names_positions |=
                strstr(err.text, "tiny-area: config.json: max_position_embeddings: expected 32768 "
                                 "bytes of memory for a table of 128 positions") != NULL;
        }
        acre_engine_close(engine);
    }
    assert_true(names_positions);
}

/* Fails in the caller's thread or in the worker: either way a clear answer, and no hypotheses. */
static void translating_survives_no_memory(void **state)
{
    (void)state;
    struct acre_engine *engine = open_engine(1, 4);
    for (size_t m = 0; m < N_MODELS; m++) {
        struct acre_model *model = open_model(engine, model_directories[m]);
        for (int is_tokens = 0; is_tokens < 2; is_tokens++) {
            struct acre_request request =
                request_of(model, is_tokens ? "a b" : "One. Two!\nThree?\n", is_tokens);
            request.decoding = (struct acre_decoding){3, 2, 0, 8, 1, 0};
            for (long n = 0;; n = next_failure(n)) {
                struct acre_job *job = NULL;
                struct acre_err err = {.code = 0};
                mem_fail_after(n);
                int status = acre_translate(&request, &job, &err);
                mem_fail_after(-1);
                const struct acre_result *result = status ? NULL : acre_job_result(job);
                bool good = result && result->status == 0;
                if (status != 0)
                    assert_no_memory(status, &err, n);
                else if (!good)
                    assert_no_memory(result->status, &result->err, n);
                if (result && !good)
                    assert_true(result->n_hypotheses == 0 && result->hypotheses == NULL);
                acre_job_close(job);
                if (good)
                    break;
            }
        }
    }
    assert_int_equal(acre_engine_queued_tokens(engine), 0);
    acre_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_out_of_range),
        cmocka_unit_test(timeout_out_of_range),
        cmocka_unit_test(texts_that_are_not_valid),
        cmocka_unit_test(longest_line_is_accepted),
        cmocka_unit_test(decoding_of_a_model_fits_the_engine),
        cmocka_unit_test(engines_that_cannot_be_opened),
        cmocka_unit_test(more_processors_than_threads),
        cmocka_unit_test(models_that_are_no_directories),
        cmocka_unit_test(engines_are_not_closed_in_forked_children),
        cmocka_unit_test(names_are_text),
        cmocka_unit_test(cancelled_job_is_done_once),
        cmocka_unit_test(done_closes_its_model),
        cmocka_unit_test(waiting_job_is_cancelled),
        cmocka_unit_test(deadline_ends_its_job_only),
        cmocka_unit_test(closing_ends_every_job),
        cmocka_unit_test(full_queue_is_busy),
        cmocka_unit_test(opening_survives_no_memory),
        cmocka_unit_test(model_survives_no_memory),
        cmocka_unit_test(translating_survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
