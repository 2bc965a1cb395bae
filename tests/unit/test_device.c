/* Devices that work behind the host's back, through acre.h: a lost one ends all its sentences with
 * a named error and is reported, one that tells late changes no translation. Run from the root of
 * the tree. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/engines.h"
#include "../support/odd_device.h"
#include "../support/random.h"
#include "engine.h"

enum { N_TEXTS = 40, N_TOKENS = 12 };

static const char *const words[] = {"the ", "a ", "house ", "cat ", "is ", "old. ", "we ", "go "};

/* Texts of one to three sentences. */
struct texts {
    char of[N_TEXTS][256];
};

static struct texts random_texts(void)
{
    struct texts texts;
    for (size_t i = 0; i < N_TEXTS; i++) {
        texts.of[i][0] = '\0';
        for (size_t n = random_pick(1, 30); n > 0; n--)
            strcat(texts.of[i], words[random_pick(0, 7)]);
    }
    return texts;
}

/* On so many devices, of which the first is the one that is lost. */
static struct acre_engine *open_odds(const struct odd_habits *habits, size_t n_devices,
                                     int n_threads, int batch_size)
{
    struct acre_engine *engine;
    struct acre_err err;
    struct acre_options options = {.n_threads = n_threads, .batch_size = batch_size};
    struct device_set devices = {{odd_device_open(habits)}, n_devices};
    for (size_t i = 1; i < n_devices; i++)
        devices.all[i] = odd_device_open_second();
    if (engine_open_on(&devices, &options, &engine, &err) != 0)
        fail_msg("%s", err.text);
    return engine;
}

static struct acre_engine *open_odd(const struct odd_habits *habits, int n_threads, int batch_size)
{
    return open_odds(habits, 1, n_threads, batch_size);
}

static struct acre_request counted(struct acre_model *model, const char *text, int *calls)
{
    struct acre_request request = request_of(model, text, false);
    request.decoding.max_length = N_TOKENS;
    request.done = count_done;
    request.user = calls;
    return request;
}

/* ---- Lost ------------------------------------------------------------------------------------ */

/* All texts at once; how many came back with ACRE_EDEVICE, all others being translated. */
static size_t submit_all(struct acre_model *model, const struct texts *texts, size_t *n_accepted)
{
    struct acre_job *jobs[N_TEXTS];
    struct acre_err err;
    int calls[N_TEXTS] = {0};
    size_t n = 0, n_lost = 0;
    for (size_t i = 0; i < N_TEXTS; i++) {
        struct acre_request request = counted(model, texts->of[i], &calls[n]);
        int status = acre_submit(&request, &jobs[n], &err);
        n += status == 0;
        assert_true(status == 0 || status == ACRE_EDEVICE);
    }
    wait_done(n);
    for (size_t i = 0; i < n; i++) {
        const struct acre_result *result = acre_job_result(jobs[i]);
        assert_int_equal(calls[i], 1);
        assert_true(result->status == 0 || result->status == ACRE_EDEVICE);
        if (result->status == ACRE_EDEVICE)
            assert_string_equal(result->err.text, "the device that computes is lost");
        n_lost += result->status == ACRE_EDEVICE;
        acre_job_close(jobs[i]);
    }
    *n_accepted = n;
    return n_lost;
}

static void assert_lost(struct acre_engine *engine, struct acre_model *model, long lost_after)
{
    struct acre_err err = {.code = 0};
    struct acre_job *job;
    char text[64];
    int calls = 0;
    struct acre_request request = counted(model, "the cat is old.", &calls);
    snprintf(text, sizeof(text), "odd device: lost after %ld polls", lost_after);
    assert_int_equal(acre_engine_health(engine, &err), ACRE_EDEVICE);
    assert_int_equal(err.code, ACRE_EDEVICE);
    assert_string_equal(err.text, text);
    assert_int_equal(acre_submit(&request, &job, &err), ACRE_EDEVICE);
    assert_string_equal(err.text, text);
    assert_int_equal(acre_status_http(ACRE_EDEVICE), 503);
    assert_string_equal(acre_status_name(ACRE_EDEVICE), "device_lost");
}

