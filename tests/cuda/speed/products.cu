/* Products of the Base model in f16 against cuBLASLt's best of eight algorithms. A line of JSON for
 * each shape; "peer" tells why cuBLASLt is not measured, where it is not. Usage: products [tiny] */
#include <cmath>
#include <cstring>
#include <dlfcn.h>

#include "clock.h"
#include "device/cuda/linear.h"

struct shape {
    int m, n, k;
};

/* y[M,N] = x[M,K] · Wᵀ, with weights that are not in a cache: `copies` of them. */
struct problem {
    struct shape shape;
    int copies;
    uint16_t *x, *w, *y, *peer_y;
    float *bias;
    int32_t *n_rows;
};

static struct problem open_problem(const struct shape &shape)
{
    struct problem p = {};
    size_t m = (size_t)shape.m, n = (size_t)shape.n, k = (size_t)shape.k;
    p.shape = shape;
    p.copies = (int)(ROTATED_BYTES / (2 * n * k)) + 2;
    p.x = uploaded(random_halves(m * k));
    std::vector<uint16_t> w = random_halves((size_t)p.copies * n * k);
    p.w = uploaded(w);
    p.y = uploaded(std::vector<uint16_t>(m * n));
    p.peer_y = uploaded(std::vector<uint16_t>(m * n));
    p.bias = uploaded(std::vector<float>(n));
    p.n_rows = uploaded(std::vector<int32_t>(1, shape.m));
    return p;
}

static void close_problem(const struct problem &p)
{
    for (void *each : {(void *)p.x, (void *)p.w, (void *)p.y, (void *)p.peer_y, (void *)p.bias,
                       (void *)p.n_rows})
        cudaFree(each);
}

static const uint16_t *weights_of(const struct problem &p, int i)
{
    return p.w + (size_t)(i % p.copies) * (size_t)p.shape.n * (size_t)p.shape.k;
}

static double measure(cudaStream_t stream, const struct problem &p, size_t shared_bytes)
{
    linear_task task = {};
    task.x = p.x;
    task.bias = p.bias;
    task.y = p.y;
    task.n_rows = p.n_rows;
    task.n = p.shape.n, task.k = p.shape.k;
    task.x_stride = p.shape.k, task.y_stride = p.shape.n;
    task.y_type = NUMBER_F16;
    task.activation = ACTIVATION_NONE;
    return microseconds_of(stream, [&](int i) {
        task.w = weights_of(p, i);
        linear_launch(stream, NUMBER_F16, task, p.shape.m, 0, shared_bytes);
        return cudaPeekAtLastError() == cudaSuccess;
    });
}

/* ---- The peer -------------------------------------------------------------------------------- */

#if defined(__CUDACC__) && __has_include(<cublasLt.h>)
#include <cublasLt.h>

enum { ALGORITHMS = 8 };
static const size_t WORKSPACE_BYTES = (size_t)32 << 20;

#define PEER_CALLS(CALL)                                                                           \
    CALL(Create)                                                                                   \
    CALL(MatmulDescCreate)                                                                         \
    CALL(MatmulDescSetAttribute)                                                                   \
    CALL(MatrixLayoutCreate)                                                                       \
    CALL(MatmulPreferenceCreate)                                                                   \
    CALL(MatmulPreferenceSetAttribute)                                                             \
    CALL(MatmulAlgoGetHeuristic)                                                                   \
    CALL(Matmul)

struct peer {
#define DECLARE(name) decltype(&cublasLt##name) name;
    PEER_CALLS(DECLARE)
#undef DECLARE
    cublasLtHandle_t handle;
    void *workspace;
};

