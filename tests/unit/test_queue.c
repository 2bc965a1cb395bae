/* The queue under random traffic: nothing lost, nothing twice, the earliest turn always among
 * those that are taken, limits held, like lengths preferred, whoever is removed or has passed his
 * deadline gone, the counts right; and that long texts neither block short ones nor starve. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>

#include "../support/random.h"
#include "sched/queue.h"

enum { N_SENTENCES = 3000, MAX_TAKE = 40 };

/* What must be in the queue: sentences enter in the order of their index, text by text. */
struct traffic {
    struct queue queue;
    struct sentence sentences[N_SENTENCES];
    bool waits[N_SENTENCES];
    size_t n_put, n_waiting, n_tokens;
    uint64_t now;
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

static void put_text(struct traffic *t)
{
    size_t n = random_pick(0, 3) == 0 ? random_pick(1, 30) : 1;
    struct sentence *sentences = &t->sentences[t->n_put];
    if (n > N_SENTENCES - t->n_put)
        n = N_SENTENCES - t->n_put;
    for (size_t i = 0; i < n; i++) {
        sentences[i].n_source = random_pick(0, random_pick(0, 9) == 0 ? 700 : 60);
        sentences[i].decoding.beam_size = (int)random_pick(1, 8);
        sentences[i].deadline_ns = random_pick(0, 2) ? 0 : t->now + random_pick(1, 300);
        t->waits[t->n_put++] = true;
        t->n_waiting++;
        t->n_tokens += sentences[i].n_source;
    }
    queue_put(&t->queue, sentences, n);
}

static bool is_before(const struct sentence *a, const struct sentence *b)
{
    return a->turn != b->turn ? a->turn < b->turn : a < b;
}

static const struct sentence *earliest(const struct traffic *t)
{
    const struct sentence *first = NULL;
    for (size_t i = 0; i < t->n_put; i++)
        if (t->waits[i] && (!first || is_before(&t->sentences[i], first)))
            first = &t->sentences[i];
    return first;
}

/* Notes that it waited and does no more. */
static void note_gone(struct traffic *t, const struct sentence *sentence)
{
    size_t index = (size_t)(sentence - t->sentences);
    assert_true(index < t->n_put && t->waits[index]);
    assert_null(sentence->queue);
    t->waits[index] = false;
    t->n_waiting--;
    t->n_tokens -= sentence->n_source;
}

static void check_taken(struct traffic *t, struct sentence *const *taken, size_t n,
                        const struct queue_room *room)
{
    size_t rows = 0, load = 0;
    for (size_t i = 0; i < n; i++) {
        note_gone(t, taken[i]);
        rows += taken[i]->n_source + 1;
        load += taken[i]->n_source + 1 + (size_t)taken[i]->decoding.beam_size;
    }
    assert_true(n <= room->sentences);
    assert_true(n <= 1 || (rows <= room->source_rows && load <= room->load));
}

/* Of one list the earlier turns were taken first, whatever the limits. */
static void check_order(const struct traffic *t, struct sentence *const *taken, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < t->n_put; k++)
            if (t->waits[k] && is_before(&t->sentences[k], taken[i]))
                assert_int_not_equal(class_of(&t->sentences[k]), class_of(taken[i]));
}

/* None that stayed is nearer than one taken, whatever the limits. */
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
    const struct sentence *first = earliest(t);
    size_t before = t->n_waiting;
    struct queue_room room = {
        .sentences = random_pick(0, MAX_TAKE),
        .source_rows = random_pick(0, 1) ? SIZE_MAX : random_pick(0, 500),
        .load = random_pick(0, 1) ? SIZE_MAX : random_pick(0, 500),
    };
    assert_ptr_equal(queue_first(&t->queue), first);
    size_t n = queue_take(&t->queue, &room, taken);
    check_taken(t, taken, n, &room);
    if (!first || room.sentences == 0) {
        assert_int_equal(n, 0);
        return;
    }
    assert_true(n > 0 && taken[0] == first);
    check_order(t, taken, n);
    check_likeness(t, taken, n);
    if (room.source_rows > 500 && room.load > 500)
        assert_int_equal(n, room.sentences < before ? room.sentences : before);
}

static void remove_some(struct traffic *t)
{
    for (size_t i = random_pick(0, 4); i > 0 && t->n_put > 0; i--) {
        size_t index = random_pick(0, t->n_put - 1);
        assert_int_equal(t->waits[index], t->sentences[index].queue == &t->queue);
        if (!t->waits[index])
            continue;
        queue_remove(&t->sentences[index]);
        note_gone(t, &t->sentences[index]);
    }
}