static void lost_device_ends_everybody(void **state)
{
    (void)state;
    static const long lost_after[] = {0, 1, 7, 30};
    for (size_t i = 0; i < 4; i++) {
        for (int n_threads = 1; n_threads <= 3; n_threads++) {
            const struct odd_habits habits = {.lost_after = lost_after[i],
                                              .is_late = n_threads == 2};
            struct acre_engine *engine = open_odd(&habits, n_threads, n_threads);
            struct acre_model *model = open_model(engine, model_directories[0]);
            struct acre_statistics statistics;
            struct texts texts = random_texts();
            size_t n_accepted;
            assert_int_equal(acre_engine_health(engine, NULL), 0);
            size_t n_lost = submit_all(model, &texts, &n_accepted);
            assert_true(n_lost > 0 || n_accepted < N_TEXTS);
            assert_lost(engine, model, lost_after[i]);
            acre_model_statistics(model, &statistics);
            assert_true(statistics.failed_sentences >= n_lost);
            assert_int_equal(statistics.queued_sentences + statistics.running_sentences, 0);
            acre_engine_close(engine);
        }
    }
}

/* ---- A fallback ------------------------------------------------------------------------------ */

static int open_with_fallback(long lost_after, size_t max_queued_tokens,
                              struct acre_engine **engine, struct acre_err *err)
{
    const struct odd_habits habits = {.lost_after = lost_after};
    const struct acre_options options = {.n_threads = 1,
                                         .batch_size = 3,
                                         .max_queued_tokens = max_queued_tokens,
                                         .cache_bytes = 1 << 20,
                                         .device_fallback = "cpu"};
    const struct device_set devices = {{odd_device_open(&habits)}, 1};
    return engine_open_on(&devices, &options, engine, err);
}

/* Also what is more than may wait: it was accepted when nothing did. */
static void fallback_takes_all(void **state)
{
    (void)state;
    static const char text[] =
        "the cat is old. we go. a house is old. the house. we go to the cat.";
    for (long lost_after = 0; lost_after < 6; lost_after += 5) {
        struct acre_engine *engine;
        struct acre_job *job;
        assert_int_equal(open_with_fallback(lost_after, 4, &engine, NULL), 0);
        struct acre_model *model = open_model(engine, model_directories[0]);
        struct acre_request request = counted(model, text, NULL);
        assert_int_equal(acre_translate(&request, &job, NULL), 0);
        assert_int_equal(acre_job_result(job)->status, 0);
        acre_job_close(job);
        acre_engine_close(engine);
    }
}

/* It may be at something when all is closed; what it ends then is still of its models. */
static void fallback_ends_before_its_models(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        struct acre_engine *engine;
        struct acre_job *jobs[N_TEXTS];
        struct texts texts = random_texts();
        int calls[N_TEXTS] = {0};
        assert_int_equal(open_with_fallback(round, 0, &engine, NULL), 0);
        struct acre_model *model = open_model(engine, model_directories[0]);
        for (size_t i = 0; i < N_TEXTS; i++) {
            struct acre_request request = counted(model, texts.of[i], &calls[i]);
            assert_int_equal(acre_submit(&request, &jobs[i], NULL), 0);
        }
        size_t n_waited = random_pick(1, N_TEXTS / 2);
        wait_done(n_waited);
        acre_engine_close(engine);
        wait_done(N_TEXTS - n_waited);
        for (size_t i = 0; i < N_TEXTS; i++) {
            assert_int_equal(calls[i], 1);
            acre_job_close(jobs[i]);
        }
    }
}

struct asking {
    struct acre_engine *engine;
    struct acre_request request;
    struct acre_job *job;
    int status, calls;
};

/* All that `done` may call, of an engine that is being closed too. */
static void ask(void *user)
{
    struct asking *asking = user;
    struct acre_statistics statistics;
    struct acre_job *again;
    acre_model_statistics(asking->request.model, &statistics);
    asking->status = acre_engine_queued_tokens(asking->engine) == 0
                         ? acre_submit(&asking->request, &again, NULL)
                         : ACRE_EBUSY;
    count_done(&asking->calls);
}

