/* cmocka.h - the words of cmocka that tests of the engine's devices are written in, for machines
 * that have a compiler and nothing else (`make engine`). Prints TAP, as cmocka does for tests/run.
 * A failed assertion ends its test by a jump, as there; one thread. */
#ifndef TESTS_ALONE_CMOCKA_H
#define TESTS_ALONE_CMOCKA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

void alone_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));
void alone_skip(void) __attribute__((noreturn));
int alone_run(const char *group, const struct CMUnitTest *tests, size_t n); /* how many failed */

#ifdef __cplusplus
}
#endif

#define cmocka_unit_test(function)                                                                 \
    {                                                                                              \
#function, function                                                                        \
    }
#define cmocka_run_group_tests_name(name, tests, open, close)                                      \
    ((void)(open), (void)(close), alone_run(name, tests, sizeof(tests) / sizeof((tests)[0])))
#define cmocka_run_group_tests(tests, open, close)                                                 \
    cmocka_run_group_tests_name(#tests, tests, open, close)

#define skip() alone_skip()
#define fail_msg(...) alone_fail(__FILE__, __LINE__, __VA_ARGS__)
#define alone_assert(is_so, ...) ((is_so) ? (void)0 : alone_fail(__FILE__, __LINE__, __VA_ARGS__))
#define assert_true(x) alone_assert((x), "expected %s", #x)
#define assert_false(x) alone_assert(!(x), "expected not %s", #x)
#define assert_int_equal(a, b)                                                                     \
    alone_assert((intmax_t)(a) == (intmax_t)(b), "%s: expected %jd, found %jd", #a, (intmax_t)(b), \
                 (intmax_t)(a))
#define assert_int_not_equal(a, b)                                                                 \
    alone_assert((intmax_t)(a) != (intmax_t)(b), "%s: expected another number than %jd", #a,       \
                 (intmax_t)(b))
#define assert_in_range(x, low, high)                                                              \
    alone_assert((uintmax_t)(x) >= (uintmax_t)(low) && (uintmax_t)(x) <= (uintmax_t)(high),        \
                 "%s: expected %ju to %ju, found %ju", #x, (uintmax_t)(low), (uintmax_t)(high),    \
                 (uintmax_t)(x))
#define assert_string_equal(a, b)                                                                  \
    alone_assert(__builtin_strcmp(a, b) == 0, "%s: expected \"%s\", found \"%s\"", #a, b, a)
#define assert_memory_equal(a, b, bytes)                                                           \
    alone_assert(__builtin_memcmp(a, b, bytes) == 0, "%s: expected the bytes of %s", #a, #b)

#endif