/* All whose time is up come out, the earliest deadline first, and nobody else. */
static void expire_some(struct traffic *t)
{
    uint64_t latest = 0;
    const struct sentence *expired;
    t->now += random_pick(0, 20);
    while ((expired = queue_take_expired(&t->queue, t->now))) {
        assert_in_range(expired->deadline_ns, latest ? latest : 1, t->now);
        latest = expired->deadline_ns;
        note_gone(t, expired);
    }
    for (size_t i = 0; i < t->n_put; i++)
        if (t->waits[i] && t->sentences[i].deadline_ns != 0)
            assert_true(t->sentences[i].deadline_ns > t->now);
}

static void random_traffic(void **state)
{
    (void)state;
    struct traffic *t = calloc(1, sizeof(*t));
    random_seed(5);
    while (t->n_put < N_SENTENCES || t->n_waiting > 0) {
        for (size_t i = random_pick(0, 10); i > 0 && t->n_put < N_SENTENCES; i--)
            put_text(t);
        take_some(t);
        remove_some(t);
        expire_some(t);
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
    struct queue_room room = {.sentences = 3, .source_rows = 100, .load = 1000};
    for (size_t i = 0; i < 3; i++)
        queue_put(&queue, &sentences[i], 1);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(queue_take(&queue, &room, taken), 1);
        assert_ptr_equal(taken[0], &sentences[i]);
    }
    assert_int_equal(queue_take(&queue, &room, taken), 0);
}

static const struct sentence *take_one(struct queue *queue)
{
    struct sentence *taken;
    struct queue_room room = {.sentences = 1};
    assert_int_equal(queue_take(queue, &room, &taken), 1);
    return taken;
}

/* Texts of one sentence come out as they came in, whatever their lengths. */
static void single_sentences_are_served_in_order(void **state)
{
    (void)state;
    struct queue queue = {.n_tokens = 0};
    struct sentence sentences[100] = {{.n_source = 0}};
    random_seed(7);
    for (size_t i = 0; i < 100; i++) {
        sentences[i].n_source = random_pick(0, 80);
        queue_put(&queue, &sentences[i], 1);
    }
    for (size_t i = 0; i < 100; i++)
        assert_ptr_equal(take_one(&queue), &sentences[i]);
}

/* A short text does not wait for the rest of a long one. */
static void short_text_passes_a_long_one(void **state)
{
    (void)state;
    struct queue queue = {.n_tokens = 0};
    struct sentence book[1000], greeting = {.n_source = 2};
    for (size_t i = 0; i < 1000; i++)
        book[i] = (struct sentence){.n_source = 9};
    queue_put(&queue, book, 1000);
    for (size_t i = 0; i < 500; i++)
        take_one(&queue);
    queue_put(&queue, &greeting, 1);
    assert_ptr_equal(take_one(&queue), &greeting);
}

/* Two long texts share although one came later. */
static void long_texts_share(void **state)
{
    (void)state;
    struct queue queue = {.n_tokens = 0};
    struct sentence first[400], second[400];
    size_t n_second = 0;
    for (size_t i = 0; i < 400; i++)
        first[i] = second[i] = (struct sentence){.n_source = 9};
    queue_put(&queue, first, 400);
    for (size_t i = 0; i < 100; i++)
        take_one(&queue);
    queue_put(&queue, second, 400);
    for (size_t i = 0; i < 200; i++) {
        const struct sentence *taken = take_one(&queue);
        n_second += taken >= second && taken < second + 400;
    }
    assert_in_range(n_second, 99, 101);
}

/* Short texts that never stop coming pass a sentence by as many rows as stand before it in its
 * own text, and one short text more; then it is served. */
static void long_text_does_not_starve(void **state)
{
    (void)state;
    enum { LENGTH = 9, N = 50, SHORT = 4 };
    struct queue queue = {.n_tokens = 0};
    struct sentence book[N], *newcomers = calloc(N * 10, sizeof(*newcomers));
    size_t n_read = 0, rows_passed = 0, n_newcomers = 0;
    for (size_t i = 0; i < N; i++)
        book[i] = (struct sentence){.n_source = LENGTH};
    queue_put(&queue, book, N);
    while (n_read < N) {
        newcomers[n_newcomers].n_source = SHORT;
        queue_put(&queue, &newcomers[n_newcomers++], 1);
        assert_true(n_newcomers < N * 10);
        const struct sentence *taken = take_one(&queue);
        if (taken == &book[n_read]) {
            assert_true(rows_passed <= n_read * (LENGTH + 1) + SHORT + 1);
            n_read++;
        } else {
            rows_passed += SHORT + 1;
        }
    }
    free(newcomers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_traffic),
        cmocka_unit_test(long_sentence_is_taken_alone),
        cmocka_unit_test(single_sentences_are_served_in_order),
        cmocka_unit_test(short_text_passes_a_long_one),
        cmocka_unit_test(long_texts_share),
        cmocka_unit_test(long_text_does_not_starve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
