/* matrices.cc - the emulator's ldmatrix and mma. The last lane to come computes for all; products
 * of 16-bit numbers are added up in double and rounded once. */
#include <cstring>

#include "emulate.h"

static const uint32_t *row_of(const void *lanes, int lane)
{
    return (const uint32_t *)lanes + 4 * lane;
}

void emulate::share_matrices(uint32_t *m, const uint32_t *row)
{
    const void *lanes = gather(row, 16, nullptr);
    for (int i = 0; i < 4; i++)
        m[i] = row_of(lanes, 8 * i + lane() / 4)[lane() % 4];
}

void emulate::share_transposed(uint32_t *m, const uint32_t *row)
{
    const void *lanes = gather(row, 16, nullptr);
    int column = lane() / 4;
    for (int i = 0; i < 4; i++) {
        uint32_t pair = 0;
        for (int j = 0; j < 2; j++) {
            uint32_t word = row_of(lanes, 8 * i + lane() % 4 * 2 + j)[column / 2];
            pair |= (word >> 16 * (column % 2) & 0xffff) << 16 * j;
        }
        m[i] = pair;
    }
}

namespace
{
/* What a lane has of d[16,8] += a[16,k] * b[k,8]. */
template <class D> struct part {
    D d[4];
    uint32_t a[4], b[2];
};

float number_of_f16(uint32_t bits)
{
    return emulate::float_of_f16((uint16_t)bits);
}

float number_of_bf16(uint32_t bits)
{
    float x;
    bits <<= 16;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

template <float (*NUMBER)(uint32_t)> void join_halves(void *all)
{
    part<float> *lanes = (part<float> *)all;
    float a[16][16];
    double b[16][8];
    for (int l = 0; l < 32; l++) {
        for (int i = 0; i < 8; i++)
            a[l / 4 + i / 2 % 2 * 8][l % 4 * 2 + i % 2 + i / 4 * 8] =
                NUMBER(lanes[l].a[i / 2] >> 16 * (i % 2) & 0xffff);
        for (int i = 0; i < 4; i++)
            b[l % 4 * 2 + i % 2 + i / 2 * 8][l / 4] =
                (double)NUMBER(lanes[l].b[i / 2] >> 16 * (i % 2) & 0xffff);
    }
    for (int row = 0; row < 16; row++) {
        double sums[8] = {};
        for (int k = 0; k < 16; k++)
            for (int column = 0; column < 8; column++)
                sums[column] += (double)a[row][k] * b[k][column];
        for (int column = 0; column < 8; column++) {
            float *d = &lanes[row % 8 * 4 + column / 2].d[row / 8 * 2 + column % 2];
            *d = (float)((double)*d + sums[column]);
        }
    }
}

void join_bytes(void *all)
{
    part<int32_t> *lanes = (part<int32_t> *)all;
    int a[16][32], b[32][8];
    for (int l = 0; l < 32; l++) {
        for (int i = 0; i < 16; i++)
            a[l / 4 + i / 4 % 2 * 8][l % 4 * 4 + i % 4 + i / 8 * 16] =
                (int8_t)(lanes[l].a[i / 4] >> 8 * (i % 4));
        for (int i = 0; i < 8; i++)
            b[l % 4 * 4 + i % 4 + i / 4 * 16][l / 4] = (int8_t)(lanes[l].b[i / 4] >> 8 * (i % 4));
    }
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 8; column++)
            for (int k = 0; k < 32; k++)
                lanes[row % 8 * 4 + column / 2].d[row / 8 * 2 + column % 2] +=
                    a[row][k] * b[k][column];
}

template <class D>
void multiply(D *d, const uint32_t *a, const uint32_t *b, void (*join)(void *lanes))
{
    part<D> mine = {{d[0], d[1], d[2], d[3]}, {a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    const part<D> *lanes = (const part<D> *)emulate::gather(&mine, sizeof(mine), join);
    memcpy(d, lanes[emulate::lane()].d, sizeof(mine.d));
}
} // namespace

void emulate::multiply_f16(float *d, const uint32_t *a, const uint32_t *b)
{
    multiply(d, a, b, join_halves<number_of_f16>);
}

void emulate::multiply_bf16(float *d, const uint32_t *a, const uint32_t *b)
{
    multiply(d, a, b, join_halves<number_of_bf16>);
}

void emulate::multiply_int8(int32_t *d, const uint32_t *a, const uint32_t *b)
{
    multiply(d, a, b, join_bytes);
}
