#include "limit.h"

#include <time.h>

enum { TURNS = 200000, REPEATS = 20 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#if defined(__x86_64__)

/* One turn: REPEATS times the instructions for each of several sums, which do not wait for one
 * another. Registers 14 and 15, or tiles 4 and 5, are factors. All is zero. */
#define TURN(sums, instructions)                                                                   \
    __asm__ volatile(".rept %c0\n.irp n," sums "\n" instructions ".endr\n.endr\n" ::"i"(REPEATS)   \
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",     \
                       "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15")

#define TEN "0,1,2,3,4,5,6,7,8,9"
enum { TEN_SUMS = 10, TWELVE_SUMS = 12, FOUR_SUMS = 4 };

static void avx2_f32(void)
{
    TURN(TEN, "vfmadd231ps %%ymm14, %%ymm15, %%ymm\\n\n");
}

static void avx2_int8(void)
{
    TURN(TEN, "vpmaddwd %%ymm14, %%ymm15, %%ymm13\n vpaddd %%ymm13, %%ymm\\n, %%ymm\\n\n");
}

static void avx512_f32(void)
{
    TURN(TEN, "vfmadd231ps %%zmm14, %%zmm15, %%zmm\\n\n");
}

static void avx512_int8(void)
{
    TURN(TEN, "vpdpbusd %%zmm14, %%zmm15, %%zmm\\n\n");
}

static void avx512_bf16(void)
{
    TURN(TEN ",10,11", "vdpbf16ps %%zmm14, %%zmm15, %%zmm\\n\n");
}

static void amx_int8(void)
{
    TURN("0,1,2,3", "tdpbssd %%tmm4, %%tmm5, %%tmm\\n\n");
}

static void amx_bf16(void)
{
    TURN("0,1,2,3", "tdpbf16ps %%tmm4, %%tmm5, %%tmm\\n\n");
}

static void zero_vectors(void)
{
    TURN(TEN ",10,11,12,13,14,15", "vpxor %%xmm\\n, %%xmm\\n, %%xmm\\n\n");
}

/* Six tiles of 16 rows of 64 bytes, all zero. */
static void zero_tiles(void)
{
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {1, 0, {0}, {64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16}};
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
    TURN("0,1,2,3,4,5", "tilezero %%tmm\\n\n");
}

struct loop {
    void (*turn)(void);
    double operations; /* of all sums once */
};

static const struct loop loops[][COMPUTE_EVERYWHERE] = {
    [CPU_AVX2] = {[COMPUTE_F32] = {avx2_f32, TEN_SUMS * 2 * 8},
                  [COMPUTE_BF16] = {avx2_f32, TEN_SUMS * 2 * 8},
                  [COMPUTE_INT8] = {avx2_int8, TEN_SUMS * 2 * 16}},
    [CPU_AVX512] = {[COMPUTE_F32] = {avx512_f32, TEN_SUMS * 2 * 16},
                    [COMPUTE_BF16] = {avx512_f32, TEN_SUMS * 2 * 16},
                    [COMPUTE_INT8] = {avx512_int8, TEN_SUMS * 2 * 64}},
    [CPU_AVX512_BF16] = {[COMPUTE_F32] = {avx512_f32, TEN_SUMS * 2 * 16},
                         [COMPUTE_BF16] = {avx512_bf16, TWELVE_SUMS * 2 * 32},
                         [COMPUTE_INT8] = {avx512_int8, TEN_SUMS * 2 * 64}},
    [CPU_AMX] = {[COMPUTE_F32] = {avx512_f32, TEN_SUMS * 2 * 16},
                 [COMPUTE_BF16] = {amx_bf16, FOUR_SUMS * 2 * 16 * 16 * 32},
                 [COMPUTE_INT8] = {amx_int8, FOUR_SUMS * 2 * 16 * 16 * 64}},
};

double limit_measure(enum cpu_level level, enum compute_type type)
{
    if (level < CPU_AVX2)
        return 0;
    const struct loop *loop = &loops[level][type];
    zero_vectors();
    if (level == CPU_AMX)
        zero_tiles();
    double start = seconds();
    for (int i = 0; i < TURNS; i++)
        loop->turn();
    double took = seconds() - start;
    __asm__ volatile("vzeroupper");
    return 1e-9 * TURNS * REPEATS * loop->operations / took;
}

#else

double limit_measure(enum cpu_level level, enum compute_type type)
{
    (void)level, (void)type;
    return 0;
}

#endif