/* Why it cannot be had, or NULL. */
static const char *open_peer(struct peer *peer)
{
    void *library = nullptr;
    for (const char *name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"})
        library = library ? library : dlopen(name, RTLD_NOW);
    if (!library)
        return "no libcublasLt on this machine";
#define FIND(name)                                                                                 \
    peer->name = (decltype(peer->name))dlsym(library, "cublasLt" #name);                           \
    if (!peer->name)                                                                               \
        return "libcublasLt has no cublasLt" #name;
    PEER_CALLS(FIND)
#undef FIND
    if (peer->Create(&peer->handle) != CUBLAS_STATUS_SUCCESS)
        return "cublasLtCreate fails";
    check(cudaMalloc(&peer->workspace, WORKSPACE_BYTES), "memory");
    return nullptr;
}

/* Columns first, as cuBLAS counts: y[N,M] = Wᵀ[N,K] · x[K,M]. The best of what it suggests. */
static double measure_peer(const struct peer &peer, cudaStream_t stream, const struct problem &p)
{
    uint64_t m = (uint64_t)p.shape.m, n = (uint64_t)p.shape.n, k = (uint64_t)p.shape.k;
    cublasOperation_t turned = CUBLAS_OP_T;
    cublasLtMatmulDesc_t call;
    cublasLtMatrixLayout_t w, x, y;
    cublasLtMatmulPreference_t wish;
    cublasLtMatmulHeuristicResult_t found[ALGORITHMS];
    int n_found = 0;
    float one = 1, zero = 0;
    peer.MatmulDescCreate(&call, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    peer.MatmulDescSetAttribute(call, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof(turned));
    peer.MatrixLayoutCreate(&w, CUDA_R_16F, k, n, (int64_t)k);
    peer.MatrixLayoutCreate(&x, CUDA_R_16F, k, m, (int64_t)k);
    peer.MatrixLayoutCreate(&y, CUDA_R_16F, n, m, (int64_t)n);
    peer.MatmulPreferenceCreate(&wish);
    peer.MatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                      &WORKSPACE_BYTES, sizeof(WORKSPACE_BYTES));
    peer.MatmulAlgoGetHeuristic(peer.handle, call, w, x, y, y, wish, ALGORITHMS, found, &n_found);
    double best = -1;
    for (int a = 0; a < n_found; a++) {
        double took = microseconds_of(stream, [&](int i) {
            return peer.Matmul(peer.handle, call, &one, weights_of(p, i), w, p.x, x, &zero,
                               p.peer_y, y, p.peer_y, y, &found[a].algo, peer.workspace,
                               WORKSPACE_BYTES, stream) == CUBLAS_STATUS_SUCCESS;
        });
        cudaGetLastError();
        best = took > 0 && (best < 0 || took < best) ? took : best;
    }
    return best;
}
#else
struct peer {
};

static const char *open_peer(struct peer *)
{
    return "built without cublasLt.h";
}

static double measure_peer(const struct peer &, cudaStream_t, const struct problem &)
{
    return -1;
}
#endif

/* ---- All shapes ------------------------------------------------------------------------------ */

/* The largest difference of the two results, relative to the largest number. */
static double difference(const struct problem &p)
{
    size_t n = (size_t)p.shape.m * (size_t)p.shape.n;
    std::vector<f16> ours(n), theirs(n);
    check(cudaMemcpy(ours.data(), p.y, 2 * n, cudaMemcpyDeviceToHost), "copy");
    check(cudaMemcpy(theirs.data(), p.peer_y, 2 * n, cudaMemcpyDeviceToHost), "copy");
    auto widened = [](f16 x) {
        float magnitude = ldexpf((float)(x.bits & 0x3ff) + (x.bits & 0x7c00 ? 1024.0f : 0.0f),
                                 (x.bits >> 10 & 31 ? (x.bits >> 10 & 31) : 1) - 25);
        return x.bits & 0x8000 ? -magnitude : magnitude;
    };
    double largest = 1e-9, off = 0;
    for (size_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs(widened(theirs[i])));
        off = fmax(off, fabs(widened(ours[i]) - widened(theirs[i])));
    }
    return off / largest;
}

static void compare(cudaStream_t stream, const struct shape &shape, size_t shared_bytes,
                    const struct peer &peer, const char *why)
{
    struct problem p = open_problem(shape);
    double ours = measure(stream, p, shared_bytes);
    double bytes = 2.0 * ((double)shape.n * shape.k + (double)shape.m * (shape.n + shape.k));
    double flops = 2.0 * shape.m * shape.n * (double)shape.k;
    printf("{\"m\": %d, \"n\": %d, \"k\": %d, \"us\": %.3f, \"gb_per_s\": %.1f, \"tflops\": %.2f",
           shape.m, shape.n, shape.k, ours, 1e-3 * bytes / ours, 1e-6 * flops / ours);
    double theirs = why ? -1 : measure_peer(peer, stream, p);
    if (theirs > 0)
        printf(", \"peer_us\": %.3f, \"peer_over_ours\": %.3f, \"difference\": %.2g", theirs,
               theirs / ours, difference(p));
    else
        printf(", \"peer\": \"%s\"", why ? why : "no algorithm of its works");
    printf("}\n");
    fflush(stdout);
    close_problem(p);
}

int main(int argc, char **argv)
{
    static const struct shape weights[] = {
        {0, 1536, 512}, {0, 512, 512}, {0, 2048, 512}, {0, 512, 2048}, {0, 32000, 512}};
    bool is_tiny = argc > 1 && strcmp(argv[1], "tiny") == 0;
    cudaStream_t stream;
    check(cudaSetDevice(0), "device");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    struct peer peer = {};
    const char *why = open_peer(&peer);
    if (is_tiny) {
        compare(stream, {3, 64, 256}, shared_bytes_of_block(), peer, why);
        return 0;
    }
    for (const struct shape &weight : weights)
        for (int m : {1, 16, 64, 128, 1024})
            compare(stream, {m, weight.n, weight.k}, shared_bytes_of_block(), peer, why);
    compare(stream, {4096, 4096, 4096}, shared_bytes_of_block(), peer, why); /* the ceiling */
    return 0;
}
