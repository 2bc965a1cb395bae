/* cpu.h - what the files of the CPU backend share. Private to device/cpu*.c. */
#ifndef DEVICE_CPU_H
#define DEVICE_CPU_H

#include "base/arena.h"
#include "device/device.h"

enum {
    CPU_QUERY_BLOCK = 32,   /* query rows whose scores are in scratch at one time */
    CPU_OUTPUT_BLOCK = 512, /* vocabulary columns, likewise */
    CPU_ROW_BLOCK = 256,    /* rows that are packed for a product, likewise */
    CPU_LINE_FLOATS = 16,   /* of a cache line */
};

struct cpu_device {
    struct device device; /* first: device_ops get a pointer to it */
    const struct kernels *kernels;
    char name[64];
};

struct weight {
    struct packed packed;
    const struct weight *next; /* that is probably multiplied next, or NULL; borrowed */
    struct arena arena;        /* what `packed` points to */
};

struct norm {
    size_t c;
    float *gain, *bias; /* owned, one block */
};

struct embedding {
    struct tensor table; /* its data owned, in the type of the file */
    float scale;
    float *positions; /* owned, [P,C] */
};

/* Keys of areas: h = relu(base·x + deviation·σ + constants of the size), see cpu_area_key.c. */
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

/* Of one head of one sentence, [L,D]; the others say so. */
struct area_scratch {
    float *items, *squares, *deviations;
    float *integrals[2];  /* of x, of squares */
    float *columns;       /* of area_extend(), and windows where the memory is a grid */
    float *windows[3];    /* sums: of items after base (or maxima), of x, of squares */
    float *entries;       /* [planes][Lp][D], keys or values before they are packed */
    float *keys, *values; /* packed, of all planes */
    float *weights;       /* [2][planes][Lp] */
    float *query;         /* [CPU_QUERY_BLOCK][C], turned */
    float *ends[3];       /* of areas that end with a step's items, [planes][C] */
};

struct stream {
    const struct kernels *kernels;
    struct arena arena;
    float *scores;     /* [CPU_QUERY_BLOCK][planes][Lp] */
    float *area;       /* scratch of area_coverage */
    float *query;      /* [2][Dp]: one head's vectors with zeros after them, and its context */
    float *logits;     /* [CPU_ROW_BLOCK][CPU_OUTPUT_BLOCK] */
    char *rows;        /* CPU_ROW_BLOCK rows packed for a product */
    float *row_scales; /* [CPU_ROW_BLOCK] */
    char *queries;     /* CPU_QUERY_BLOCK rows of queries or coverage packed for a product */
    struct area_scratch areas;
};

/* Asks for what is read soon. Where few rows are computed with it, that takes longer to come than
 * to use, and is best asked for in small parts, between other work. Always inlined: compilers drop
 * calls of functions that seem to do nothing. */
static inline __attribute__((always_inline)) void cpu_fetch(const float *memory, size_t n_floats)
{
    for (size_t i = 0; i < n_floats; i += CPU_LINE_FLOATS)
        __builtin_prefetch(memory + i, 0, 2);
}

static inline const struct cpu_device *cpu_device_of(const struct device *device)
{
    return (const struct cpu_device *)device;
}

/* How many rows the block that begins with this one has. */
static inline size_t cpu_row_block(size_t m, size_t row)
{
    return m - row < CPU_ROW_BLOCK ? m - row : CPU_ROW_BLOCK;
}

/* The product of x[M,K] with a weight, at most CPU_ROW_BLOCK rows x_stride floats apart: packed
 * into stream->rows where the type needs it. Its result and what is done to it are the caller's. */
struct product cpu_product(struct stream *stream, const struct packed *w, size_t m, const float *x,
                           size_t x_stride);

/* The operations of device.h: loading in cpu_weights.c, attention in cpu_attention.c. */
int cpu_weight_open(struct device *device, enum kernel_type type, const struct weight_part *parts,
                    size_t n_parts, struct weight **weight);
void cpu_weight_close(struct weight *weight);
void cpu_weight_follow(struct weight *weight, const struct weight *next);
int cpu_norm_open(struct device *device, const struct tensor *gain, const struct tensor *bias,
                  struct norm **norm);
void cpu_norm_close(struct norm *norm);
int cpu_embedding_open(struct device *device, const struct tensor *table, float scale,
                       size_t n_positions, struct embedding **embedding);
void cpu_embedding_close(struct embedding *embedding);

