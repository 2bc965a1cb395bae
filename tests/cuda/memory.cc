#include "memory.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "emulate.h"
#include "report.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(at, n) __asan_poison_memory_region(at, n)
#define UNPOISON(at, n) __asan_unpoison_memory_region(at, n)
#else
#define POISON(at, n) ((void)(at), (void)(n))
#define UNPOISON(at, n) ((void)(at), (void)(n))
#endif

namespace
{
enum { GRAIN = 2 };
enum : uint32_t { NOBODY = 0, SEVERAL = UINT32_MAX };

/* A write, or of one warp the reads since. */
struct stamp {
    uint32_t block, epoch, warp_clock;
    uint32_t thread; /* readers of shared memory: lanes, a bit each */
};

/* What is known of memory. */
struct shadow {
    size_t n_slots = 0;             /* of readers: warps of a block; 1: device memory */
    std::vector<stamp> writers;     /* [grains] */
    std::vector<stamp> readers;     /* [grains][slots] */
    std::vector<uint32_t> in_block; /* [grains]: where it was written; NOBODY: unwritten */

    void open(size_t bytes, size_t slots)
    {
        size_t grains = bytes / GRAIN + 1;
        n_slots = slots;
        writers.assign(grains, {});
        readers.assign(grains * slots, {});
        in_block.assign(grains, NOBODY);
    }
};

struct region {
    char *begin, *end;
    bool is_host = false;
    int device = 0;
    struct shadow shadow;
};

std::map<const char *, std::unique_ptr<region>> regions; /* by their end */
bool is_open;

struct {
    region memory = {nullptr, nullptr, false, 0, {}};
    size_t room = 0, n_warps = 0; /* of the shadow */
    uint32_t block = 0;
    std::vector<std::pair<size_t, size_t>> red_zones;
} shared;

region *last_found; /* a kernel looks for the same few again and again */

region *region_of(const char *at)
{
    if (at >= shared.memory.begin && at < shared.memory.end)
        return &shared.memory;
    if (last_found && at >= last_found->begin && at < last_found->end)
        return last_found;
    auto found = regions.upper_bound(at);
    if (found == regions.end() || at < found->second->begin)
        return nullptr;
    return last_found = found->second.get();
}
} // namespace

/* ---- Device memory --------------------------------------------------------------------------- */

void *memory_take(size_t bytes, bool is_host, int device)
{
    auto r = std::make_unique<region>();
    r->begin = (char *)aligned_alloc(256, (bytes + 255) / 256 * 256);
    r->end = r->begin + bytes;
    r->is_host = is_host;
    r->device = device;
    memset(r->begin, 0xff, bytes); /* NaNs */
    POISON(r->end, (bytes + 255) / 256 * 256 - bytes);
    if (emulate::sees_accesses)
        r->shadow.open(bytes, 1);
    if (!is_host && !is_open)
        POISON(r->begin, bytes);
    char *memory = r->begin;
    regions[r->end] = std::move(r);
    if (is_host)
        memory_written(memory, bytes); /* nobody sees what the host writes */
    return memory;
}

bool memory_give(void *memory)
{
    for (auto each = regions.begin(); each != regions.end(); each++) {
        region *r = each->second.get();
        if (r->begin != memory)
            continue;
        size_t bytes = (size_t)(r->end - r->begin);
        UNPOISON(r->begin, (bytes + 255) / 256 * 256);
        free(r->begin);
        last_found = nullptr;
        regions.erase(each);
        return true;
    }
    return false;
}

size_t memory_held(int device)
{
    size_t held = 0;
    for (const auto &each : regions) {
        const region *r = each.second.get();
        if (!r->is_host && (device == ALL_DEVICES || r->device == device))
            held += (size_t)(r->end - r->begin);
    }
    return held;
}

bool memory_is_closed_at(const void *at)
{
#if defined(__SANITIZE_ADDRESS__)
    return __asan_address_is_poisoned(at);
#else
    (void)at;
    return false;
#endif
}

