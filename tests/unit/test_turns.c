/* Turns: whose piece of work is next, and that one works at a time, or as many as may. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "serve/turns.h"

enum { N_PIECES = 16 };

struct piece {
    struct turn turn;
    char name;
    int n_more;           /* parts, after the first */
    struct piece *leaves; /* when this one is done; or NULL */
    struct piece *comes;  /* likewise, after all that wait: maybe itself, but not for ever */
};

static struct turns turns;
static size_t n_working;
static atomic_int n_at_work, n_parts;
static int most_at_work; /* as begin_work() finds */
static char order[N_PIECES + 1];

static void begin_work(void *user)
{
    const struct piece *piece = user;

    assert_true(piece->turn.is_working);
    assert_false(piece->turn.is_waiting);
    assert_in_range(n_working, 1, turns.most_at_work);
    most_at_work = (int)n_working > most_at_work ? (int)n_working : most_at_work;
    if (strlen(order) < N_PIECES)
        strncat(order, &piece->name, 1);
}

static void work(void *user)
{
    struct piece *piece = user;

    n_parts++;
    piece->turn.goes_on = piece->n_more-- > 0;
    assert_true((size_t)++n_at_work <= turns.most_at_work);
    uv_sleep(1);
    n_at_work--;
}

static void done(void *user)
{
    const struct piece *piece = user;

    assert_false(piece->turn.is_working);
    if (piece->leaves)
        assert_true(turn_leave(&piece->leaves->turn));
    if (piece->comes && strlen(order) < N_PIECES)
        turns_wait(&turns, &piece->comes->turn, (uint64_t)piece->comes->name);
}

static void make(struct piece *piece, char name)
{
    *piece = (struct piece){
        .turn = {.begin = begin_work, .work = work, .done = done, .user = piece}, .name = name};
}

/* A letter is a caller, too: each brings a piece, in that order. */
static void begin_with(uv_loop_t *loop, size_t most, struct piece *pieces, const char *names)
{
    uv_loop_init(loop);
    turns_init(&turns, loop, most, &n_working);
    order[0] = '\0';
    most_at_work = 0;
    for (size_t i = 0; names[i]; i++) {
        make(&pieces[i], names[i]);
        turns_wait(&turns, &pieces[i].turn, (uint64_t)names[i]);
    }
}

static void begin(uv_loop_t *loop, struct piece *pieces, const char *names)
{
    begin_with(loop, 1, pieces, names);
}

static void end(uv_loop_t *loop, const char *expected)
{
    uv_run(loop, UV_RUN_DEFAULT);
    assert_string_equal(order, expected);
    assert_int_equal(n_working, 0);
    assert_int_equal(turns.n_at_work, 0);
    assert_null(turns.waiting);
    assert_int_equal(uv_loop_close(loop), 0);
}

static void test_each_caller_has_one_in_a_round(void **state)
{
    static const struct {
        const char *come, *go;
    } cases[] = {
        {"a", "a"},           {"aaab", "abaa"},   {"aaabbc", "abcaba"},
        {"abcabc", "abcabc"}, {"aabcb", "abcab"},
    };
    struct piece pieces[N_PIECES];
    uv_loop_t loop;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(&loop, pieces, cases[i].come);
        assert_int_equal(n_working, 1);
        end(&loop, cases[i].go);
    }
    assert_int_equal(most_at_work, 1);
}

/* Who finds a place at once has it, and takes his turn all the same. */
static void test_two_may_work_at_a_time(void **state)
{
    struct piece pieces[N_PIECES];
    uv_loop_t loop;

    (void)state;
    begin_with(&loop, 2, pieces, "aaaaab");
    assert_int_equal(n_working, 2);
    end(&loop, "aabaaa");
    assert_int_equal(most_at_work, 2);
}

/* While the second of "a" works, "b" comes: it was not there before, and waits for no third. */
static void test_who_comes_late_waits_for_no_round_that_is_over(void **state)
{
    struct piece pieces[N_PIECES], late;
    uv_loop_t loop;

    (void)state;
    begin(&loop, pieces, "aaaa");
    make(&late, 'b');
    pieces[0].comes = &late;
    end(&loop, "aabaa");
}

static void test_who_leaves_is_not_worked_on(void **state)
{
    struct piece pieces[N_PIECES];
    uv_loop_t loop;

    (void)state;
    begin(&loop, pieces, "aabc");
    assert_false(turn_leave(&pieces[0].turn)); /* it works: nothing happens */
    pieces[0].leaves = &pieces[3];             /* "b" works when it hears */
    end(&loop, "aba");
}

/* "y" and "z" bring another whenever one of theirs is done, and it is the other's turn then. */
static void test_those_who_come_again_and_again_hold_up_nobody(void **state)
{
    struct piece pieces[N_PIECES];
    uv_loop_t loop;

    (void)state;
    begin(&loop, pieces, "yxxxz");
    pieces[0].comes = &pieces[0];
    pieces[4].comes = &pieces[4];
    end(&loop, "yxzyxzyxzyzyzyzy");
}

/* While "c" works, two of "a" leave: the third is the first now, and came before "b". */
static void test_who_leaves_keeps_no_place(void **state)
{
    struct piece pieces[N_PIECES];
    uv_loop_t loop;

    (void)state;
    begin(&loop, pieces, "caaabbb");
    assert_true(turn_leave(&pieces[1].turn));
    assert_true(turn_leave(&pieces[2].turn));
    assert_false(pieces[2].turn.is_waiting || turn_leave(&pieces[2].turn));
    assert_true(pieces[3].turn.is_waiting);
    end(&loop, "cabbb");
}

/* "b" comes before the second of "a", and after all parts of the first. */
static void test_a_piece_of_parts_keeps_its_turn(void **state)
{
    struct piece pieces[N_PIECES];
    uv_loop_t loop;

    (void)state;
    begin(&loop, pieces, "");
    make(&pieces[0], 'a');
    make(&pieces[1], 'a');
    make(&pieces[2], 'b');
    pieces[0].n_more = 2;
    n_parts = 0;
    for (size_t i = 0; i < 3; i++)
        turns_wait(&turns, &pieces[i].turn, (uint64_t)pieces[i].name);
    end(&loop, "aba");
    assert_int_equal(n_parts, 5);
    assert_int_equal(most_at_work, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_caller_has_one_in_a_round),
        cmocka_unit_test(test_two_may_work_at_a_time),
        cmocka_unit_test(test_who_comes_late_waits_for_no_round_that_is_over),
        cmocka_unit_test(test_those_who_come_again_and_again_hold_up_nobody),
        cmocka_unit_test(test_who_leaves_is_not_worked_on),
        cmocka_unit_test(test_who_leaves_keeps_no_place),
        cmocka_unit_test(test_a_piece_of_parts_keeps_its_turn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
