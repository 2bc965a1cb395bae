#include "base/room.h"

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/control_groups.h"
#include "base/error.h"

enum { SMALL_BYTES = 1 << 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t promised; /* and not filled yet, as far as anybody told; of the lock */

/* ---- Forks ----------------------------------------------------------------------------------- */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/* Who was promised something, or was about to be, is not here. */
static void in_child(void)
{
    promised = 0;
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- What there is --------------------------------------------------------------------------- */

static FILE *open_file(const char *folder, const char *name)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= PATH_MAX)
        return NULL;
    return fopen(path, "re");
}

/* A file that is a number; "max", which means none, is not. */
static bool read_number(const char *folder, const char *name, double *number)
{
    FILE *file = open_file(folder, name);
    bool is_read = file && fscanf(file, "%lf", number) == 1;
    if (file)
        fclose(file);
    return is_read;
}

/* The sum of some lines "name number" of a file; 0 if it has none of them. */
static double sum_lines(const char *folder, const char *name, const char *const names[2])
{
    char found[64];
    double sum = 0, number;
    FILE *file = open_file(folder, name);
    while (file && fscanf(file, "%63s %lf%*[^\n]", found, &number) == 2)
        if (!strcmp(found, names[0]) || !strcmp(found, names[1]))
            sum += number;
    if (file)
        fclose(file);
    return sum;
}

static void lower(double *least, double room)
{
    if (room < *least)
        *least = room > 0 ? room : 0;
}

static void read_group(void *user, const char *folder)
{
    static const char *const cached[] = {"active_file", "inactive_file"};
    static const char *const all_cached[] = {"total_active_file", "total_inactive_file"};
    double most, taken;
    if (read_number(folder, "memory.max", &most) && read_number(folder, "memory.current", &taken))
        lower(user, most - taken + sum_lines(folder, "memory.stat", cached));
    if (read_number(folder, "memory.limit_in_bytes", &most) &&
        read_number(folder, "memory.usage_in_bytes", &taken))
        lower(user, most - taken + sum_lines(folder, "memory.stat", all_cached));
}

size_t room_bytes(const char *root)
{
    static const char *const of_machine[] = {"MemAvailable:", "SwapFree:"};
    double least = (double)SIZE_MAX;
    char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%s/proc", root);
    double kib = sum_lines(folder, "meminfo", of_machine);
    if (kib > 0)
        lower(&least, 1024 * kib);
    control_groups_visit(root, "memory", read_group, &least);
    return least < (double)SIZE_MAX ? (size_t)least : SIZE_MAX;
}

/* ---- Promises -------------------------------------------------------------------------------- */

/* Promises it if it is there. */
static bool promise(size_t bytes, size_t *left)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    size_t all = room_bytes("");
    *left = all > promised ? all - promised : 0;
    bool is_there = *left >= ROOM_SPARE_BYTES && *left - ROOM_SPARE_BYTES >= bytes;
    if (is_there)
        promised += bytes;
    pthread_mutex_unlock(&lock);
    return is_there;
}

int room_take(const char *what, size_t bytes, struct acre_err *err)
{
    size_t left;
    if (bytes < SMALL_BYTES || promise(bytes, &left))
        return 0;
    return err_set(err, ACRE_ENOMEM, "%s: expected %zu MiB of free memory, found %zu MiB", what,
                   (bytes >> 20) + (ROOM_SPARE_BYTES >> 20), left >> 20);
}

void room_filled(size_t bytes)
{
    if (bytes < SMALL_BYTES)
        return;
    pthread_mutex_lock(&lock);
    promised -= bytes;
    pthread_mutex_unlock(&lock);
}
