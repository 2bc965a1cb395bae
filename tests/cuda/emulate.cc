#include "emulate.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include <unistd.h>

#include "fibre.h"
#include "memory.h"
#include "report.h"

namespace emulate
{
/* Of a whole program, by EMULATED_ORDER: 0, 1 or 2. */
static control control_of_program()
{
    control control;
    const char *order = getenv("EMULATED_ORDER");
    control.schedule = order ? (emulate::order)(atoi(order) % N_ORDERS) : ASCENDING;
    return control;
}

control test = control_of_program();
bool sees_accesses;
size_t red_zone_bytes = 64;
void (*on_launch)(const struct work *work);
place now;
} // namespace emulate

using namespace emulate;

namespace
{
/* A program in which something was found that nobody expected has failed, whatever it says. */
struct verdict {
    ~verdict()
    {
        if (test.found() == 0 || test.quiet)
            return;
        fprintf(stderr, "emulator: %d races, %d wild, %d unwritten, %d diverged\n", test.races,
                test.wild, test.unwritten, test.diverged);
        fflush(NULL);
        _exit(FOUND_STATUS);
    }
} verdict;
} // namespace

void report(int *count, const char *format, ...)
{
    enum { MOST = 3 };
    if (++*count > MOST || test.quiet)
        return;
    va_list list;
    va_start(list, format);
    fprintf(stderr, "emulator: block (%u, %u, %u), thread %u: ", now.block.x, now.block.y,
            now.block.z, now.thread.x);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
}

namespace
{
enum state { READY, AT_BARRIER, AT_WARP, DONE };

struct copy {
    char *to;
    const char *from;
    size_t bytes;
    bool is_wanted;
};

struct gpu_thread {
    struct fibre fibre;
    state at = DONE;
    int site = 0;
    int parity = 0;           /* of what its warp gathers */
    bool has_awaited = false; /* the kernel before */
    dim3 index;
    std::deque<std::vector<copy>> copies; /* under way, by group; the last is not committed */
};

enum meeting { NOT_MEETING, SYNCHRONISING, GATHERING };

struct warp {
    int n_arrived = 0;
    meeting kind = NOT_MEETING;
    uint32_t clock = 0;
    alignas(16) char lanes[2][32 * MAX_LANE_BYTES];
};

std::vector<gpu_thread> threads;
std::vector<warp> warps;
std::vector<uint64_t> ready; /* a bit for each thread */
size_t current, n_threads, n_at_barrier, n_done;
const work *running;
uint32_t unawaited; /* the first block of the launches under way, before a thread has awaited */
thread_local bool is_running; /* kernels, on this thread of the host */
actor who;                    /* the current thread; barriers are numbered over all blocks */
uint64_t random_state;
bool is_given_up; /* the fault that a barrier was left out for is found: before it does harm */

void set_state(size_t i, state at)
{
    uint64_t bit = (uint64_t)1 << i % 64;
    threads[i].at = at;
    ready[i / 64] = at == READY ? ready[i / 64] | bit : ready[i / 64] & ~bit;
}

uint64_t draw()
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

/* The first thread in [begin, end) that can go on, or the last; end: none. */
size_t first_ready(size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i = (i / 64 + 1) * 64) {
        uint64_t bits = ready[i / 64] >> i % 64;
        if (bits != 0) {
            size_t found = i + (size_t)__builtin_ctzll(bits);
            return found < end ? found : end;
        }
    }
    return end;
}

size_t last_ready()
{
    for (size_t word = ready.size(); word-- > 0;)
        if (ready[word] != 0)
            return word * 64 + 63 - (size_t)__builtin_clzll(ready[word]);
    return n_threads;
}

/* Who goes on; n_threads: nobody can. In order, the first or last warp runs as far as it can before
 * any other begins: the hardest order for whoever forgot a barrier. */
size_t choose()
{
    if (test.schedule == DESCENDING)
        return last_ready();
    size_t start = test.schedule == SHUFFLED ? draw() % n_threads : 0;
    size_t i = first_ready(start, n_threads);
    if (i < n_threads)
        return i;
    i = first_ready(0, start);
    return i < start ? i : n_threads;
}

void leave()
{
    fibre_leave(&threads[current].fibre, false);
}

void entry()
{
    fibre_entered();
    running->call();
    if (!threads[current].has_awaited)
        report(&test.races, "leaves without waiting for the kernel before");
    set_state(current, DONE);
    n_done++;
    fibre_leave(&threads[current].fibre, true);
}

void resume(size_t i)
{
    current = i;
    now.thread = threads[i].index;
    who.thread = (uint32_t)i;
    who.warp_clock = warps[i / 32].clock;
    who.first_block = threads[i].has_awaited ? who.launch : unawaited;
    test.n_switches++;
    fibre_resume(&threads[i].fibre);
}
} // namespace

