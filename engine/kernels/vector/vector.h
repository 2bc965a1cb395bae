/* vector.h - the slots of one instruction set's kernel table; the contracts are in kernels.h.
 * Private to kernels/vector. */
#ifndef KERNELS_VECTOR_VECTOR_H
#define KERNELS_VECTOR_VECTOR_H

#include "kernels/kernels.h"

#define ISA_JOIN_(name, isa) name##_##isa
#define ISA_JOIN(name, isa) ISA_JOIN_(name, isa)
#define ISA(name) ISA_JOIN(name, ISA_NAME) /* linear_avx2, ... */

size_t ISA(row_bytes)(enum compute_type type, size_t k);
void ISA(pack_rows)(enum compute_type type, size_t m, size_t k, const float *x, size_t x_stride,
                    void *rows, float *scales);
void ISA(linear)(const struct product *product);
void ISA(layer_norm)(size_t m, size_t c, const float *x, const float *gain, const float *bias,
                     float epsilon, float *y);
void ISA(lstm_cell)(size_t c, const float *gates, const float *before, float *after, float *hidden);
void ISA(store_row)(enum compute_type type, size_t n, const float *x, float *row);
void ISA(scores_rows)(enum compute_type type, size_t l, size_t n, const float *query,
                      const float *cache, const int32_t *rows, size_t stride, float *scores);
void ISA(area_coverage)(size_t l, const struct area_rule *rule, float *scores, float *scratch);
void ISA(plane_coverage)(size_t l, size_t seen, const struct area_rule *rule, float *planes,
                         float *scratch);
void ISA(area_deviations)(size_t n, int count, const struct area_ends *sums,
                          const struct area_ends *squares, float *deviations);
void ISA(area_hidden)(size_t m, size_t d, float share, const float *windows, const float *constants,
                      float *hidden);
void ISA(context_rows)(enum compute_type type, size_t l, size_t n, const float *coverage,
                       const float *cache, const int32_t *rows, size_t stride, float *out);
void ISA(scan_logits)(size_t n, int32_t first_id, float *logits, struct logit_scan *scan);

/* Not slots. linear() for int8 and bf16 on tiles; and what follows on the sums of any product:
 * sums[rows, n] (integers for int8), sums_stride apart, with room for whole vectors, go into y from
 * this row and column on. */
void ISA(linear_tiles)(const struct product *product);
void ISA(finish_tile)(const struct product *product, size_t row, size_t rows, size_t column,
                      size_t n, const float *sums, size_t sums_stride);

#endif
