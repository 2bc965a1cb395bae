/* processors.h - how many processors this process may use.
 *
 * Its affinity mask says which, and control groups how much of them: its own group, of version 1 or
 * 2, and all that this one is in, whose files are looked for under /sys/fs/cgroup. Any thread.
 */
#ifndef BASE_PROCESSORS_H
#define BASE_PROCESSORS_H

#include <sched.h>
#include <sys/types.h>

/* In the affinity mask, at least 1. `get` is sched_getaffinity(), or stands in for it in tests. */
typedef int affinity_fn(pid_t pid, size_t bytes, cpu_set_t *set);
int processors_allowed(affinity_fn *get);

/* The smallest quota in whole processors, rounded up; 0 if there is none. `root` stands in front of
 * /proc and /sys. */
int processors_quota(const char *root);

#endif