/* What is freed is filled with something else, so that nobody can read on in it. */
static void fallback_ends_before_its_scheduler(void **state)
{
    (void)state;
    static const char line[] = "the cat is old.\n";
    char text[200 * sizeof(line)] = "";
    struct asking asking = {.calls = 0};
    struct acre_statistics statistics = {0};
    for (size_t i = 0; i < 200; i++)
        strcat(text, line);
    mallopt(M_PERTURB, 0x5A);
    assert_int_equal(open_with_fallback(0, 0, &asking.engine, NULL), 0);
    struct acre_model *model = open_model(asking.engine, model_directories[0]);
    asking.request = request_of(model, text, false);
    asking.request.decoding.max_length = acre_model_info(model)->max_target_tokens;
    asking.request.decoding.min_length = asking.request.decoding.max_length;
    asking.request.done = ask;
    asking.request.user = &asking;
    assert_int_equal(acre_submit(&asking.request, &asking.job, NULL), 0);
    while (statistics.running_sentences == 0)
        acre_model_statistics(model->fallback, &statistics);
    acre_engine_close(asking.engine);
    mallopt(M_PERTURB, 0);
    wait_done(1);
    assert_int_equal(asking.status, ACRE_ECLOSED);
    acre_job_close(asking.job);
}

static void engine_without_its_fallback_is_no_engine(void **state)
{
    (void)state;
    struct acre_engine *engine = NULL;
    struct acre_err err = {.code = 0};
    const struct odd_habits habits = {.lost_after = -1};
    const struct acre_options options = {.device_fallback = "cpu"};
    const struct device_set devices = {{odd_device_open(&habits)}, 1};
    setenv("ACRE_CPU", "bogus", 1);
    int status = engine_open_on(&devices, &options, &engine, &err);
    unsetenv("ACRE_CPU");
    assert_int_equal(status, ACRE_EOPTION);
    assert_non_null(strstr(err.text, "bogus"));
    assert_null(engine);
}

/* ---- Late ------------------------------------------------------------------------------------ */

static void assert_same(const struct acre_job *a, const struct acre_job *b)
{
    const struct acre_result *x = acre_job_result(a), *y = acre_job_result(b);
    assert_int_equal(x->status, 0);
    assert_int_equal(y->status, 0);
    assert_int_equal(x->n_hypotheses, y->n_hypotheses);
    for (size_t i = 0; i < x->n_hypotheses; i++) {
        assert_string_equal(x->hypotheses[i].text, y->hypotheses[i].text);
        assert_true(x->hypotheses[i].score == y->hypotheses[i].score);
    }
}

/* Some are cancelled on the way: their slots are entered again while their ends are under way. */
static void late_device_changes_nothing(void **state)
{
    (void)state;
    const struct odd_habits late = {.lost_after = -1, .is_late = true};
    for (size_t m = 0; m < N_MODELS; m++) {
        struct acre_engine *engine = open_odd(&late, 2, 3), *plain = open_engine(1, 4);
        struct acre_model *model = open_model(engine, model_directories[m]);
        struct acre_model *plain_model = open_model(plain, model_directories[m]);
        struct texts texts = random_texts();
        struct acre_job *jobs[N_TEXTS];
        int calls[N_TEXTS] = {0};
        for (size_t i = 0; i < N_TEXTS; i++) {
            struct acre_request request = counted(model, texts.of[i], &calls[i]);
            assert_int_equal(acre_submit(&request, &jobs[i], NULL), 0);
            if (i % 5 == 4)
                acre_job_cancel(jobs[i - random_pick(0, 3)]);
        }
        wait_done(N_TEXTS);
        for (size_t i = 0; i < N_TEXTS; i++) {
            struct acre_request request = counted(plain_model, texts.of[i], NULL);
            struct acre_job *job;
            assert_int_equal(acre_translate(&request, &job, NULL), 0);
            if (acre_job_result(jobs[i])->status != ACRE_ECANCELLED)
                assert_same(jobs[i], job);
            acre_job_close(job);
            acre_job_close(jobs[i]);
        }
        acre_engine_close(engine);
        acre_engine_close(plain);
    }
}

