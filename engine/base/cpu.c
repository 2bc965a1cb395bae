#include "base/cpu.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static enum cpu_level hardware_level(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return avx512 && avx2 ? CPU_AVX512 : avx2 ? CPU_AVX2 : CPU_SSE2;
#else
    return CPU_SCALAR;
#endif
}

int cpu_detect(enum cpu_level *level, struct acre_err *err)
{
    static const struct {
        const char *word;
        enum cpu_level cap;
    } caps[] = {
        {"scalar", CPU_SCALAR}, {"avx2", CPU_AVX2}, {"avx512", CPU_AVX512}, {"amx", CPU_AVX512}};

    *level = hardware_level();
    const char *wanted = getenv("ACRE_CPU");
    if (!wanted || !*wanted)
        return 0;
    for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
        if (strcmp(wanted, caps[i].word) == 0) {
            if (*level > caps[i].cap)
                *level = caps[i].cap;
            return 0;
        }
    }
    return err_set(err, ACRE_EOPTION,
                   "ACRE_CPU: expected scalar, avx2, avx512 or amx, found \"%s\"", wanted);
}

const char *cpu_level_name(enum cpu_level level)
{
    static const char *const names[] = {"scalar", "sse2", "avx2", "avx512"};
    return names[level];
}

/* The quota of cgroup v2 in whole processors, rounded up; 0 if there is none. */
static int cgroup_cpus(void)
{
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!file)
        return 0;
    long quota = 0, period = 0;
    int n = fscanf(file, "%ld %ld", &quota, &period); /* "max 100000" reads nothing: no quota */
    fclose(file);
    if (n != 2 || quota <= 0 || period <= 0)
        return 0;
    return (int)((quota + period - 1) / period);
}

int cpu_count(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    int quota = cgroup_cpus();
    if (quota > 0 && quota < n)
        n = quota;
    return n > 0 ? n : 1;
}
