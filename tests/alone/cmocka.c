#include "cmocka.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

enum outcome { PASSED, FAILED, SKIPPED };

static jmp_buf end_of_test;

void alone_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("# %s:%d: ", file, line);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    longjmp(end_of_test, FAILED);
}

void alone_skip(void)
{
    longjmp(end_of_test, SKIPPED);
}

static enum outcome run(const struct CMUnitTest *test)
{
    void *state = NULL;
    int outcome = setjmp(end_of_test);
    if (outcome == PASSED)
        test->run(&state);
    return (enum outcome)outcome;
}

int alone_run(const char *group, const struct CMUnitTest *tests, size_t n)
{
    static const char *const words[] = {"ok", "not ok", "ok"};
    int n_failed = 0;
    printf("# %s\n1..%zu\n", group, n);
    for (size_t i = 0; i < n; i++) {
        enum outcome outcome = run(&tests[i]);
        printf("%s %zu - %s%s\n", words[outcome], i + 1, tests[i].name,
               outcome == SKIPPED ? " # SKIP" : "");
        n_failed += outcome == FAILED;
        fflush(stdout);
    }
    return n_failed;
}