/* ---- Barriers -------------------------------------------------------------------------------- */

static std::map<std::string, int> sites; /* FILE:LINE */

void emulate::forget_sites()
{
    sites.clear();
    test.n_sites = 0;
}

const char *emulate::site_name(int site)
{
    for (const auto &each : sites)
        if (each.second == site)
            return each.first.c_str();
    return "";
}

static int site_of(const char *file, int line)
{
    auto found = sites.emplace(file + (":" + std::to_string(line)), (int)sites.size());
    test.n_sites = (int)sites.size();
    return found.first->second;
}

static void pass_barrier(int site)
{
    for (size_t i = 0; i < n_threads; i++) {
        if (threads[i].at != AT_BARRIER || threads[i].site != site)
            report(&test.diverged, "thread %zu waits at another barrier", i);
        set_state(i, READY);
    }
    n_at_barrier = 0;
    who.epoch++;
}

void emulate::await_previous()
{
    threads[current].has_awaited = true;
    who.first_block = who.launch;
}

void emulate::block_barrier(const char *file, int line)
{
    int site = site_of(file, line);
    if (site == test.skipped_site)
        return;
    threads[current].site = site;
    set_state(current, AT_BARRIER);
    if (++n_at_barrier == n_threads)
        pass_barrier(site);
    else
        leave();
}

/* Waits for the whole warp. The last one to come calls join(lanes). */
static void meet(meeting kind, void (*join)(void *lanes), void *lanes)
{
    warp *w = &warps[current / 32];
    if (w->n_arrived > 0 && w->kind != kind)
        report(&test.diverged, "lanes of a warp synchronise and shuffle at once");
    w->kind = kind;
    if (++w->n_arrived < 32) {
        set_state(current, AT_WARP);
        leave();
        return;
    }
    w->n_arrived = 0;
    if (kind == SYNCHRONISING)
        who.warp_clock = ++w->clock;
    if (join)
        join(lanes);
    for (size_t i = current / 32 * 32; i < current / 32 * 32 + 32; i++)
        if (threads[i].at == AT_WARP)
            set_state(i, READY);
}

void emulate::warp_barrier(const char *file, int line)
{
    if (site_of(file, line) != test.skipped_site)
        meet(SYNCHRONISING, nullptr, nullptr);
}

/* ---- Between the lanes of a warp ------------------------------------------------------------- */

int emulate::lane()
{
    return (int)(current % 32);
}

/* Orders nothing in memory, as the programming guide says of shuffles and votes. */
const void *emulate::gather(const void *mine, size_t bytes, void (*join)(void *lanes))
{
    gpu_thread *t = &threads[current];
    char *lanes = warps[current / 32].lanes[t->parity];
    memcpy(lanes + current % 32 * bytes, mine, bytes);
    meet(GATHERING, join, lanes);
    t->parity ^= 1;
    return lanes;
}

void emulate::exchange(void *value, size_t bytes, int from)
{
    const char *lanes = (const char *)gather(value, bytes, nullptr);
    memcpy(value, lanes + (size_t)from * bytes, bytes);
}

unsigned emulate::ballot(bool vote)
{
    const char *votes = (const char *)gather(&vote, sizeof(vote), nullptr);
    unsigned bits = 0;
    for (int i = 0; i < 32; i++)
        bits |= (unsigned)(votes[i] != 0) << i;
    return bits;
}

void emulate::check_mask(unsigned mask)
{
    if (mask != 0xffffffffu)
        report(&test.diverged, "a shuffle or vote of part of a warp");
}

float emulate::float_of_f16(uint16_t bits)
{
    static const std::vector<float> all = [] { /* conversions are calls, without F16C */
                                               std::vector<float> numbers(1 << 16);
                                               for (unsigned i = 0; i < numbers.size(); i++) {
                                                   uint16_t raw = (uint16_t)i;
                                                   _Float16 half;
                                                   memcpy(&half, &raw, sizeof(half));
                                                   numbers[i] = (float)half;
                                               }
                                               return numbers;
    }();
    return all[bits];
}

uint16_t emulate::f16_of_float(float x)
{
    _Float16 half = (_Float16)x;
    uint16_t bits;
    memcpy(&bits, &half, sizeof(bits));
    return bits;
}

float emulate::approximate(float exact, float half_units)
{
    uint32_t u;
    memcpy(&u, &exact, sizeof(u));
    u = (u ^ u >> 15) * 0x2c1b3c6du;
    u = (u ^ u >> 12) * 0x297a2d39u;
    u ^= u >> 15;
    float off = ((float)(u >> 8) * 0x1p-23f - 1.0f) * half_units * 0x1p-24f;
    return exact * (1.0f + off);
}

/* ---- Memory of a kernel ---------------------------------------------------------------------- */

char *emulate::shared()
{
    return shared_memory();
}

