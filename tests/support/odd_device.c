#include "odd_device.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { MAX_STORES = 16, MAX_SLOTS = 64 };

/* What a store has told, and its host is not told yet. */
struct late_store {
    const struct device *device;
    struct store *store;
    struct progress progress;
    struct ended held[MAX_SLOTS], told[MAX_SLOTS];
};

static const struct device_ops *cpu;
static struct device_ops ops;
static struct odd_habits habits;
static atomic_long n_polls;
static struct late_store stores[MAX_STORES]; /* opened by one thread, then each is one worker's */
static size_t n_stores;
static const struct device *mortal;

static struct late_store *late(const struct store *store)
{
    struct late_store *found = stores;
    while (found->store != store)
        found++;
    return found;
}

static int store_open(struct device *device, const struct store_shape *shape, struct store **store)
{
    int status = cpu->store_open(device, shape, store);
    assert_true(n_stores < MAX_STORES && shape->n_slots <= MAX_SLOTS);
    if (status == 0)
        stores[n_stores++] = (struct late_store){.device = device, .store = *store};
    return status;
}

static void drop(struct stream *stream, struct store *store, size_t slot)
{
    struct late_store *of = late(store);
    size_t n = 0;
    cpu->drop(stream, store, slot);
    for (size_t i = 0; i < of->progress.n_ended; i++)
        if (of->held[i].slot != slot)
            of->held[n++] = of->held[i];
    of->progress.n_ended = n;
}

/* Tells what the poll before has found. */
static void tell_late(struct late_store *of, struct progress *progress)
{
    struct progress found = *progress;
    memcpy(of->told, of->held, of->progress.n_ended * sizeof(*of->held));
    *progress = of->progress;
    progress->ended = of->told;
    memcpy(of->held, found.ended, found.n_ended * sizeof(*of->held));
    of->progress = found;
}

static int poll(struct stream *stream, struct store *store, int most_behind,
                struct progress *progress, struct acre_err *err)
{
    bool is_mortal = habits.lost_after >= 0 && late(store)->device == mortal;
    if (is_mortal && atomic_fetch_add(&n_polls, 1) >= habits.lost_after)
        return err_set(err, ACRE_EDEVICE, "odd device: lost after %ld polls", habits.lost_after);
    int status = cpu->poll(stream, store, most_behind, progress, err);
    if (status == 0 && habits.is_late)
        tell_late(late(store), progress);
    return status;
}

struct device *odd_device_open_second(void)
{
    struct device *device;
    enum cpu_level level;
    assert_int_equal(cpu_detect(&level, NULL), 0);
    assert_int_equal(device_cpu_open(level, &device, NULL), 0);
    device->ops = &ops;
    device->name = "odd device";
    device->runs_ahead = habits.is_late ? 1 : 0;
    return device;
}

struct device *odd_device_open(const struct odd_habits *wanted)
{
    struct device *device;
    enum cpu_level level;
    assert_int_equal(cpu_detect(&level, NULL), 0);
    assert_int_equal(device_cpu_open(level, &device, NULL), 0);
    habits = *wanted;
    atomic_store(&n_polls, 0);
    n_stores = 0;
    mortal = device;
    cpu = device->ops;
    ops = *cpu;
    ops.store_open = store_open;
    ops.drop = drop;
    ops.poll = poll;
    device->ops = &ops;
    device->name = "odd device";
    device->runs_ahead = wanted->is_late ? 1 : 0;
    return device;
}
