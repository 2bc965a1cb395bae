/* Growing arrays: what is in them stays, and what cannot be allocated changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/grow.h"

static void items_stay_as_the_array_doubles(void **state)
{
    size_t *items = NULL, n_allocated = 0, n_grown = 0;

    (void)state;
    for (size_t n = 0; n < 1000; n++) {
        const size_t before = n_allocated;

        assert_true(grow(&items, sizeof(*items), n + 1, &n_allocated));
        assert_true(n_allocated > n);
        n_grown += n_allocated != before;
        items[n] = n;
    }
    for (size_t n = 0; n < 1000; n++)
        assert_int_equal(items[n], n);
    assert_int_equal(n_grown, 5); /* 64, 128, ... 1024 */
    free(items);
}

static void one_step_may_be_large(void **state)
{
    char *bytes = NULL;
    size_t n_allocated = 0;

    (void)state;
    assert_true(grow(&bytes, 1, 5000, &n_allocated));
    assert_int_equal(n_allocated, 8192);
    free(bytes);
}

static void failure_changes_nothing(void **state)
{
    uint64_t *items = NULL;
    const uint64_t *before;
    size_t n_allocated = 0;

    (void)state;
    assert_true(grow(&items, sizeof(*items), 1, &n_allocated));
    before = items;
    assert_false(grow(&items, sizeof(*items), SIZE_MAX / sizeof(*items), &n_allocated));
    assert_false(grow(&items, sizeof(*items), SIZE_MAX, &n_allocated));
    assert_ptr_equal(items, before);
    assert_int_equal(n_allocated, 64);
    free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_stay_as_the_array_doubles),
        cmocka_unit_test(one_step_may_be_large),
        cmocka_unit_test(failure_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
