/* cpu.h - what this process may use of the machine: instruction sets and processors.
 *
 * ACRE_CPU=scalar|avx2|avx512|amx caps the instruction sets, each level including those before it;
 * an unknown word is an error. avx512 means with VNNI: where that is missing AVX2 is used; products
 * of bfloat16 are taken where the processor has them. amx needs the kernel's permission, which is
 * asked for once per process. Any thread.
 */
#ifndef BASE_CPU_H
#define BASE_CPU_H

#include "acre.h"

enum cpu_level { CPU_SCALAR, CPU_SSE2, CPU_AVX2, CPU_AVX512, CPU_AVX512_BF16, CPU_AMX };

/* The best level that hardware and ACRE_CPU allow. */
int cpu_detect(enum cpu_level *level, struct acre_err *err);
const char *cpu_level_name(enum cpu_level level);

/* Processors in this process's affinity mask, capped by the cgroup's CPU quota; at least 1. */
int cpu_count(void);

#endif
