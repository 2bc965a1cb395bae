/* Lines for a file: whole ones, also after a disk that was full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/spool.h"

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void add(struct spool *spool, const char *line)
{
    spool_add(spool, line, strlen(line));
}

static void wait_for_lost(struct spool *spool)
{
    while (spool_take_lost(spool) == 0)
        usleep(1000);
}

/* The first buffer is cut, the second finds no room at all. */
static void a_line_that_was_cut_spoils_no_other(void **state)
{
    char text[64] = "";
    FILE *file = tmpfile();
    struct spool *spool;

    (void)state;
    assert_non_null(file);
    spool = spool_open(NULL, fileno(file));
    assert_non_null(spool);
    limit_files(10);
    add(spool, "12345\nabcdefgh\n");
    wait_for_lost(spool);
    add(spool, "lost\n");
    wait_for_lost(spool);
    limit_files(RLIM_INFINITY);
    add(spool, "whole\n");
    spool_close(spool);
    assert_int_equal(pread(fileno(file), text, sizeof(text) - 1, 0), 17);
    assert_string_equal(text, "12345\nabcd\nwhole\n");
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_that_was_cut_spoils_no_other),
    };

    signal(SIGXFSZ, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
