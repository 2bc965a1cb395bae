/* Translations by passes that are recorded as graphs, through acre.h: sentences of different
 * lengths and beams come into a batch and leave it between the replays, and have the bits that
 * plain launches give. And where a device is lost, what becomes of pictures of attention, which
 * the caller's thread makes, and of models that are opened afterwards. */
#include "suites.h"

#include <cstdlib>
#include <ctime>
#include <string>

#include <unistd.h>

#include "device/cuda/wait.h"
#include "support.h"

extern "C" {
#include "acre.h"
}

namespace
{
enum { N_TEXTS = 4, BATCH = 3, MOST_TOKENS = 5 };

const char *const texts[N_TEXTS] = {"We go.", "The old cat is here now.", "No.", "I see it."};

#if defined(__SANITIZE_ADDRESS__)
const bool is_slow_build = true;
#else
const bool is_slow_build = false;
#endif

/* An engine on the emulated GPU with one model. */
struct place {
    struct acre_engine *engine = nullptr;
    struct acre_model *model = nullptr;

    place(const char *name, const char *type, const char *launches, const char *device = "cuda",
          const char *fallback = nullptr)
    {
        struct acre_options options = {};
        struct acre_err err;
        std::string directory = std::string("tests/golden/models/") + name;
        setenv("ACRE_GPU", launches, 1);
        options.device = device;
        options.device_fallback = fallback;
        options.compute_type = type;
        options.batch_size = BATCH;
        options.max_beam_size = 3;
        if (acre_engine_open(&options, &engine, &err) != 0 ||
            acre_model_open(engine, directory.c_str(), &model, &err) != 0)
            fail_msg("%s", err.text);
        unsetenv("ACRE_GPU");
    }
    place(const place &) = delete;
    ~place()
    {
        acre_engine_close(engine);
    }

    struct acre_job *submit(int i) const
    {
        struct acre_request request = {};
        struct acre_job *job;
        struct acre_err err;
        request.model = model;
        request.text = texts[i];
        request.text_bytes = strlen(texts[i]);
        request.split = ACRE_SPLIT_NOTHING;
        request.decoding = acre_model_info(model)->decoding;
        request.decoding.beam_size = 1 + i % 3;
        request.decoding.num_hypotheses = request.decoding.beam_size;
        request.decoding.max_length = MOST_TOKENS - i % 3;
        request.is_aligned = i == 1;
        if (acre_submit(&request, &job, &err) != 0)
            fail_msg("%s", err.text);
        return job;
    }
};

/* Everything that a result says, scores to the last bit. */
std::string told(const struct acre_job *job)
{
    const struct acre_result *result = acre_job_result(job);
    std::string all = std::to_string(result->status);
    char score[64];
    for (size_t i = 0; i < result->n_hypotheses; i++) {
        const struct acre_hypothesis *hypothesis = &result->hypotheses[i];
        snprintf(score, sizeof(score), " %a ", hypothesis->score);
        all += score + std::string(hypothesis->text);
        for (size_t t = 0; hypothesis->alignments && t < hypothesis->n_tokens; t++)
            all += " " + std::to_string(hypothesis->alignments[t].source.first);
    }
    return all;
}

/* All texts at once, twice: the second time their classes have come before. */
std::vector<std::string> translate(const place &place)
{
    std::vector<std::string> found;
    struct acre_job *jobs[2 * N_TEXTS];
    for (int i = 0; i < 2 * N_TEXTS; i++)
        jobs[i] = place.submit(i % N_TEXTS);
    for (struct acre_job *job : jobs) {
        acre_job_wait(job, -1);
        found.push_back(told(job));
        acre_job_close(job);
    }
    return found;
}
} // namespace

static void check_same(const char *model, const char *type)
{
    emulate::revive();
    std::vector<std::string> plain = translate(place(model, type, "plain"));
    assert_int_equal(emulate::machine.n_recorded + emulate::machine.n_replayed, 0);
    std::vector<std::string> recorded = translate(place(model, type, ""));
    if (recorded != plain)
        fail_msg("%s, %s: other translations by graphs", model, type);
    if (emulate::machine.n_recorded == 0 ||
        emulate::machine.n_replayed < emulate::machine.n_recorded)
        fail_msg("%s, %s: %zu graphs, %zu replays", model, type, emulate::machine.n_recorded,
                 emulate::machine.n_replayed);
    for (size_t i = 0; i < N_TEXTS; i++)
        assert_string_equal(plain[i].c_str(), plain[N_TEXTS + i].c_str());
}

/* Ways to attend, kinds of states, types; all models go through graphs in test_emulated.py. */
static void test_translations(void **)
{
    check_same("area-max", "f32");
    check_same("tiny-lstm-heads", "int8");
    if (is_slow_build)
        return;
    check_same("area-concat", "f32");
    check_same("lstm-sum", "f32");
    check_same("tiny-area-mean", "bf16");
}

