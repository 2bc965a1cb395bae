/* The queue under random traffic: nothing lost, nothing twice, the oldest always among those that
 * are taken, limits held, like lengths preferred, the counts right. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "../support/random.h"
#include "sched/queue.h"

enum { N_SENTENCES = 3000, MAX_TAKE = 40 };

/* What must be in the queue: sentences enter in the order of their index. */
struct traffic {
    struct queue queue;
    struct sentence sentences[N_SENTENCES];
    bool waits[N_SENTENCES];
    size_t n_put, n_waiting, n_tokens;
};

static size_t class_of(const struct sentence *sentence)
{
    size_t class = sentence->n_source / QUEUE_CLASS_TOKENS;
    return class < QUEUE_CLASSES ? class : QUEUE_CLASSES - 1;
}

static size_t distance(const struct sentence *a, const struct sentence *b)
{
    size_t x = class_of(a), y = class_of(b);
    return x > y ? x - y : y - x;
}

static void put_one(struct traffic *t)
{
    struct sentence *sentence = &t->sentences[t->n_put];
    sentence->n_source = random_pick(0, random_pick(0, 9) == 0 ? 700 : 60);
    queue_put(&t->queue, sentence);
    t->waits[t->n_put++] = true;
    t->n_waiting++;
    t->n_tokens += sentence->n_source;
}

static const struct sentence *oldest(const struct traffic *t)
{
    for (size_t i = 0; i < t->n_put; i++)
        if (t->waits[i])
            return &t->sentences[i];
    return NULL;
}

/* Notes what was taken: it waited, once, and is within the limits. */
static void check_taken(struct traffic *t, struct sentence *const *taken, size_t n, size_t max_rows)
{
    size_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        size_t index = (size_t)(taken[i] - t->sentences);
        assert_true(index < t->n_put && t->waits[index]);
        t->waits[index] = false;
        t->n_waiting--;
        t->n_tokens -= taken[i]->n_source;
        rows += taken[i]->n_source + 1;
    }
    assert_true(n <= 1 || rows <= max_rows);
}

/* Of one list the older ones were taken first, whatever the limits. */
static void check_order(const struct traffic *t, struct sentence *const *taken, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < t->n_put; k++)
            if (t->waits[k] && &t->sentences[k] < taken[i])
                assert_int_not_equal(class_of(&t->sentences[k]), class_of(taken[i]));
}

/* If only the number of sentences was the limit, none that stayed is nearer than one taken. */
static void check_likeness(const struct traffic *t, struct sentence *const *taken, size_t n)
{
    size_t farthest = 0;
    for (size_t i = 0; i < n; i++)
        if (distance(taken[i], taken[0]) > farthest)
            farthest = distance(taken[i], taken[0]);
    for (size_t k = 0; k < t->n_put; k++)
        if (t->waits[k])
            assert_true(distance(&t->sentences[k], taken[0]) >= farthest);
}

static void take_some(struct traffic *t)
{
    struct sentence *taken[MAX_TAKE];
    const struct sentence *first = oldest(t);
    size_t most = random_pick(0, MAX_TAKE), before = t->n_waiting;
    size_t max_rows = random_pick(0, 1) ? SIZE_MAX / 2 : random_pick(0, 500);
    size_t n = queue_take(&t->queue, most, max_rows, taken);
    assert_true(n <= most);
    check_taken(t, taken, n, max_rows);
    if (!first || most == 0) {
        assert_int_equal(n, 0);
        return;
    }
    assert_true(n > 0 && taken[0] == first);
    check_order(t, taken, n);
    if (max_rows > 500) {
        assert_int_equal(n, most < before ? most : before);
        check_likeness(t, taken, n);
    }
}

static void random_traffic(void **state)
{
    (void)state;
    struct traffic *t = calloc(1, sizeof(*t));
    random_seed(5);
    while (t->n_put < N_SENTENCES || t->n_waiting > 0) {
        for (size_t i = random_pick(0, 30); i > 0 && t->n_put < N_SENTENCES; i--)
            put_one(t);
        take_some(t);
        assert_int_equal(t->queue.n_sentences, t->n_waiting);
        assert_int_equal(t->queue.n_tokens, t->n_tokens);
    }
    assert_int_equal(t->queue.n_tokens, 0);
    free(t);
}

/* A sentence that does not fit is taken alone; smaller ones behind it do not pass it for ever. */
static void long_sentence_is_taken_alone(void **state)
{
    (void)state;
    struct queue queue = {.n_tokens = 0};
    struct sentence sentences[3] = {{.n_source = 400}, {.n_source = 3}, {.n_source = 401}};
    struct sentence *taken[3];
    for (size_t i = 0; i < 3; i++)
        queue_put(&queue, &sentences[i]);
    assert_int_equal(queue_take(&queue, 3, 100, taken), 1);
    assert_ptr_equal(taken[0], &sentences[0]);
    assert_int_equal(queue_take(&queue, 3, 100, taken), 1);
    assert_ptr_equal(taken[0], &sentences[1]);
    assert_int_equal(queue_take(&queue, 3, 100, taken), 1);
    assert_ptr_equal(taken[0], &sentences[2]);
    assert_int_equal(queue_take(&queue, 3, 100, taken), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_traffic),
        cmocka_unit_test(long_sentence_is_taken_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
