/* `make bench-kernels`: the packed product against OpenBLAS, one thread, best of several rounds.
 * Prints Gflop/s for y[M,N] = x[M,K]·Wᵀ at N = 1024, K = 256. */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/cpu.h"
#include "kernels/kernels.h"

enum { N = 1024, K = 256, MAX_M = 256, ROUNDS = 5 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static float *random_floats(size_t n)
{
    float *x = malloc(n * sizeof(*x));
    for (size_t i = 0; i < n; i++)
        x[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    return x;
}

static double gflops(size_t m, int repeats, double took)
{
    return 2e-9 * (double)(m * N * K) * repeats / took;
}

int main(void)
{
    enum cpu_level level;
    struct acre_err err;
    if (cpu_detect(&level, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    const struct kernels *kernels = kernels_find(level);
    float *x = random_floats(MAX_M * K), *w = random_floats(N * K), *panels = malloc(N * K * 4);
    float *y = malloc(MAX_M * N * sizeof(*y));
    kernels_pack(N, K, w, K, panels);
    printf("   M  acre %s  OpenBLAS  (Gflop/s)\n", kernels->name);
    for (size_t m = 1; m <= MAX_M; m *= 4) {
        struct product product = {
            .m = m, .n = N, .k = K, .x = x, .x_stride = K, .panels = panels, .y = y, .y_stride = N};
        int repeats = (int)(20000 / m) + 20;
        double ours = 0, theirs = 0;
        for (int round = 0; round < ROUNDS; round++) {
            double start = seconds();
            for (int i = 0; i < repeats; i++)
                kernels->linear(&product);
            double middle = seconds();
            for (int i = 0; i < repeats; i++)
                cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)m, N, K, 1, x, K, w, K, 0,
                            y, N);
            double one = gflops(m, repeats, middle - start);
            double other = gflops(m, repeats, seconds() - middle);
            ours = one > ours ? one : ours;
            theirs = other > theirs ? other : theirs;
        }
        printf("%4zu %10.1f %9.1f\n", m, ours, theirs);
    }
    free(x), free(w), free(panels), free(y);
    return 0;
}