void memory_open()
{
    is_open = true;
    for (auto &each : regions)
        UNPOISON(each.second->begin, (size_t)(each.second->end - each.second->begin));
}

void memory_close()
{
    is_open = false;
    for (auto &each : regions)
        if (!each.second->is_host)
            POISON(each.second->begin, (size_t)(each.second->end - each.second->begin));
}

static void set_written(const void *at, size_t bytes, uint32_t block)
{
    region *r = region_of((const char *)at);
    if (!emulate::sees_accesses || !r || bytes == 0)
        return;
    size_t first = (size_t)((const char *)at - r->begin);
    for (size_t g = first / GRAIN; g <= (first + bytes - 1) / GRAIN; g++)
        r->shadow.in_block[g] = block;
}

void memory_written(const void *at, size_t bytes)
{
    set_written(at, bytes, SEVERAL);
}

void memory_unwritten(const void *at, size_t bytes)
{
    set_written(at, bytes, NOBODY);
}

bool memory_has(const void *at, size_t bytes)
{
    region *r = region_of((const char *)at);
    return r && (const char *)at + bytes <= r->end;
}

/* ---- Shared memory --------------------------------------------------------------------------- */

char *shared_begin(size_t bytes, size_t n_warps, uint32_t block)
{
    char *memory = (char *)malloc(bytes); /* of exactly this size, for the address sanitizer */
    memset(memory, 0xff, bytes);
    shared.memory.begin = memory;
    shared.memory.end = memory + bytes;
    shared.block = block;
    if (emulate::sees_accesses && (bytes > shared.room || n_warps != shared.n_warps)) {
        shared.memory.shadow.open(bytes, n_warps);
        shared.room = bytes;
        shared.n_warps = n_warps;
    }
    return memory;
}

void shared_end()
{
    UNPOISON(shared.memory.begin, (size_t)(shared.memory.end - shared.memory.begin));
    free(shared.memory.begin);
    shared.memory.begin = shared.memory.end = nullptr;
    shared.red_zones.clear();
}

char *shared_memory()
{
    return shared.memory.begin;
}

void shared_forbid(size_t begin, size_t end)
{
    std::pair<size_t, size_t> zone(begin, end);
    if (end > (size_t)(shared.memory.end - shared.memory.begin)) {
        report(&emulate::test.wild, "shared memory is laid out beyond what the launch asked for");
        return;
    }
    auto &zones = shared.red_zones;
    if (std::find(zones.begin(), zones.end(), zone) != zones.end())
        return; /* another thread was first */
    zones.push_back(zone);
    POISON(shared.memory.begin + begin, end - begin);
}

/* ---- Accesses -------------------------------------------------------------------------------- */

static bool is_forbidden(size_t first, size_t bytes)
{
    for (auto &zone : shared.red_zones)
        if (first < zone.second && first + bytes > zone.first)
            return true;
    return false;
}

/* Whether that write comes before what `who` does now. Shared memory is another for each block. */
static bool is_before(const stamp &w, const actor *who, bool is_shared)
{
    if (w.block < who->first_block || (is_shared && w.block != who->block))
        return true;
    if (w.block != who->block)
        return false;
    return w.thread == who->thread || w.epoch < who->epoch ||
           (w.thread / 32 == who->thread / 32 && w.warp_clock < who->warp_clock);
}

/* Whether lanes of a warp have read shared memory, and `who` may write it before they do. */
static bool is_read_now(const stamp &r, size_t warp, const actor *who)
{
    if (r.block != who->block || r.epoch < who->epoch || r.thread == 0)
        return false;
    if (warp != who->thread / 32)
        return true;
    return r.warp_clock == who->warp_clock && (r.thread & ~(1u << who->thread % 32)) != 0;
}

/* Likewise device memory, of which one reader is known. */
static bool is_read_by_others(const stamp &r, const actor *who)
{
    if (r.block == SEVERAL)
        return r.epoch >= who->first_block; /* then it is the launch's first block */
    if (r.block < who->first_block)
        return false;
    if (r.block != who->block)
        return true;
    if (r.epoch < who->epoch || r.thread == who->thread)
        return false;
    return r.thread == SEVERAL || r.thread / 32 != who->thread / 32 ||
           r.warp_clock == who->warp_clock;
}

