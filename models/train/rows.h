/* Runs of numbers that are bfloat16 or float in tensors; all is computed in float. */
#ifndef ROWS_H
#define ROWS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline void load(float *row, const void *data, int64_t first, int64_t count, bool is_bf16)
{
    if (!is_bf16) {
        memcpy(row, (const float *)data + first, (size_t)count * sizeof *row);
        return;
    }
    const uint16_t *from = (const uint16_t *)data + first;
#pragma omp simd
    for (int64_t j = 0; j < count; j++) {
        union {
            uint32_t bits;
            float value;
        } item = {(uint32_t)from[j] << 16};
        row[j] = item.value;
    }
}

/* Rounds to the nearest bfloat16, halves to even; a NaN that arithmetic makes stays one. */
static inline void store(void *data, int64_t first, const float *row, int64_t count, bool is_bf16)
{
    if (!is_bf16) {
        memcpy((float *)data + first, row, (size_t)count * sizeof *row);
        return;
    }
    uint16_t *to = (uint16_t *)data + first;
#pragma omp simd
    for (int64_t j = 0; j < count; j++) {
        uint32_t bits;
        memcpy(&bits, &row[j], sizeof bits);
        to[j] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

#endif
