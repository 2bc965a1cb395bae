/* isa.h - GCC's vector types, and the few operations that they lack, for one instruction set.
 *
 * The folder is compiled once per instruction set (see ../rules.mk): the same text is SSE2, AVX2,
 * or AVX-512 code. VECTOR_BYTES chooses the width of a vector; where the compiler's flags do not
 * bring the instructions for it, the operations below are loops, so that the tests can run the
 * text of a wide instruction set on any machine. Private to kernels/vector.
 */
#ifndef KERNELS_VECTOR_ISA_H
#define KERNELS_VECTOR_ISA_H

#include <immintrin.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

#if !defined(VECTOR_BYTES)
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#endif

enum {
    LANES = VECTOR_BYTES / 4,
    PANEL_VECTORS = KERNEL_ROW_BYTES / VECTOR_BYTES,
    REGISTERS = VECTOR_BYTES == 64 ? 32 : 16,
    /* Whether four products of bytes are one instruction, of unsigned x with signed w. */
    HAS_DOT = VECTOR_BYTES == 64,
/* Whether two products of bf16 numbers are one instruction. */
#if defined(__AVX512BF16__) || defined(EMULATE_BF16)
    HAS_BF16_DOT = 1,
#else
    HAS_BF16_DOT = 0,
#endif
/* Whether there are tiles (AMX), which take over the products of int8 and bf16. */
#if defined(__AMX_INT8__) || defined(EMULATE_TILES)
    HAS_TILES = 1,
#else
    HAS_TILES = 0,
#endif
};

typedef float vf __attribute__((vector_size(VECTOR_BYTES)));
typedef float vf_unaligned __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t vu __attribute__((vector_size(VECTOR_BYTES)));
typedef int16_t vs __attribute__((vector_size(VECTOR_BYTES)));

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE vf load(const void *p)
{
    return *(const vf_unaligned *)p;
}

ALWAYS_INLINE void store(void *p, vf v)
{
    *(vf_unaligned *)p = v;
}

ALWAYS_INLINE vf splat(float x)
{
    return x - (vf){0};
}

ALWAYS_INLINE vf vmax(vf a, vf b)
{
#if VECTOR_BYTES == 64 && defined(__AVX512F__)
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif VECTOR_BYTES == 32
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#elif VECTOR_BYTES == 16
    return (vf)_mm_max_ps((__m128)a, (__m128)b);
#else
    vi greater = a > b;
    return (vf)(((vi)a & greater) | ((vi)b & ~greater));
#endif
}

/* The lanes in which a comparison is true, a bit each. */
ALWAYS_INLINE uint32_t true_lanes(vi mask)
{
#if VECTOR_BYTES == 64 && defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask);
#elif VECTOR_BYTES == 32
    return (uint32_t)_mm256_movemask_ps((__m256)mask);
#elif VECTOR_BYTES == 16
    return (uint32_t)_mm_movemask_ps((__m128)mask);
#else
    uint32_t bits = 0;
    for (int i = 0; i < LANES; i++)
        bits |= (uint32_t)(mask[i] != 0) << i;
    return bits;
#endif
}

/* sum + the products of each lane's four bytes, unsigned x with signed w, modulo 2^32. */
ALWAYS_INLINE vi dot_bytes(vi sum, vi x, vi w)
{
#if VECTOR_BYTES == 64 && defined(__AVX512VNNI__)
    return (vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, (__m512i)w);
#else
    vu wrapped = (vu)sum;
    for (int shift = 0; shift < 32; shift += 8)
        wrapped += (vu)((x >> shift & 0xff) * (w << (24 - shift) >> 24));
    return (vi)wrapped;
#endif
}

/* sum + the products of each lane's two 16-bit numbers. */
ALWAYS_INLINE vi dot_words(vi sum, vi x, vi w)
{
#if VECTOR_BYTES == 32
    return sum + (vi)_mm256_madd_epi16((__m256i)x, (__m256i)w);
#elif VECTOR_BYTES == 16
    return sum + (vi)_mm_madd_epi16((__m128i)x, (__m128i)w);
#else
    return sum + (x >> 16) * (w >> 16) + (x << 16 >> 16) * (w << 16 >> 16);
#endif
}

/* Four numbers whose sum is that of all lanes: halves are folded onto each other, in registers. */
ALWAYS_INLINE __m128 four_sums(vf v)
{
#if VECTOR_BYTES == 64
    __m256 eight = (__m256)__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                   (__m256)__builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm256_castps256_ps128(eight) + _mm256_extractf128_ps(eight, 1);
#elif VECTOR_BYTES == 32
    return _mm256_castps256_ps128((__m256)v) + _mm256_extractf128_ps((__m256)v, 1);
#else
    return (__m128)v;
#endif
}

/* Of the lanes in a fixed order. */
ALWAYS_INLINE float lane_sum(vf v)
{
    __m128 four = four_sums(v);
    four += _mm_movehl_ps(four, four);
    return four[0] + four[1];
}

