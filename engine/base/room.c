#include "base/room.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/control_groups.h"

enum { SMALL_BYTES = 1 << 20 };

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

bool room_has(size_t bytes)
{
    return bytes < SMALL_BYTES || room_bytes("") >= bytes + ROOM_SPARE_BYTES;
}
