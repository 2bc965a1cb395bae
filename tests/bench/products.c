/* `make bench-kernels`: the packed products against OpenBLAS and against what the processor's
 * arithmetic could do, one thread, best of several rounds.
 *
 * y[M,N] = x[M,K]·Wᵀ at N = 2048, K = 512; packing the rows of x counts. Gop/s are 2·M·N·K per
 * second; GB/s is the speed at which the packed weights pass. */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cpu.h"
#include "kernels/kernels.h"
#include "limit.h"

enum { N = 2048, K = 512, MAX_M = 256, ROUNDS = 5, TYPES = 3 };

static const char *const type_names[TYPES] = {"f32", "bf16", "int8"};

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Zeroed and aligned as the engine's arenas are: split loads slow tiles down. */
static void *arrays(size_t n, size_t item_bytes)
{
    size_t bytes = (n * item_bytes + KERNEL_ROW_BYTES - 1) / KERNEL_ROW_BYTES * KERNEL_ROW_BYTES;
    return memset(aligned_alloc(KERNEL_ROW_BYTES, bytes), 0, bytes);
}

static float *random_floats(size_t n)
{
    float *x = arrays(n, sizeof(*x));
    for (size_t i = 0; i < n; i++)
        x[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    return x;
}

struct bench {
    const struct kernels *kernels;
    struct packed w[TYPES];
    float *x, *weights, *y, *scales;
    void *rows;
};

static struct packed pack(enum compute_type type, const float *weights)
{
    char *panels = arrays(1, kernel_packed_bytes(type, N, K));
    float *scales = arrays(N, sizeof(*scales));
    int32_t *sums = arrays(N, sizeof(*sums));
    for (size_t column = 0; column < N; column++)
        kernels_pack_column(type, K, weights + column * K, column % KERNEL_PANEL,
                            panels + column / KERNEL_PANEL * kernel_panel_bytes(type, K),
                            scales + column, sums + column);
    return (struct packed){
        .type = type, .n = N, .k = K, .panels = panels, .scales = scales, .sums = sums};
}

static void ours(const struct bench *bench, enum compute_type type, size_t m)
{
    struct product product = {.m = m, .x = bench->x, .x_stride = K * sizeof(float)};
    product.w = bench->w[type];
    product.y = bench->y, product.y_stride = N;
    if (type != COMPUTE_F32) {
        bench->kernels->pack_rows(type, m, K, bench->x, K, bench->rows, bench->scales);
        product.x = bench->rows, product.x_scales = bench->scales;
        product.x_stride = bench->kernels->row_bytes(type, K);
    }
    bench->kernels->linear(&product);
}

static void openblas(const struct bench *bench, size_t m)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)m, N, K, 1, bench->x, K,
                bench->weights, K, 0, bench->y, N);
}

/* Seconds of one product; TYPES stands for OpenBLAS. */
static double once(const struct bench *bench, int type, size_t m)
{
    int repeats = (int)(4000 / m) + 4;
    double start = seconds();
    for (int i = 0; i < repeats; i++)
        if (type < TYPES)
            ours(bench, (enum compute_type)type, m);
        else
            openblas(bench, m);
    return (seconds() - start) / repeats;
}

static void print_heading(const struct bench *bench)
{
    printf("%s, N = %d, K = %d: Gop/s (GB/s of weights)\n%5s", bench->kernels->name, N, K, "M");
    for (int type = 0; type < TYPES; type++)
        printf("%16s", type_names[type]);
    printf("%16s\n", "OpenBLAS f32");
}

static void print_products(const struct bench *bench, size_t m)
{
    double best[TYPES + 1] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        for (int type = 0; type <= TYPES; type++) {
            double took = once(bench, type, m);
            best[type] = best[type] == 0 || took < best[type] ? took : best[type];
        }
    }
    printf("%5zu", m);
    for (int type = 0; type <= TYPES; type++) {
        size_t bytes = N / KERNEL_PANEL *
                       kernel_panel_bytes(type < TYPES ? (enum compute_type)type : COMPUTE_F32, K);
        printf("%9.1f (%4.1f)", 2e-9 * (double)(m * N * K) / best[type],
               1e-9 * (double)bytes / best[type]);
    }
    printf("\n");
}

static void print_limits(enum cpu_level level)
{
    printf("%5s", "limit");
    for (int type = 0; type < TYPES; type++) {
        double most = 0;
        for (int round = 0; round < ROUNDS; round++) {
            double gops = limit_measure(level, (enum compute_type)type);
            most = gops > most ? gops : most;
        }
        if (most > 0)
            printf("%9.1f       ", most);
        else
            printf("%9s       ", "-");
    }
    printf("\n");
}

int main(void)
{
    enum cpu_level level;
    struct acre_err err;
    if (cpu_detect(&level, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    struct bench bench = {.kernels = kernels_find(level), .x = random_floats(MAX_M * K)};
    bench.weights = random_floats(N * K);
    bench.y = arrays(MAX_M * N, sizeof(float));
    bench.scales = arrays(MAX_M, sizeof(float));
    bench.rows = arrays(MAX_M * K, sizeof(float));
    for (int type = 0; type < TYPES; type++)
        bench.w[type] = pack((enum compute_type)type, bench.weights);
    print_heading(&bench);
    for (size_t m = 1; m <= MAX_M; m *= m < 64 ? 2 : 4)
        print_products(&bench, m);
    print_limits(level);
    return 0;
}
