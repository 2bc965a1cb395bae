/* area_keys.h - the CPU backend's keys of areas that are not their items' means: maxima, and keys
 * with dense layers (Eq. 9). area_keys.c says where which layer is applied.
 */
#ifndef DEVICE_CPU_AREA_KEYS_H
#define DEVICE_CPU_AREA_KEYS_H

#include "device/cpu/stream.h"

/* h = relu(base·x + deviation·σ + constants of the size). */
struct area_key {
    bool is_largest; /* of the items' maximum, not their mean */
    bool is_dense;   /* else that is the key itself */
    bool has_deviation;
    struct packed base, deviation; /* [D,D]: the parts of fc1 */
    struct packed query;           /* [D,D]: fc2 transposed, for queries */
    float *query_bias;             /* [D]: of fc2 */
    float *constants;              /* [planes][Dp]: sizes' part of fc1, and its bias */
    struct arena arena;            /* all of this */
};

int cpu_area_key_open(struct device *device, const struct area_key_parts *parts,
                      const struct attention *attention, struct area_key **key);
void cpu_area_key_close(struct area_key *key);

/* y[m,D] = base · x[m], rows `stride` floats apart. */
void cpu_area_key_base(struct stream *stream, const struct area_key *key, size_t m, const float *x,
                       size_t stride, float *y);

/* hidden[m,D] of areas of one size, from their features: share * sums of base·x, or maxima of x,
 * and deviations if the key has them. `plane` is the size's. */
void cpu_area_key_hidden(struct stream *stream, const struct area_key *key, size_t plane, size_t m,
                         const float *windows, float share, const float *deviations, float *hidden);

/* The queries for keys that areas keep hidden rows of, in scratch with a stride of D; any other key
 * (NULL is allowed) leaves them and their stride as they are. At most CPU_QUERY_BLOCK rows, of all
 * heads. */
const float *cpu_area_key_query(struct stream *stream, const struct area_key *key, size_t m,
                                const float *query, size_t *stride);

#endif
