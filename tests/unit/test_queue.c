/* The queue under random traffic: nothing lost, nothing twice, whoever is next taken next, limits
 * held, whoever is removed or has passed his deadline gone, the counts right; that long texts
 * neither block short ones nor starve; and that no caller delays or starves another. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>

#include "../support/random.h"
#include "../support/turns.h"
#include "sched/queue.h"

enum { N_SENTENCES = TURNS_MOST, MAX_TAKE = 40 };

/* What must be in the queue: sentences enter in the order of their index, text by text. */
struct traffic {
    struct queue queue;
    struct turns turns;
    struct sentence sentences[N_SENTENCES];
    bool waits[N_SENTENCES];
    size_t n_put, n_waiting, n_tokens;
    uint64_t now;
};

static void put_text(struct traffic *t)
{
    size_t n = random_pick(0, 3) == 0 ? random_pick(1, 30) : 1;
    struct sentence *sentences = &t->sentences[t->n_put];
    uint64_t caller = random_pick(0, random_pick(0, TURNS_CALLERS - 1));
    if (n > N_SENTENCES - t->n_put)
        n = N_SENTENCES - t->n_put;
    for (size_t i = 0; i < n; i++) {
        sentences[i].n_source = random_pick(0, random_pick(0, 9) == 0 ? 700 : 60);
        sentences[i].caller = caller;
        sentences[i].work = random_pick(0, 500);
        sentences[i].decoding.beam_size = (int)random_pick(1, 8);
        sentences[i].deadline_ns = random_pick(0, 2) ? 0 : t->now + random_pick(1, 300);
        t->waits[t->n_put++] = true;
        t->n_waiting++;
        t->n_tokens += sentences[i].n_source;
    }
    queue_put(&t->queue, sentences, n);
    for (size_t i = 0; i < n; i++)
        turns_put(&t->turns, &sentences[i]);
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

static size_t load_of(const struct sentence *sentence)
{
    return turns_rows(sentence) + (size_t)sentence->decoding.beam_size;
}

/* Those were taken whose turn it was, as many as fit and no more. */
static void check_taken(struct traffic *t, struct sentence *const *taken, size_t n,
                        const struct queue_room *room)
{
    size_t rows = 0, load = 0;
    turns_begin(&t->turns);
    for (size_t i = 0; i < n; i++) {
        assert_ptr_equal(taken[i], turns_next(&t->turns));
        turns_take(&t->turns, taken[i]);
        note_gone(t, taken[i]);
        rows += turns_rows(taken[i]);
        load += load_of(taken[i]);
    }
    assert_true(n <= room->sentences);
    assert_true(n <= 1 || (rows <= room->source_rows && load <= room->load));
    const struct sentence *next = turns_next(&t->turns);
    if (next && n < room->sentences)
        assert_true(rows + turns_rows(next) > room->source_rows ||
                    load + load_of(next) > room->load);
}

static void take_some(struct traffic *t)
{
    struct sentence *taken[MAX_TAKE];
    struct queue_room room = {
        .sentences = random_pick(0, MAX_TAKE),
        .source_rows = random_pick(0, 1) ? SIZE_MAX : random_pick(0, 500),
        .load = random_pick(0, 1) ? SIZE_MAX : random_pick(0, 500),
    };
    turns_begin(&t->turns);
    assert_ptr_equal(queue_first(&t->queue), turns_next(&t->turns));
    size_t n = queue_take(&t->queue, &room, taken);
    check_taken(t, taken, n, &room);
}

/* Also of callers of whom nothing waits, or never did. */
static void charge_some(struct traffic *t)
{
    uint64_t caller = random_pick(0, TURNS_CALLERS - 1);
    size_t n_rows = random_pick(0, 3) ? 0 : random_pick(1, 500);
    queue_charge(&t->queue, caller, n_rows);
    turns_charge(&t->turns, caller, n_rows);
}

static void remove_some(struct traffic *t)
{
    for (size_t i = random_pick(0, 4); i > 0 && t->n_put > 0; i--) {
        size_t index = random_pick(0, t->n_put - 1);
        assert_int_equal(t->waits[index], t->sentences[index].queue == &t->queue);
        if (!t->waits[index])
            continue;
        queue_remove(&t->sentences[index]);
        turns_remove(&t->turns, &t->sentences[index]);
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
        turns_remove(&t->turns, expired);
        note_gone(t, expired);
    }
    for (size_t i = 0; i < t->n_put; i++)
        if (t->waits[i] && t->sentences[i].deadline_ns != 0)
            assert_true(t->sentences[i].deadline_ns > t->now);
}

/* What the queue says of all and of each caller is the sum of what waits. */
static void check_sums(const struct traffic *t)
{
    uint64_t n_of_flows = 0, all_work = 0;
    for (uint64_t caller = 0; caller < TURNS_CALLERS; caller++) {
        const struct flow *flow = queue_flow(&t->queue, caller);
        uint64_t rows = 0, work = 0, n = 0;
        for (size_t i = 0; i < t->turns.n; i++) {
            const struct sentence *each = t->turns.waiting[i];
            rows += each->caller == caller ? turns_rows(each) : 0;
            work += each->caller == caller ? each->work : 0;
            n += each->caller == caller;
        }
        assert_int_equal(flow ? flow->n_rows : 0, rows);
        assert_int_equal(flow ? flow->work : 0, work);
        assert_int_equal(flow ? flow->n_sentences : 0, n);
        n_of_flows += n;
        all_work += work;
    }
    assert_int_equal(n_of_flows, t->n_waiting);
    assert_int_equal(t->queue.work, all_work);
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
        charge_some(t);
        remove_some(t);
        expire_some(t);
        assert_int_equal(t->queue.n_sentences, t->n_waiting);
        assert_int_equal(t->queue.n_tokens, t->n_tokens);
        check_sums(t);
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

/* ---- Callers --------------------------------------------------------------------------------- */

enum { LONGEST = 60 };

/* Puts sentences of one caller, of random lengths, in texts of `n_each`. */
static void put_bulk(struct queue *queue, struct sentence *sentences, size_t n, size_t n_each,
                     uint64_t caller)
{
    for (size_t i = 0; i < n; i++)
        sentences[i] = (struct sentence){.n_source = random_pick(0, LONGEST), .caller = caller};
    for (size_t i = 0; i < n; i++)
        sentences[i].work = turns_rows(&sentences[i]);
    for (size_t i = 0; i < n; i += n_each)
        queue_put(queue, &sentences[i], n_each);
}

/* Before the sentence of a caller of whom nothing waited, each other one has at most as many rows
 * as the longest sentence, and one sentence, however many wait of him and in how many texts. */
static void bulk_delays_others_by_a_bound(void **state)
{
    (void)state;
    enum { N_BULK = 10000, MOST_OTHERS = 5, MOST_ROWS = 2 * (LONGEST + 1) };
    struct sentence *bulk = calloc(MOST_OTHERS * N_BULK, sizeof(*bulk));
    size_t worst = 0;
    for (size_t n_each = 1; n_each <= N_BULK; n_each *= 10)
        for (size_t n_others = 1; n_others <= MOST_OTHERS; n_others += 2) {
            struct queue *queue = calloc(1, sizeof(*queue));
            random_seed(n_each + n_others);
            for (size_t i = 0; i < n_others; i++)
                put_bulk(queue, &bulk[i * N_BULK], N_BULK, n_each, i + 1);
            for (size_t round = 0; round < 200; round++) {
                struct sentence single = {.n_source = random_pick(0, LONGEST), .caller = 99};
                size_t rows[MOST_OTHERS + 1] = {0};
                const struct sentence *taken;
                for (size_t i = random_pick(1, 40); i > 0; i--)
                    take_one(queue);
                queue_put(queue, &single, 1);
                while ((taken = take_one(queue)) != &single)
                    rows[taken->caller] += turns_rows(taken);
                for (size_t i = 1; i <= n_others; i++)
                    worst = rows[i] > worst ? rows[i] : worst;
            }
            free(queue);
        }
    assert_in_range(worst, 1, MOST_ROWS);
    free(bulk);
}

/* Callers get equal parts while they wait, whatever their texts are. */
static void callers_share(void **state)
{
    (void)state;
    enum { N = 2000, N_CALLERS = 3 };
    const size_t n_each[N_CALLERS] = {1, 20, N};
    struct sentence *bulk = calloc(N_CALLERS * N, sizeof(*bulk));
    struct queue *queue = calloc(1, sizeof(*queue));
    size_t rows[N_CALLERS] = {0};
    random_seed(11);
    for (size_t i = 0; i < N_CALLERS; i++)
        put_bulk(queue, &bulk[i * N], N, n_each[i], i);
    for (size_t i = 0; i < N; i++) {
        const struct sentence *taken = take_one(queue);
        rows[taken->caller] += turns_rows(taken);
        for (size_t a = 0; a < N_CALLERS; a++)
            for (size_t b = 0; b < N_CALLERS; b++)
                assert_true(rows[a] <= rows[b] + LONGEST + 1);
    }
    free(queue);
    free(bulk);
}

/* Whoever's sentences take a hundred times their rows gets no more than his part, as he is charged
 * with them, also if he waits for his turn anew with each: what he owes is not forgotten. */
static void who_takes_more_is_charged(void **state)
{
    (void)state;
    enum { N = 10000, FACTOR = 100 };
    for (int comes_anew = 0; comes_anew < 2; comes_anew++) {
        struct sentence *usual = calloc(N, sizeof(*usual)), *heavy = calloc(N, sizeof(*heavy));
        struct queue *queue = calloc(1, sizeof(*queue));
        size_t rows[2] = {0}, n_heavy = 0;
        random_seed(13);
        put_bulk(queue, usual, N, 1, 0);
        if (!comes_anew)
            put_bulk(queue, heavy, N, 1, 1);
        for (size_t i = 0; i < N; i++) {
            if (comes_anew && !queue_flow(queue, 1))
                put_bulk(queue, &heavy[n_heavy++], 1, 1, 1);
            const struct sentence *taken = take_one(queue);
            size_t factor = taken->caller == 1 ? FACTOR : 1;
            rows[taken->caller] += factor * turns_rows(taken);
            queue_charge(queue, taken->caller, (factor - 1) * turns_rows(taken));
        }
        assert_in_range(rows[1], rows[0] * 9 / 10, rows[0] + FACTOR * (LONGEST + 1));
        free(queue);
        free(usual);
        free(heavy);
    }
}

/* He owes it to those who come while he does, and to nobody else: alone he waits for nothing, and
 * then others begin where he is. */
static void debts_do_not_last(void **state)
{
    (void)state;
    struct queue *queue = calloc(1, sizeof(*queue));
    struct sentence own[2] = {{.n_source = 9, .caller = 1}, {.n_source = 9, .caller = 1}};
    struct sentence others[2] = {{.n_source = 9, .caller = 2}, {.n_source = 9, .caller = 2}};
    queue_charge(queue, 1, 1000);
    queue_put(queue, &own[0], 1);
    queue_put(queue, &others[0], 1);
    assert_ptr_equal(take_one(queue), &others[0]);
    assert_ptr_equal(take_one(queue), &own[0]);
    queue_put(queue, &own[1], 1);
    queue_put(queue, &others[1], 1);
    assert_ptr_equal(take_one(queue), &own[1]);
    free(queue);
}

/* Where all flows are others', what is owed is forgotten. */
static void nobody_pays_for_another(void **state)
{
    (void)state;
    struct queue *queue = calloc(1, sizeof(*queue));
    struct sentence *waiting = calloc(QUEUE_FLOWS, sizeof(*waiting));
    for (size_t i = 0; i < QUEUE_FLOWS; i++) {
        waiting[i] = (struct sentence){.n_source = 9, .caller = i};
        queue_put(queue, &waiting[i], 1);
    }
    queue_charge(queue, QUEUE_FLOWS + 3, 1000);
    for (size_t i = 0; i < QUEUE_FLOWS; i++)
        assert_int_equal(queue_flow(queue, i)->start, 0);
    free(waiting);
    free(queue);
}

/* New callers who never stop coming, one for each sentence that is taken, do not keep out one who
 * waits. */
static void new_callers_starve_nobody(void **state)
{
    (void)state;
    enum { N = 50, MOST = 10000 };
    struct sentence book[N], *singles = calloc(MOST, sizeof(*singles));
    struct queue *queue = calloc(1, sizeof(*queue));
    size_t n_read = 0, n_singles = 0;
    for (size_t i = 0; i < N; i++)
        book[i] = (struct sentence){.n_source = 9};
    queue_put(queue, book, N);
    while (n_read < N) {
        assert_true(n_singles < MOST);
        singles[n_singles] = (struct sentence){.n_source = 4, .caller = 1 + n_singles};
        queue_put(queue, &singles[n_singles++], 1);
        n_read += take_one(queue) == &book[n_read];
    }
    free(queue);
    free(singles);
}

/* More callers than flows: some share one, and everybody is served. */
static void many_callers_share_flows(void **state)
{
    (void)state;
    enum { N = 3 * QUEUE_FLOWS };
    struct sentence *sentences = calloc(2 * N, sizeof(*sentences));
    struct queue *queue = calloc(1, sizeof(*queue));
    size_t n_taken[2 * N] = {0};
    for (size_t i = 0; i < 2 * N; i++) {
        sentences[i] = (struct sentence){.n_source = i % 50, .caller = i % N};
        queue_put(queue, &sentences[i], 1);
        if (i % 5 == 0)
            n_taken[take_one(queue) - sentences]++;
    }
    while (queue->n_sentences > 0)
        n_taken[take_one(queue) - sentences]++;
    for (size_t i = 0; i < 2 * N; i++)
        assert_int_equal(n_taken[i], 1);
    assert_null(queue_first(queue));
    free(queue);
    free(sentences);
}

/* Of what is said to come before the last sentence of a text all does, but for a sentence or two of
 * each caller; and it is most of what does. */
static void work_before_comes_before(void **state)
{
    (void)state;
    enum { N = 600, MOST_TEXT = 30, ROUNDS = 300, MOST_OVER = 4 * 2 * (LONGEST + 1) };
    struct sentence *bulk = calloc(3 * N, sizeof(*bulk)), text[MOST_TEXT];
    uint64_t sum_said = 0, sum_begun = 0;
    random_seed(12);
    for (size_t round = 0; round < ROUNDS; round++) {
        struct queue *queue = calloc(1, sizeof(*queue));
        size_t n = random_pick(1, MOST_TEXT), n_rows = 0;
        uint64_t begun = 0;
        for (size_t i = 0; i < 3; i++)
            put_bulk(queue, &bulk[i * N], N, (size_t[]){1, 1, 20, N}[random_pick(0, 3)], i);
        for (size_t i = random_pick(0, 3 * N - 1); i > 0; i--)
            take_one(queue);
        for (size_t i = 0; i < n; i++) {
            text[i] = (struct sentence){.n_source = random_pick(0, LONGEST), .caller = round % 4};
            n_rows += turns_rows(&text[i]);
        }
        n_rows -= turns_rows(&text[n - 1]);
        uint64_t said = n_rows + queue_work_before(queue, round % 4, n_rows);
        queue_put(queue, text, n);
        for (const struct sentence *taken = NULL; taken != &text[n - 1];) {
            taken = take_one(queue);
            begun += taken == &text[n - 1] ? 0 : turns_rows(taken);
        }
        assert_true(said <= begun + MOST_OVER);
        sum_said += said;
        sum_begun += begun;
        free(queue);
    }
    assert_true(sum_said >= sum_begun * 3 / 4);
    free(bulk);
}

/* Also where a sentence takes fewer steps than it has rows, as greedy ones do. */
static void work_is_counted_in_parts(void **state)
{
    (void)state;
    enum { CALLERS = 19, N = 100, ROWS = 11 };
    struct sentence *sentences = calloc(CALLERS * N, sizeof(*sentences));
    for (uint64_t work = 8; work <= 21; work++) {
        struct queue *queue = calloc(1, sizeof(*queue));
        for (size_t i = 0; i < CALLERS * N; i++) {
            sentences[i] =
                (struct sentence){.n_source = ROWS - 1, .caller = 1 + i % CALLERS, .work = work};
            assert_int_equal(turns_rows(&sentences[i]), ROWS);
            queue_put(queue, &sentences[i], 1);
        }
        uint64_t rows = N / 2 * ROWS, others = CALLERS * N / 2 * work;
        assert_in_range(queue_work_before(queue, 0, rows), others * 9 / 10, others * 11 / 10);
        free(queue);
    }
    free(sentences);
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
        cmocka_unit_test(bulk_delays_others_by_a_bound),
        cmocka_unit_test(callers_share),
        cmocka_unit_test(who_takes_more_is_charged),
        cmocka_unit_test(debts_do_not_last),
        cmocka_unit_test(nobody_pays_for_another),
        cmocka_unit_test(new_callers_starve_nobody),
        cmocka_unit_test(many_callers_share_flows),
        cmocka_unit_test(work_before_comes_before),
        cmocka_unit_test(work_is_counted_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
