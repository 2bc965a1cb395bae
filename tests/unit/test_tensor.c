/* Reading half and bfloat numbers: all 65,536 of each, against their definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "tensor/tensor.h"

enum { ALL = 65536 };

static uint16_t numbers[ALL];
static float values[ALL];

static void read_all(enum dtype dtype)
{
    for (unsigned i = 0; i < ALL; i++)
        numbers[i] = (uint16_t)i;
    struct tensor tensor = {numbers, dtype, 2, {256, 256}};
    assert_int_equal(tensor_count(&tensor), ALL);
    tensor_read(&tensor, 0, ALL, values);
}

static double define(unsigned bits, int exponent_bits, int mantissa_bits)
{
    unsigned mantissa = bits & ((1U << mantissa_bits) - 1);
    int exponent = (int)(bits >> mantissa_bits & ((1U << exponent_bits) - 1));
    int bias = (1 << (exponent_bits - 1)) - 1;
    double sign = bits >> 15 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1)
        return mantissa ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp(mantissa + (1U << mantissa_bits), exponent - bias - mantissa_bits);
}

static void check_all(int exponent_bits, int mantissa_bits)
{
    for (unsigned i = 0; i < ALL; i++) {
        double expected = define(i, exponent_bits, mantissa_bits), found = (double)values[i];
        if (isnan(expected) ? !isnan(found)
                            : found != expected || signbit(found) != signbit(expected))
            fail_msg("0x%04X: expected %g, found %g", i, expected, found);
    }
}

static void test_half(void **state)
{
    (void)state;
    read_all(DTYPE_F16);
    check_all(5, 10);
}

static void test_bfloat(void **state)
{
    (void)state;
    read_all(DTYPE_BF16);
    check_all(8, 7);
}

static void test_float_part(void **state)
{
    (void)state;
    const float in[6] = {1, -2, 3e-42F, INFINITY, 5, 6};
    float out[4] = {0, 0, 0, 77};
    struct tensor tensor = {in, DTYPE_F32, 1, {6}};
    tensor_read(&tensor, 2, 3, out);
    assert_memory_equal(out, in + 2, 3 * sizeof(float));
    assert_true(out[3] == 77);
}

static void test_odd_parts(void **state)
{
    (void)state;
    read_all(DTYPE_F16);
    struct tensor tensor = {numbers, DTYPE_F16, 1, {ALL}};
    for (size_t n = 0; n < 40; n++) {
        float part[41];
        part[n] = 77;
        tensor_read(&tensor, 15360 - n, n, part);
        assert_memory_equal(part, values + 15360 - n, n * sizeof(float));
        assert_true(part[n] == 77);
    }
}

static void test_sizes(void **state)
{
    (void)state;
    assert_int_equal(dtype_bytes(DTYPE_F32), 4);
    assert_int_equal(dtype_bytes(DTYPE_F16), 2);
    assert_int_equal(dtype_bytes(DTYPE_BF16), 2);
    struct tensor scalar = {.n_dims = 0}, empty = {.n_dims = 2, .shape = {3, 0}};
    assert_int_equal(tensor_count(&scalar), 1);
    assert_int_equal(tensor_count(&empty), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half),       cmocka_unit_test(test_bfloat),
        cmocka_unit_test(test_float_part), cmocka_unit_test(test_odd_parts),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
