/* The position table against sines and cosines of every angle, in double precision; or the rows of
 * a table that was learnt. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>

#include "device/positions.h"
#include "tensor/tensor.h"

enum { MAX_POSITIONS = 1024, MAX_WIDTH = 64 };

static void table_is_sines_and_cosines(void **state)
{
    (void)state;
    static const struct {
        struct positions positions;
        size_t c;
    } cases[] = {
        {{.n = MAX_POSITIONS, .steps = 32.0}, 64},             /* MarianMT */
        {{.n = MAX_POSITIONS, .steps = 31.0}, 64},             /* Marian */
        {{.n = MAX_POSITIONS, .first = 2, .steps = 31.0}, 64}, /* M2M100 */
        {{.n = 40, .first = 1, .steps = 1.0}, 4},
        {{.n = 40, .steps = 2.5}, 5}, /* sines take the larger half */
        {{.n = 1, .first = 60000, .steps = 3.0}, 8},
    };
    static float table[MAX_POSITIONS * MAX_WIDTH];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct positions *positions = &cases[i].positions;
        size_t c = cases[i].c, n_sines = (c + 1) / 2;
        positions_fill(positions, c, table);
        for (size_t p = 0; p < positions->n; p++)
            for (size_t column = 0; column < c; column++) {
                bool is_sine = column < n_sines;
                double number = (double)(is_sine ? column : column - n_sines);
                double angle =
                    (double)(p + positions->first) * exp(-log(10000.0) * number / positions->steps);
                double expected = is_sine ? sin(angle) : cos(angle);
                if (!(fabs((double)table[p * c + column] - expected) < 1e-7))
                    fail_msg("case %zu, position %zu, column %zu: %g instead of %g", i, p, column,
                             (double)table[p * c + column], expected);
            }
    }
}

static void table_is_learned(void **state)
{
    (void)state;
    enum { N = 5, FIRST = 2, C = 3 };
    float numbers[(FIRST + N) * C], table[N * C];
    for (int i = 0; i < (FIRST + N) * C; i++)
        numbers[i] = (float)i;
    const struct tensor learned = {
        .dtype = DTYPE_F32, .n_dims = 2, .shape = {FIRST + N, C}, .data = numbers};
    positions_fill(&(struct positions){.n = N, .first = FIRST, .learned = &learned}, C, table);
    assert_memory_equal(table, numbers + FIRST * C, sizeof(table));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(table_is_sines_and_cosines),
                                       cmocka_unit_test(table_is_learned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
