/* The kernel table of one instruction set. */
#include "kernels/vector/vector.h"

#define STRING_(a) #a
#define STRING(a) STRING_(a)

const struct kernels ISA(kernels) = {
    .name = STRING(ISA_NAME),
    .row_bytes = ISA(row_bytes),
    .pack_rows = ISA(pack_rows),
    .linear = ISA(linear),
    .layer_norm = ISA(layer_norm),
    .lstm_cell = ISA(lstm_cell),
    .store_row = ISA(store_row),
    .scores_rows = ISA(scores_rows),
    .area_coverage = ISA(area_coverage),
    .plane_coverage = ISA(plane_coverage),
    .area_deviations = ISA(area_deviations),
    .area_hidden = ISA(area_hidden),
    .context_rows = ISA(context_rows),
    .scan_logits = ISA(scan_logits),
};