/* ---- What goes wrong ------------------------------------------------------------------------- */

static const char *const MODEL = "two-vocabs";

static void test_captures_fail(void **)
{
    emulate::revive();
    std::vector<std::string> plain = translate(place(MODEL, "f32", "plain"));
    place place(MODEL, "f32", "");
    emulate::machine.captures_fail = true;
    assert_true(translate(place) == plain);
    emulate::machine.captures_fail = false;
    assert_true(translate(place) == plain); /* it is not tried again */
    assert_int_equal(emulate::machine.n_recorded, 0);
}

static void test_no_memory_for_graphs(void **)
{
    emulate::revive();
    std::vector<std::string> plain = translate(place(MODEL, "f32", "plain"));
    place place(MODEL, "f32", "");
    emulate::fill(0, 0);
    assert_true(translate(place) == plain);
    assert_int_equal(emulate::machine.n_recorded, 0);
    assert_int_equal(acre_engine_health(place.engine, NULL), 0);
    emulate::revive();
}

/* How an engine with one model fares on a GPU that is full. */
static int health_when_full(struct acre_err *err)
{
    emulate::revive();
    place place(MODEL, "f32", "plain");
    emulate::fill(0, 0);
    struct acre_job *job = place.submit(0); /* one: a lost device accepts no more */
    acre_job_wait(job, -1);
    acre_job_close(job);
    int status = acre_engine_health(place.engine, err);
    emulate::revive();
    return status;
}

/* A GPU that others have filled goes on: its kernels are there. Unless the user has them loaded
 * when they are launched first. */
static void test_no_memory_for_kernels(void **)
{
    struct acre_err err = {};
    unsetenv("CUDA_MODULE_LOADING");
    assert_int_equal(health_when_full(&err), 0);
    setenv("CUDA_MODULE_LOADING", "LAZY", 1);
    assert_int_equal(health_when_full(&err), ACRE_EDEVICE);
    assert_non_null(strstr(err.text, "cudaErrorMemoryAllocation"));
    unsetenv("CUDA_MODULE_LOADING");
}

/* A model that would leave too little for what the driver takes on its own is not opened. */
static void test_memory_is_left(void **)
{
    struct acre_model *model;
    emulate::revive();
    place place(MODEL, "f32", "");
    emulate::fill(0, 100 << 20);
    assert_int_equal(acre_model_open(place.engine, "tests/golden/models/tiny-token", &model, NULL),
                     ACRE_ENOMEM);
    translate(place);
    assert_int_equal(acre_engine_health(place.engine, NULL), 0);
    emulate::revive();
}

/* What graphs take is stated when the model is open, and no more is taken. */
static void test_memory_is_stated(void **)
{
    emulate::revive();
    place plain(MODEL, "f32", "plain"), place(MODEL, "f32", "");
    uint64_t stated = acre_model_info(place.model)->working_bytes;
    uint64_t for_graphs = stated - acre_model_info(plain.model)->working_bytes;
    size_t before = emulate::memory_held();
    translate(place);
    assert_true(emulate::machine.n_recorded > 0);
    assert_in_range(emulate::memory_held(), before + 1, before + for_graphs);
}

/* The device is lost within a replay: everybody ends, with that or whole. */
static void test_lost_in_a_replay(void **)
{
    emulate::revive();
    place *lost = new place(MODEL, "f32", "");
    translate(*lost);
    size_t before = emulate::machine.n_replayed;
    emulate::machine.launches_until_fault = 100; /* a step has fewer than 40 kernels */
    std::vector<std::string> found = translate(*lost);
    assert_true(emulate::machine.n_replayed > before);
    size_t n_lost = 0;
    for (const std::string &each : found)
        n_lost += each == std::to_string(ACRE_EDEVICE);
    assert_in_range(n_lost, 1, found.size());
    assert_int_equal(acre_engine_health(lost->engine, NULL), ACRE_EDEVICE);
    delete lost;
    emulate::revive();
}

/* ---- Pictures -------------------------------------------------------------------------------- */

static struct acre_job *translated(const place &place)
{
    struct acre_job *job = place.submit(0);
    acre_job_wait(job, -1);
    assert_int_equal(acre_job_result(job)->status, 0);
    return job;
}

static int show(const struct acre_job *job, struct acre_err *err)
{
    struct acre_attention *attention = nullptr;
    int status = acre_attention_open(job, 0, 0, &attention, err);
    acre_attention_close(attention);
    return status;
}

/* It is an error, and no picture without areas. */
static void check_lost(const struct acre_job *job, const char *why)
{
    struct acre_err err = {};
    assert_int_equal(show(job, &err), ACRE_EDEVICE);
    if (!strstr(err.text, why))
        fail_msg("expected \"%s\", found \"%s\"", why, err.text);
}