/* ---- One of several -------------------------------------------------------------------------- */

/* The other one may have been quick enough to do nearly all. Many at once, as one at a time may
 * always be the other's. */
static void use_until_lost(struct acre_engine *engine, struct acre_model *model,
                           const struct texts *texts)
{
    size_t n_devices, n_lost = 0, n_accepted;
    for (int i = 0; i < 1000 && n_lost == 0; i++) {
        assert_int_equal(submit_all(model, texts, &n_accepted), 0);
        assert_int_equal(n_accepted, N_TEXTS);
        acre_engine_devices(engine, &n_devices, &n_lost);
    }
}

/* What the lost one had goes to the other, also what is asked for later; nobody is told. */
static void others_go_on(void **state)
{
    (void)state;
    static const long lost_after[] = {0, 3, 30};
    struct acre_engine *plain = open_engine(1, 4);
    struct acre_model *plain_model = open_model(plain, model_directories[0]);
    for (size_t i = 0; i < 6; i++) {
        const struct odd_habits habits = {.lost_after = lost_after[i / 2], .is_late = i % 2};
        struct acre_engine *engine = open_odds(&habits, 2, 1 + (int)i % 2, 3);
        struct acre_model *model = open_model(engine, model_directories[0]);
        struct texts texts = random_texts();
        struct acre_job *jobs[N_TEXTS], *job;
        int calls[N_TEXTS] = {0};
        size_t n_devices, n_lost;
        for (size_t t = 0; t < N_TEXTS; t++) {
            struct acre_request request = counted(model, texts.of[t], &calls[t]);
            assert_int_equal(acre_submit(&request, &jobs[t], NULL), 0);
        }
        wait_done(N_TEXTS);
        for (size_t t = 0; t < N_TEXTS; t++) {
            struct acre_request request = counted(plain_model, texts.of[t], NULL);
            assert_int_equal(acre_translate(&request, &job, NULL), 0);
            assert_same(jobs[t], job);
            acre_job_close(job);
            acre_job_close(jobs[t]);
        }
        use_until_lost(engine, model, &texts);
        acre_engine_devices(engine, &n_devices, &n_lost);
        assert_int_equal(n_devices, 2);
        assert_int_equal(n_lost, 1);
        assert_int_equal(acre_engine_health(engine, NULL), 0);
        struct acre_model *later = open_model(engine, model_directories[1]);
        struct acre_request request = counted(later, "the cat is old.", NULL);
        assert_int_equal(acre_translate(&request, &job, NULL), 0);
        assert_int_equal(acre_job_result(job)->status, 0);
        acre_job_close(job);
        acre_engine_close(engine);
    }
    acre_engine_close(plain);
}

/* Each has all of a model, and both are stated. */
static void memory_of_all_is_stated(void **state)
{
    (void)state;
    const struct odd_habits well = {.lost_after = -1};
    uint64_t packed[2], working[2];
    for (size_t n = 1; n <= 2; n++) {
        struct acre_engine *engine = open_odds(&well, n, 1, 3);
        const struct acre_model_info *info =
            acre_model_info(open_model(engine, model_directories[0]));
        packed[n - 1] = info->packed_bytes;
        working[n - 1] = info->working_bytes;
        assert_int_equal(acre_engine_threads(engine), n);
        acre_engine_close(engine);
    }
    assert_in_range(packed[1], 2 * packed[0] - packed[0] / 20, 2 * packed[0] + packed[0] / 20);
    assert_in_range(working[1], 2 * working[0] - working[0] / 20, 2 * working[0] + working[0] / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_device_ends_everybody),
        cmocka_unit_test(others_go_on),
        cmocka_unit_test(fallback_takes_all),
        cmocka_unit_test(fallback_ends_before_its_models),
        cmocka_unit_test(fallback_ends_before_its_scheduler),
        cmocka_unit_test(engine_without_its_fallback_is_no_engine),
        cmocka_unit_test(memory_of_all_is_stated),
        cmocka_unit_test(late_device_changes_nothing),
    };
    random_seed(20);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