/* sums[4]: lane_sum() of each, to the bit. */
ALWAYS_INLINE void lane_sums(const vf v[4], float *sums)
{
    __m128 a = four_sums(v[0]), b = four_sums(v[1]), c = four_sums(v[2]), d = four_sums(v[3]);
    __m128 ab = _mm_unpacklo_ps(a, b) + _mm_unpackhi_ps(a, b);
    __m128 cd = _mm_unpacklo_ps(c, d) + _mm_unpackhi_ps(c, d);
    _mm_storeu_ps(sums, _mm_movelh_ps(ab, cd) + _mm_movehl_ps(cd, ab));
}

ALWAYS_INLINE float lane_max(vf v)
{
#if VECTOR_BYTES == 64
    __m256 eight =
        _mm256_max_ps((__m256)__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                      (__m256)__builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
#elif VECTOR_BYTES == 32
    __m128 four =
        _mm_max_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
#else
    __m128 four = (__m128)v;
#endif
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return four[0] > four[1] ? four[0] : four[1];
}

/* 1.5 * 2^23: a float of small magnitude is rounded to an integer, ties to even, by adding it. */
#define ROUNDER 12582912.0f

ALWAYS_INLINE vi round_to_int(vf x)
{
    return (vi)(x + ROUNDER) - (vi)splat(ROUNDER);
}

/* exp(x) for x <= 88, relative error below 2e-7; below -87.3 the result is exp(-87.3).
 * x = n ln 2 + r with |r| <= ln 2 / 2; exp(r) by its Taylor polynomial of degree 6 (Cephes). */
ALWAYS_INLINE vf vexp(vf x)
{
    x = vmax(x, splat(-87.3f));
    vf shifted = x * 1.44269504f + ROUNDER;
    vf n = shifted - ROUNDER;
    vf r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    vf p = splat(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    vf e = p * (r * r) + r + 1.0f;
    vi exponent = ((vi)shifted - (vi)splat(ROUNDER) + 127) << 23;
    return e * (vf)exponent;
}

/* exp(x) for x <= 0, as a part of a sum in which others are about 1: the error is below 2e-7 of
 * that. x in binary digits is rounded once, which matters where exp(x) is small. Minus infinity and
 * what is below -87.3 give something below 2e-38. 2^r by the polynomial of Cephes. */
ALWAYS_INLINE vf vexp_part(vf x)
{
    vf digits = vmax(x * 1.44269504f, splat(-126.0f));
    vf shifted = digits + ROUNDER;
    vf r = digits - (shifted - ROUNDER);
    vf p = splat(1.535336188e-4f);
    p = p * r + 1.339887440e-3f;
    p = p * r + 9.618437357e-3f;
    p = p * r + 5.550332471e-2f;
    p = p * r + 2.402264791e-1f;
    p = p * r + 6.931472029e-1f;
    p = p * r + 1.0f;
    return (vf)((vi)p + ((vi)shifted << 23));
}

/* sum + the products of each lane's two bf16 numbers. */
ALWAYS_INLINE vf dot_bf16(vf sum, vf x, vf w)
{
#if defined(__AVX512BF16__)
    return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)x, (__m512bh)w);
#else
    sum += (vf)((vi)x << 16) * (vf)((vi)w << 16);
    return sum + (vf)((vi)x >> 16 << 16) * (vf)((vi)w >> 16 << 16);
#endif
}

/* The nearest bf16, ties to even, in the upper half of each lane; the lower is anything. */
ALWAYS_INLINE vi to_bf16(vf x)
{
    vi bits = (vi)x;
    return bits + 0x7fff + (bits >> 16 & 1);
}

/* Which lanes, the first of which has number `first`, are below the limit. */
ALWAYS_INLINE vi lanes_below(size_t first, size_t limit)
{
    vi lane = {0}; /* a constant: with `first` in it GCC would put it together lane by lane */
    for (int32_t i = 0; i < LANES; i++)
        lane[i] = i;
    return lane < (int32_t)limit - (int32_t)first;
}

/* Zero in the other lanes, whatever is there. */
ALWAYS_INLINE vf below(size_t first, size_t limit, vf v)
{
    return (vf)((vi)v & lanes_below(first, limit));
}

/* Lanes i ... of two vectors that stand one behind the other; i <= LANES is a constant. */
ALWAYS_INLINE vf ahead(vf a, vf b, int32_t i)
{
    vi lane = {0};
    for (int32_t k = 0; k < LANES; k++)
        lane[k] = i + k;
    return i == LANES ? b : __builtin_shuffle(a, b, lane);
}

/* Of x[n], padded to whole vectors. */
ALWAYS_INLINE float row_maximum(size_t n, const float *x)
{
    const vi least = (vi)splat(-INFINITY);
    vf maximum = (vf)least;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        maximum = vmax(maximum, load(x + i));
    if (i < n) {
        vi there = lanes_below(i, n);
        maximum = vmax(maximum, (vf)(((vi)load(x + i) & there) | (least & ~there)));
    }
    return lane_max(maximum);
}

#endif