/* y[M,N] = x[M,K] · panels: of attention, at most CPU_QUERY_BLOCK rows. Strides in floats. */
void cpu_attention_product(struct stream *stream, enum kernel_type type, size_t m, size_t n,
                           size_t k, const float *x, size_t x_stride, const void *panels, float *y,
                           size_t y_stride);

/* Keys of areas, in cpu_area_key.c. */
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

/* Attentions that are not plain, in cpu_areas.c and cpu_area_steps.c; most stand in for their
 * namesakes below. */
bool cpu_is_plain(const struct attention *attention);
void cpu_areas_place(struct area_scratch *areas, struct arena *arena,
                     const struct stream_limits *limits);

/* Planes of keys that areas have of their own (mean keys live in the items' scores), and of values;
 * or 0. */
size_t cpu_key_planes(const struct attention *attention);
size_t cpu_value_planes(const struct attention *attention);

/* A row of logits, [planes][Lp] or of items in plane 0, becomes what multiplies the values: weights
 * of areas where values are maxima, else coverage of items, [Lp]. query[D] as it was, for sigmoids.
 * Areas beyond the first `seen` items do not count. */
void cpu_areas_weigh(struct stream *stream, const struct attention *attention, size_t length,
                     size_t seen, const float *query, float *planes);
size_t cpu_areas_cache_row_floats(const struct attention *attention);
void cpu_areas_attend_step(struct stream *stream, const struct attention *attention,
                           const int32_t *path, size_t length, float *cache, const float *qkv,
                           float *context);

/* The memory of one head, in the attention's type: keys as panels of items, values as panels of
 * columns. Where areas have their own, [planes * Lp] stands for L. */
struct head_memory {
    const float *keys;   /* [Lp/16][D][16] */
    const float *values; /* [Dp/16][L][16] */
    size_t length;
    const float *next; /* what is read after it, fetched by halves before the two products */
    size_t n_next;     /* floats; 0: nothing */
};

static inline __attribute__((always_inline)) void cpu_fetch_half(const struct head_memory *memory,
                                                                 size_t half)
{
    cpu_fetch(memory->next + half * (memory->n_next / 2), memory->n_next / 2);
}

/* Queries of one head that attend to it, at most CPU_QUERY_BLOCK. */
struct head_queries {
    size_t n;
    const float *query;  /* [n,D], scaled, stride floats apart */
    const float *turned; /* what is multiplied with keys, see cpu_area_key_query(); or query */
    size_t stride, turned_stride;
    bool causal; /* query 0 sees `seen` items of the memory, each later query one more; else all */
    size_t seen;
};

static inline size_t seen_by(const struct head_queries *queries, size_t row, size_t length)
{
    return queries->causal ? queries->seen + row : length;
}

/* One query's weights of all areas, [planes][Lp]. */
void cpu_areas_weights(struct stream *stream, const struct attention *attention,
                       const struct head_memory *memory, const float *query, float *weights);

size_t cpu_areas_key_floats(const struct attention *attention, size_t length);
size_t cpu_areas_value_floats(const struct attention *attention, size_t length);

/* Packs keys[L,D] and values[L,D] of one head, stride floats apart. */
void cpu_areas_pack(struct stream *stream, const struct attention *attention, size_t length,
                    const float *keys, const float *values, size_t stride, float *packed_keys,
                    float *packed_values);

/* context[n,D] of one head, rows `stride` floats apart. */
void cpu_areas_attend(struct stream *stream, const struct attention *attention,
                      const struct head_queries *queries, const struct head_memory *memory,
                      float *context, size_t stride);

size_t cpu_cache_row_floats(const struct attention *attention);
size_t cpu_memory_floats(const struct attention *attention, size_t length);
void cpu_attend(struct stream *stream, const struct attention *attention, bool causal,
                size_t n_sentences, const size_t *first, const float *qkv, float *context);
void cpu_attend_step(struct stream *stream, const struct attention *attention,
                     const struct step_rows *rows, float *cache, const float *qkv, float *context);
void cpu_store_memory(struct stream *stream, const struct attention *attention, size_t length,
                      const float *keys, const float *values, size_t stride, float *memory);
void cpu_attend_memory(struct stream *stream, const struct attention *attention, size_t n_sentences,
                       const struct memory_rows *rows, const float *query, float *context);
void cpu_memory_weights(struct stream *stream, const struct attention *attention, size_t head,
                        size_t length, const float *memory, const float *query, float *weights);

#endif
