#include "base/cpu.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "base/error.h"
#include "base/processors.h"

#if defined(__x86_64__)

/* int8 and bf16 tiles, and Linux's permission to have their state saved (since 5.16). */
static bool has_amx(void)
{
    const long request_permission = 0x1023, tile_data = 18; /* ARCH_REQ_XCOMP_PERM */
    unsigned eax, ebx, ecx, edx;
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
        return false;
    bool has_bf16 = edx >> 22 & 1, has_tiles = edx >> 24 & 1, has_int8 = edx >> 25 & 1;
    return has_bf16 && has_tiles && has_int8 &&
           syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

static enum cpu_level hardware_level(void)
{
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512vnni");
    bool bf16 = __builtin_cpu_supports("avx512bf16");
    if (!avx512)
        return avx2 ? CPU_AVX2 : CPU_SSE2;
    return !bf16 ? CPU_AVX512 : has_amx() ? CPU_AMX : CPU_AVX512_BF16;
}

#else

static enum cpu_level hardware_level(void)
{
    return CPU_SCALAR;
}

#endif

int cpu_detect(enum cpu_level *level, struct acre_err *err)
{
    static const struct {
        const char *word;
        enum cpu_level cap;
    } caps[] = {
        {"scalar", CPU_SCALAR},
        {"avx2", CPU_AVX2},
        {"avx512", CPU_AVX512_BF16},
        {"amx", CPU_AMX},
    };

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
    static const char *const names[] = {"scalar", "sse2", "avx2", "avx512", "avx512bf16", "amx"};
    return names[level];
}

int cpu_count(void)
{
    int n = processors_allowed(sched_getaffinity), quota = processors_quota("");
    return quota > 0 && quota < n ? quota : n;
}
