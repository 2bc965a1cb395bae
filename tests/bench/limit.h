/* limit.h - how fast one core multiplies and adds when only registers are involved: what products
 * of a type cannot exceed with the instructions of a level. For tests/bench. */
#ifndef BENCH_LIMIT_H
#define BENCH_LIMIT_H

#include "base/cpu.h"
#include "kernels/kernels.h"

/* Gop/s, two per multiply-add, measured now on this thread; the level is one that the machine has.
 * 0 where it is not known: below AVX2, or on another processor than x86-64. */
double limit_measure(enum cpu_level level, enum compute_type type);

#endif