static void note_shared_read(stamp *r, const actor *who)
{
    bool is_same =
        r->block == who->block && r->epoch == who->epoch && r->warp_clock == who->warp_clock;
    uint32_t lanes = is_same ? r->thread : 0;
    *r = {who->block, who->epoch, who->warp_clock, lanes | 1u << who->thread % 32};
}

static void note_device_read(stamp *r, const actor *who)
{
    bool is_of_launch = r->block >= who->launch && r->block != SEVERAL;
    if (r->block == SEVERAL && r->epoch >= who->launch)
        return;
    if (is_of_launch && r->block != who->block) {
        *r = {SEVERAL, who->launch, 0, SEVERAL};
        return;
    }
    bool is_same = is_of_launch && r->epoch == who->epoch && r->thread != who->thread;
    *r = {who->block, who->epoch, who->warp_clock, is_same ? SEVERAL : who->thread};
}

static void check_write(const region *r, size_t grain, const actor *who, const void *pc)
{
    const struct shadow *shadow = &r->shadow;
    bool is_shared = r == &shared.memory;
    for (size_t s = 0; s < shadow->n_slots; s++) {
        const stamp &reader = shadow->readers[grain * shadow->n_slots + s];
        if (is_shared ? is_read_now(reader, s, who) : is_read_by_others(reader, who)) {
            report(&emulate::test.races, "write of %s byte %zu, read without a barrier since (%p)",
                   is_shared ? "shared" : "device", grain * GRAIN, pc);
            return;
        }
    }
}

static void visit(region *r, size_t grain, const actor *who, bool is_write, const void *pc)
{
    struct shadow *shadow = &r->shadow;
    bool is_shared = r == &shared.memory;
    stamp *writer = &shadow->writers[grain];
    if (!is_before(*writer, who, is_shared))
        report(&emulate::test.races,
               "%s of %s byte %zu, written by thread %u without a barrier since (%p)",
               is_write ? "write" : "read", is_shared ? "shared" : "device", grain * GRAIN,
               writer->thread, pc);
    if (is_write) {
        check_write(r, grain, who, pc);
        *writer = {who->block, who->epoch, who->warp_clock, who->thread};
        shadow->in_block[grain] = who->block;
    } else if (is_shared) {
        note_shared_read(&shadow->readers[grain * shadow->n_slots + who->thread / 32], who);
    } else {
        note_device_read(&shadow->readers[grain], who);
    }
}

static bool is_written(const region *r, size_t grain)
{
    uint32_t block = r->shadow.in_block[grain];
    return r == &shared.memory ? block == shared.block : block != NOBODY;
}

void memory_access(const actor *who, const void *address, size_t bytes, bool is_write,
                   const void *pc)
{
    const char *at = (const char *)address, *what = is_write ? "write" : "read";
    region *r = region_of(at);
    if (!r || at + bytes > r->end) {
        report(&emulate::test.wild, "%s of %zu bytes at %p, in no memory of the device (%p)", what,
               bytes, address, pc);
        return;
    }
    if (r != &shared.memory && !r->is_host && r->device != who->device) {
        report(&emulate::test.wild, "%s of memory of device %d on device %d (%p)", what, r->device,
               who->device, pc);
        return;
    }
    size_t first = (size_t)(at - r->begin);
    if (r == &shared.memory && is_forbidden(first, bytes)) {
        report(&emulate::test.wild, "%s behind a part of shared memory, byte %zu (%p)", what, first,
               pc);
        return;
    }
    for (size_t g = first / GRAIN; g <= (first + bytes - 1) / GRAIN; g++) {
        if (!is_write && !is_written(r, g)) {
            report(&emulate::test.unwritten, "read of %s byte %zu, which nobody wrote (%p)",
                   r == &shared.memory ? "shared" : "device", g * GRAIN, pc);
            return;
        }
        visit(r, g, who, is_write, pc);
    }
}