static void test_lost_in_a_picture(void **)
{
    for (int launches : {0, 30}) {
        emulate::revive();
        place place(MODEL, "f32", "");
        struct acre_job *job = translated(place);
        assert_int_equal(show(job, nullptr), 0);
        emulate::machine.launches_until_fault = launches;
        check_lost(job, "cudaErrorIllegalAddress");
        assert_int_equal(acre_engine_health(place.engine, nullptr), ACRE_EDEVICE);
        check_lost(job, "the device that computes is lost");
        acre_job_close(job);
    }
    emulate::revive();
}

/* One wait is long: of all that follow none is. The last: that device is given up. */
static void test_hung_in_a_picture(void **)
{
    emulate::revive();
    emulate::machine.n_devices = 3;
    {
        leaks_allowed of_what_a_hung_gpu_keeps;
        place place(MODEL, "f32", "plain", "cuda:2");
        struct acre_job *job = translated(place);
        time_t start = time(NULL);
        emulate::machine.hangs = true;
        check_lost(job, "a step has taken more than 10 s");
        check_lost(job, "the device that computes is lost");
        assert_in_range(time(NULL) - start, LOST_S - 1, 2 * LOST_S);
        acre_job_close(job);
    }
    emulate::revive();
}

/* ---- Models that are opened later ------------------------------------------------------------ */

static void check_another_model(place *place)
{
    struct acre_err err;
    if (acre_model_open(place->engine, "tests/golden/models/tiny-token", &place->model, &err) != 0)
        fail_msg("%s", err.text);
    struct acre_job *job = translated(*place);
    assert_int_equal(show(job, nullptr), 0);
    acre_job_close(job);
}

/* One of two devices is lost: what is opened then works on the other one. */
static void test_models_open_beside_a_lost_device(void **)
{
    std::string file = "/tmp/acre_fault." + std::to_string(getpid()), of_first = file + ".0";
    size_t n_devices, n_lost = 0;
    emulate::revive();
    emulate::machine.n_devices = 2;
    setenv("EMULATED_FAULT", file.c_str(), 1);
    {
        place place(MODEL, "f32", "");
        fclose(fopen(of_first.c_str(), "w"));
        for (int i = 0; i < 20 && n_lost == 0; i++) {
            translate(place);
            acre_engine_devices(place.engine, &n_devices, &n_lost);
        }
        assert_int_equal(n_lost, 1);
        check_another_model(&place);
    }
    unlink(of_first.c_str());
    unsetenv("EMULATED_FAULT");
    emulate::revive();
}

/* One of two devices is lost, and nobody has noticed. */
static void test_models_open_where_one_is_lost(void **)
{
    std::string file = "/tmp/acre_fault." + std::to_string(getpid()), of_first = file + ".0";
    size_t n_devices, n_lost;
    emulate::revive();
    emulate::machine.n_devices = 2;
    setenv("EMULATED_FAULT", file.c_str(), 1);
    {
        place place(MODEL, "f32", "");
        fclose(fopen(of_first.c_str(), "w"));
        check_another_model(&place);
        acre_engine_devices(place.engine, &n_devices, &n_lost);
        assert_int_equal(n_lost, 1);
        assert_int_equal(acre_engine_health(place.engine, NULL), 0);
    }
    unlink(of_first.c_str());
    unsetenv("EMULATED_FAULT");
    emulate::revive();
}

/* The only device is lost: the CPU goes on, or nothing is opened. */
static void test_models_open_without_a_device(void **)
{
    for (const char *fallback : {"cpu", "none"}) {
        emulate::revive();
        place place(MODEL, "f32", "", "cuda", fallback);
        emulate::machine.launches_until_fault = 0;
        struct acre_job *job = place.submit(0); /* of the next it may be told that it is lost */
        acre_job_wait(job, -1);
        acre_job_close(job);
        struct acre_model *model;
        struct acre_err err;
        if (strcmp(fallback, "cpu") == 0) {
            check_another_model(&place);
            continue;
        }
        assert_int_equal(
            acre_model_open(place.engine, "tests/golden/models/tiny-token", &model, &err),
            ACRE_EDEVICE);
        assert_non_null(strstr(err.text, "cudaErrorIllegalAddress"));
    }
    emulate::revive();
}

int replays_suite()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_translations),
        cmocka_unit_test(test_captures_fail),
        cmocka_unit_test(test_no_memory_for_graphs),
        cmocka_unit_test(test_no_memory_for_kernels),
        cmocka_unit_test(test_memory_is_left),
        cmocka_unit_test(test_memory_is_stated),
        cmocka_unit_test(test_lost_in_a_replay),
        cmocka_unit_test(test_lost_in_a_picture),
        cmocka_unit_test(test_models_open_beside_a_lost_device),
        cmocka_unit_test(test_models_open_where_one_is_lost),
        cmocka_unit_test(test_models_open_without_a_device),
        cmocka_unit_test(test_hung_in_a_picture),
    };
    return cmocka_run_group_tests_name("replays", tests, NULL, NULL);
}
