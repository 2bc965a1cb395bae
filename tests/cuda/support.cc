#include "support.h"

cudaStream_t test_stream()
{
    static cudaStream_t stream;
    if (!stream)
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    gpu_overlaps = true; /* also where a GPU would not: nothing else is checked then */
    return stream;
}

void test_wait()
{
    cudaError_t error = cudaStreamSynchronize(test_stream());
    if (error == cudaSuccess)
        error = cudaGetLastError();
    if (error != cudaSuccess)
        fail_msg("%s", cudaGetErrorName(error));
}

static void check_nothing_found(const char *what)
{
    const emulate::control &test = emulate::test;
    if (test.found() > 0)
        fail_msg("%s: %d races, %d wild, %d unwritten, %d diverged", what, test.races, test.wild,
                 test.unwritten, test.diverged);
}

static emulate::control control_for(int run)
{
    emulate::control control;
    control.schedule = (emulate::order)(run % emulate::N_ORDERS);
    control.seed = random_bits();
    control.switch_every = emulate::sees_accesses && run >= emulate::N_ORDERS ? 3 : 0;
    return control;
}

void check_schedules(const char *what, const std::function<result()> &run)
{
    int n_runs = emulate::sees_accesses ? emulate::N_ORDERS + 1 : emulate::N_ORDERS;
    result first;
    for (int i = 0; i < n_runs; i++) {
        emulate::test = control_for(i);
        result now = run();
        check_nothing_found(what);
        if (i == 0)
            first = now;
        else if (now != first)
            fail_msg("%s: other bits in order %d", what, i);
    }
    emulate::test = {};
}

/* Leaves a barrier out in one order: whether anything was found, and whether the bits changed. */
static bool is_found(int site, emulate::order order, const std::function<result()> &run)
{
    emulate::test = {};
    emulate::test.quiet = true;
    emulate::test.schedule = order;
    emulate::test.skipped_site = site;
    run();
    return emulate::test.found() > 0;
}

static std::set<std::string> reported;

const std::set<std::string> &barriers_reported()
{
    return reported;
}

void check_barriers(const char *what, const std::function<result()> &run)
{
    if (!emulate::sees_accesses)
        return;
    emulate::test = {};
    emulate::forget_sites();
    run();
    check_nothing_found(what);
    int n_sites = emulate::test.n_sites;
    for (int site = 0; site < n_sites; site++) {
        for (int order = 0; order < emulate::N_ORDERS; order++)
            if (!is_found(site, (emulate::order)order, run))
                fail_msg("%s: nothing found without the barrier at %s, order %d", what,
                         emulate::site_name(site), order);
        reported.insert(emulate::site_name(site));
    }
    emulate::test = {};
    if (n_sites == 0)
        fail_msg("%s: it has no barriers", what);
}

double distance(const std::vector<float> &a, const std::vector<double> &b)
{
    double off = 0, size = 0;
    assert_int_equal(a.size(), b.size());
    for (size_t i = 0; i < b.size(); i++) {
        off += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += b[i] * b[i];
    }
    return sqrt(off / (size > 0 ? size : 1));
}

void check_near(const char *what, double off, double bound)
{
    if (!(off <= bound)) /* also of NaNs */
        fail_msg("%s: off by %g, not by at most %g", what, off, bound);
}

int random_int(int low, int high)
{
    return low + (int)(random_bits() % (uint64_t)(high - low + 1));
}

/* About normal: sums of four. */
std::vector<float> random_numbers(size_t n, float spread)
{
    std::vector<float> x(n);
    for (float &each : x) {
        float sum = 0;
        for (int i = 0; i < 4; i++)
            sum += random_uniform(-1, 1);
        each = spread * 0.866f * sum;
    }
    return x;
}
