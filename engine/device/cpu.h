/* cpu.h - what the files of the CPU backend share. Private to device/cpu*.c. */
#ifndef DEVICE_CPU_H
#define DEVICE_CPU_H

#include "base/arena.h"
#include "device/device.h"

enum {
    CPU_QUERY_BLOCK = 32,   /* query rows whose scores are in scratch at one time */
    CPU_OUTPUT_BLOCK = 512, /* vocabulary columns, likewise */
    CPU_ROW_BLOCK = 256,    /* rows that are packed for a product, likewise */
};

struct cpu_device {
    struct device device; /* first: device_ops get a pointer to it */
    const struct kernels *kernels;
    char name[64];
};

struct weight {
    struct packed packed;
    struct arena arena; /* what it points to */
};

struct norm {
    size_t c;
    float *gain, *bias; /* owned, one block */
};

struct embedding {
    struct tensor table;
    float scale;
    float *positions; /* owned, [P,C] */
};

struct stream {
    const struct kernels *kernels;
    struct arena arena;
    float *keys, *values; /* of one head of one sentence, packed */
    float *scores;        /* [CPU_QUERY_BLOCK][Lp] */
    float *area;          /* scratch of area_coverage */
    float *query;         /* [2][Dp]: one head's query and its context */
    float *logits;        /* [CPU_ROW_BLOCK][CPU_OUTPUT_BLOCK] */
    char *rows;           /* CPU_ROW_BLOCK rows packed for a product */
    float *row_scales;    /* [CPU_ROW_BLOCK] */
};

static inline const struct cpu_device *cpu_device_of(const struct device *device)
{
    return (const struct cpu_device *)device;
}

/* The operations of device.h: loading in cpu_weights.c, attention in cpu_attention.c. */
int cpu_weight_open(struct device *device, enum kernel_type type, const struct weight_part *parts,
                    size_t n_parts, struct weight **weight);
void cpu_weight_close(struct weight *weight);
int cpu_norm_open(struct device *device, const struct tensor *gain, const struct tensor *bias,
                  struct norm **norm);
void cpu_norm_close(struct norm *norm);
int cpu_embedding_open(struct device *device, const struct tensor *table, float scale,
                       size_t n_positions, struct embedding **embedding);
void cpu_embedding_close(struct embedding *embedding);

size_t cpu_cache_row_floats(const struct attention *attention);
size_t cpu_memory_floats(const struct attention *attention, size_t length);
void cpu_attend(struct stream *stream, const struct attention *attention, bool causal,
                size_t n_sentences, const size_t *first, const float *qkv, float *context);
void cpu_attend_step(struct stream *stream, const struct attention *attention,
                     const struct step_rows *rows, float *cache, const float *qkv, float *context);
void cpu_store_memory(struct stream *stream, const struct attention *attention, size_t length,
                      const float *keys_values, float *memory);
void cpu_attend_memory(struct stream *stream, const struct attention *attention, size_t n_sentences,
                       const struct memory_rows *rows, const float *query, float *context);

#endif