void emulate::red_zone(size_t begin, size_t end)
{
    shared_forbid(begin, end);
}

static bool is_within(const void *at, const void *begin, size_t bytes)
{
    return at >= begin && (const char *)at < (const char *)begin + bytes;
}

extern "C" char __executable_start, _end; /* the program's own constants */

/* Parameters, what lanes have gathered, and constants are nobody's to write. */
static bool is_readable(const void *at)
{
    return is_within(at, running, running->bytes) ||
           is_within(at, warps.data(), warps.size() * sizeof(warps[0])) ||
           (at >= &__executable_start && at < &_end);
}

/* hooks.cc brings every access of kernels here. */
void on_access(const void *at, size_t bytes, bool is_write, const void *pc)
{
    if (!is_running || fibre_owns(&threads[current].fibre, at) || (!is_write && is_readable(at)))
        return;
    memory_access(&who, at, bytes, is_write, pc);
    if (test.skipped_site >= 0 && test.found() > 0) {
        is_given_up = true;
        leave();
    }
    test.n_accesses++;
    if (test.switch_every > 0 && test.n_accesses % (uint64_t)test.switch_every == 0)
        leave();
}

/* Where it goes counts as written by the thread when the copy begins, and again when it ends; in
 * between as unwritten. */
void emulate::copy_later(void *to, const void *from, size_t bytes, bool is_wanted)
{
    if (sees_accesses) {
        memory_access(&who, to, bytes, true, __builtin_return_address(0));
        memory_unwritten(to, bytes);
    }
    threads[current].copies.back().push_back({(char *)to, (const char *)from, bytes, is_wanted});
}

void emulate::copy_commit()
{
    threads[current].copies.emplace_back();
}

static void copy_now(const copy &each)
{
    if (sees_accesses && each.is_wanted)
        memory_access(&who, each.from, each.bytes, false, __builtin_return_address(0));
    if (sees_accesses)
        memory_access(&who, each.to, each.bytes, true, __builtin_return_address(0));
    if (each.is_wanted)
        memcpy(each.to, each.from, each.bytes);
    else
        memset(each.to, 0, each.bytes);
}

void emulate::copy_wait(size_t n_groups)
{
    auto &copies = threads[current].copies;
    while (copies.size() > n_groups + 1) {
        for (const copy &each : copies.front())
            copy_now(each);
        copies.pop_front();
    }
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void start_threads()
{
    for (size_t i = 0; i < n_threads; i++) {
        gpu_thread *t = &threads[i];
        t->parity = 0;
        t->has_awaited = false;
        t->copies.assign(1, {});
        fibre_start(&t->fibre, entry);
        set_state(i, READY);
    }
}

static void run_block()
{
    n_at_barrier = n_done = 0;
    warps.assign(n_threads / 32, warp());
    start_threads();
    while (n_done < n_threads) {
        size_t i = choose();
        if (i == n_threads) {
            report(&test.diverged, "%zu threads have left, %zu wait at a barrier, others shuffle",
                   n_done, n_at_barrier);
            return; /* their stacks begin anew */
        }
        resume(i);
        if (is_given_up)
            return;
    }
}

static void prepare(const work *work)
{
    dim3 block = work->block;
    n_threads = (size_t)block.x * block.y * block.z;
    if (n_threads % 32 != 0 || n_threads > 1024) {
        fprintf(stderr, "emulator: %zu threads in a block\n", n_threads);
        abort();
    }
    if (threads.size() < n_threads)
        threads.resize(n_threads);
    ready.assign((n_threads + 63) / 64, 0);
    for (size_t i = 0; i < n_threads; i++)
        threads[i].index = dim3((unsigned)(i % block.x), (unsigned)(i / block.x % block.y),
                                (unsigned)(i / block.x / block.y));
    now.n_threads = block;
    now.n_blocks = work->grid;
}

void emulate::execute(const work *work, int device, uint32_t *last_launch)
{
    unsigned n_blocks = work->grid.x * work->grid.y * work->grid.z;
    prepare(work);
    who.device = device;
    who.launch = who.block + 1;
    unawaited = work->is_early && *last_launch != 0 ? *last_launch : who.launch;
    *last_launch = who.launch;
    random_state = test.seed * 0x9e3779b97f4a7c15u + who.launch + 1;
    running = work;
    is_running = true;
    is_given_up = false;
    memory_open();
    for (unsigned b = 0; b < n_blocks && !is_given_up; b++) {
        unsigned number = test.schedule == DESCENDING ? n_blocks - 1 - b : b;
        now.block = dim3(number % work->grid.x, number / work->grid.x % work->grid.y,
                         number / work->grid.x / work->grid.y);
        who.block++;
        who.epoch++;
        shared_begin(work->shared_bytes, n_threads / 32, who.block);
        run_block();
        shared_end();
    }
    memory_close();
    is_running = false;
    running = nullptr;
}
