/* The scheduler's plan, simulated under virtual time: random texts, lengths, beams, deadlines,
 * cancellations, bursts, workers, models, durations of steps, lost devices and ends. After every
 * event it is checked against a plain account of where every sentence is: nothing lost, nothing
 * twice, limits held, every promise of plan.h kept. Then what the random worlds may miss, case by
 * case. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>

#include "../support/random.h"
#include "../support/turns.h"
#include "sched/plan.h"

enum { N_WORLDS = 400, N_SENTENCES = 400, MAX_MODELS = 4, MAX_WORKERS = 5, MAX_SEAT = 12 };

/* ---- The account ----------------------------------------------------------------------------- */

enum place { NOWHERE, WAITS, ENDED, RUNS, BACK };

struct fate {
    enum place place;
    size_t model, worker;
    size_t first, n;   /* its text */
    int steps_left;    /* of decoding, */
    size_t n_steps;    /* and those it had */
    int status;        /* it must come back with, from ENDED on */
    bool is_cancelled; /* while it ran */
    size_t n_passes, max_passes;
};

enum doing { COMING, STEPPING, SLEEPING, STOPPED };

struct hand {
    enum doing doing;
    size_t model;                          /* stepped last */
    uint64_t at;                           /* of its next event */
    size_t others[MAX_MODELS][MAX_MODELS]; /* [a][b]: steps of b while a had something to step */
};

struct world {
    struct plan plan;
    struct plan_model models[MAX_MODELS];
    struct turns turns[MAX_MODELS];
    size_t n_models, n_workers, n_devices;
    bool is_lost[MAX_WORKERS]; /* [n_devices] */
    size_t n_losses;           /* that are still to come */
    struct hand hands[MAX_WORKERS];
    struct sentence sentences[N_SENTENCES];
    struct fate fates[N_SENTENCES];
    size_t n_sentences; /* that exist */
    uint64_t now, text_at, cancel_at, close_at;
    bool is_closing;
};

/* What the worlds have seen: a promise that was never put to the test is not checked. */
static struct {
    size_t refused, expired_waiting, expired_running, cancelled_waiting, cancelled_running;
    size_t closed_waiting, closed_running, passed, held_back, too_large, shared, finished, led,
        late, reserve, beside, moved, lost_twice, lost_waiting, refused_lost, charged;
} seen;

static size_t load_of(const struct sentence *sentence)
{
    return turns_rows(sentence) + (size_t)sentence->decoding.beam_size;
}

static bool is_before(const struct sentence *a, const struct sentence *b)
{
    return a->turn != b->turn ? a->turn < b->turn : a->order < b->order;
}

static struct fate *fate_of(struct world *w, const struct sentence *sentence)
{
    size_t index = (size_t)(sentence - w->sentences);
    assert_true(index < w->n_sentences);
    return &w->fates[index];
}

static bool waits_in(const struct world *w, size_t i, size_t model)
{
    return w->fates[i].place == WAITS && w->fates[i].model == model;
}

static bool runs_at(const struct world *w, size_t i, size_t worker, size_t model)
{
    const struct fate *fate = &w->fates[i];
    return fate->place == RUNS && fate->worker == worker && fate->model == model;
}

static size_t count_places(const struct world *w, enum place place)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_sentences; i++)
        n += w->fates[i].place == place;
    return n;
}

static size_t count_waiting(const struct world *w, size_t model)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_sentences; i++)
        n += waits_in(w, i, model);
    return n;
}

static size_t count_doing(const struct world *w, enum doing doing)
{
    size_t n = 0;
    for (size_t k = 0; k < w->n_workers; k++)
        n += w->hands[k].doing == doing;
    return n;
}

static size_t waiting_tokens(const struct world *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_sentences; i++)
        n += w->fates[i].place == WAITS ? w->sentences[i].n_source : 0;
    return n;
}

struct batch_count {
    size_t n, load;
};

static struct batch_count count_batch(const struct world *w, size_t worker, size_t model)
{
    struct batch_count count = {0, 0};
    for (size_t i = 0; i < w->n_sentences; i++) {
        if (!runs_at(w, i, worker, model))
            continue;
        count.n++;
        count.load += load_of(&w->sentences[i]);
    }
    return count;
}

static void end_waiting(struct world *w, size_t i, int status)
{
    turns_remove(&w->turns[w->fates[i].model], &w->sentences[i]);
    w->fates[i].place = ENDED;
    w->fates[i].status = status;
}

static size_t device_of(const struct world *w, size_t worker)
{
    return worker / (w->n_workers / w->n_devices);
}

static bool are_all_lost(const struct world *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_devices; i++)
        n += w->is_lost[i];
    return n == w->n_devices;
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* Wakes are few enough and enough, and the queue counts who waits and nobody else. */
static void check_wakes(struct world *w, const struct plan_actions *actions)
{
    size_t n_useful = count_places(w, WAITS);
    size_t n_coming = count_doing(w, COMING);
    if (w->is_closing)
        n_useful = w->n_workers;
    assert_true(actions->n_wakes == 0 || n_coming + actions->n_wakes <= n_useful);
    for (size_t i = 0; i < actions->n_wakes; i++) {
        struct hand *hand = &w->hands[actions->wakes[i]];
        assert_int_equal(hand->doing, SLEEPING);
        hand->doing = COMING;
        hand->at = w->now + random_pick(0, 30);
    }
    n_coming = count_doing(w, COMING);
    if (count_doing(w, SLEEPING) > 0)
        assert_true(n_coming >= n_useful && (n_coming > 0 || count_places(w, ENDED) == 0));
    assert_int_equal(plan_queued_tokens(&w->plan), waiting_tokens(w));
}

/* With every event those that wait and have passed their deadline end. */
static void expire(struct world *w)
{
    for (size_t i = 0; i < w->n_sentences; i++) {
        uint64_t deadline = w->sentences[i].deadline_ns;
        if (w->fates[i].place != WAITS || deadline == 0 || deadline > w->now)
            continue;
        end_waiting(w, i, ACRE_ETIMEOUT);
        seen.expired_waiting++;
    }
}

static struct plan_actions tell(struct world *w, const struct plan_event *event)
{
    expire(w);
    return plan_step(&w->plan, event, w->now);
}

static size_t make_text(struct world *w, size_t model)
{
    size_t n = random_pick(0, 3) == 0 ? random_pick(1, 25) : 1, first = w->n_sentences;
    bool has_deadline = random_pick(0, 2) == 0, is_stream = random_pick(0, 2) == 0;
    uint64_t deadline = w->now + random_pick(0, 3000);
    uint64_t caller = random_pick(0, random_pick(0, TURNS_CALLERS - 1));
    if (n > N_SENTENCES - first)
        n = N_SENTENCES - first;
    for (size_t i = first; i < first + n; i++) {
        struct sentence *sentence = &w->sentences[i];
        sentence->n_source = random_pick(0, random_pick(0, 9) == 0 ? 700 : 60);
        sentence->n_behind = is_stream && i == first ? n - 1 : 0;
        sentence->caller = caller;
        sentence->decoding.beam_size = (int)random_pick(1, 8);
        sentence->decoding.max_length = 1000;
        sentence->deadline_ns = has_deadline ? deadline : 0;
        w->fates[i] = (struct fate){.model = model, .first = first, .n = n};
        w->fates[i].steps_left = (int)random_pick(1, 30);
    }
    w->n_sentences += n;
    return n;
}

/* How often later turns of a caller may pass his newcomer: once for every other class that now has
 * earlier ones. A newcomer with an earlier turn than one that waits gives that one's passers
 * another chance; it stands at an earlier row of its text. */
static void allow_passes(struct world *w, size_t y, size_t newcomers)
{
    const struct sentence *sentence = &w->sentences[y];
    bool has_earlier[QUEUE_CLASSES] = {false};
    for (size_t i = 0; i < w->n_sentences; i++) {
        const struct sentence *other = &w->sentences[i];
        if (!waits_in(w, i, w->fates[y].model) || other->caller != sentence->caller ||
            !is_before(other, sentence))
            continue;
        has_earlier[turns_class(other)] = true;
        if (y >= newcomers || i < newcomers)
            continue;
        w->fates[y].max_passes += turns_class(other) != turns_class(sentence);
        assert_true(other->turn - w->sentences[newcomers].turn <
                    sentence->turn - w->sentences[w->fates[y].first].turn);
    }
    for (size_t class = 0; y >= newcomers && class < QUEUE_CLASSES; class ++)
        w->fates[y].max_passes += has_earlier[class] && class != turns_class(sentence);
}

/* What waits, beyond half the limit, of the other caller of whom most does. */
static size_t tokens_beyond(const struct world *w, uint64_t caller)
{
    size_t beyond = 0, half = w->plan.max_queued_tokens / 2;
    for (uint64_t other = 0; other < TURNS_CALLERS; other++) {
        size_t n = 0;
        for (size_t i = 0; i < w->n_sentences; i++)
            if (w->fates[i].place == WAITS && w->sentences[i].caller == other)
                n += w->sentences[i].n_source;
        if (other != caller && n > half + beyond)
            beyond = n - half;
    }
    return beyond;
}

/* An eighth more than the limit is for those of whom nothing waits. */
static bool is_full(const struct world *w, uint64_t caller, size_t n_tokens)
{
    size_t beyond = tokens_beyond(w, caller), room = w->plan.max_queued_tokens;
    size_t queued = waiting_tokens(w) - beyond;
    bool is_waiting = false;
    for (size_t i = 0; i < w->n_sentences; i++)
        is_waiting |= w->fates[i].place == WAITS && w->sentences[i].caller == caller;
    if (queued + beyond == 0 || queued + n_tokens <= room) {
        seen.beside += queued + beyond + n_tokens > room;
        return false;
    }
    if (!is_waiting && queued + n_tokens <= room + room / 8) {
        seen.reserve++;
        return false;
    }
    return true;
}

/* Only where something waits and the time that is said is more than is left. */
static void check_late(const struct world *w, size_t i, const struct plan_actions *actions)
{
    uint64_t deadline = w->sentences[i].deadline_ns;
    assert_true(deadline != 0 && actions->time_ns > deadline - w->now);
    seen.late++;
}

static void submit(struct world *w)
{
    size_t model = random_pick(0, w->n_models - 1), first = w->n_sentences, n_tokens = 0;
    size_t n = make_text(w, model);
    for (size_t i = first; i < first + n; i++)
        n_tokens += w->sentences[i].n_source;
    struct plan_text text = {&w->sentences[first], n};
    struct plan_event event = {
        .kind = PLAN_SUBMIT, .model = &w->models[model], .texts = &text, .n = 1};
    struct plan_actions actions = tell(w, &event);
    bool is_lost = are_all_lost(w) && !w->is_closing;
    int expected = w->is_closing                                      ? ACRE_ECLOSED
                   : is_lost                                          ? ACRE_EDEVICE
                   : is_full(w, w->sentences[first].caller, n_tokens) ? ACRE_EBUSY
                                                                      : 0;
    if (expected == 0 && actions.status == ACRE_ELATE)
        check_late(w, first, &actions);
    else
        assert_int_equal(actions.status, expected);
    seen.refused += expected == ACRE_EBUSY;
    seen.refused_lost += is_lost;
    for (size_t i = first; actions.status == 0 && i < first + n; i++) {
        w->fates[i].place = WAITS;
        turns_put(&w->turns[model], &w->sentences[i]);
    }
    for (size_t i = 0; actions.status == 0 && i < w->n_sentences; i++)
        if (waits_in(w, i, model))
            allow_passes(w, i, first);
    check_wakes(w, &actions);
    w->text_at = w->n_sentences == N_SENTENCES ? UINT64_MAX
                                               : w->now + random_pick(0, 1) * random_pick(0, 300);
}

/* Any text that was accepted, whatever has become of it. */
static void cancel(struct world *w)
{
    w->cancel_at = w->text_at == UINT64_MAX ? UINT64_MAX : w->now + random_pick(1, 500);
    if (w->n_sentences == 0)
        return;
    const struct fate *any = &w->fates[random_pick(0, w->n_sentences - 1)];
    if (any->place == NOWHERE)
        return;
    struct plan_event event = {.kind = PLAN_CANCEL, .n = any->n};
    event.sentences = &w->sentences[any->first];
    struct plan_actions actions = tell(w, &event);
    for (size_t i = any->first; !are_all_lost(w) && i < any->first + any->n; i++) {
        w->fates[i].is_cancelled = w->fates[i].place == RUNS;
        if (w->fates[i].place != WAITS)
            continue;
        end_waiting(w, i, ACRE_ECANCELLED);
        seen.cancelled_waiting++;
    }
    check_wakes(w, &actions);
}

static void close_world(struct world *w)
{
    struct plan_actions actions = tell(w, &(struct plan_event){.kind = PLAN_CLOSE});
    w->is_closing = true;
    w->close_at = UINT64_MAX;
    for (size_t i = 0; i < w->n_sentences; i++) {
        if (w->fates[i].place != WAITS)
            continue;
        end_waiting(w, i, ACRE_ECLOSED);
        seen.closed_waiting++;
    }
    check_wakes(w, &actions);
}

/* It leaves its batch: its caller is charged with what its steps were more than its rows. */
static void charge(struct world *w, size_t i)
{
    const struct sentence *sentence = &w->sentences[i];
    const struct fate *fate = &w->fates[i];
    size_t took = fate->n_steps * (size_t)sentence->decoding.beam_size;
    took /= w->models[fate->model].limits.usual_beam;
    if (took > turns_rows(sentence))
        turns_charge(&w->turns[fate->model], sentence->caller, took - turns_rows(sentence));
    seen.charged += took > turns_rows(sentence);
}

/* ---- A worker that is ready ------------------------------------------------------------------ */

/* The step is over; those that have finished are in `finished`. */
static size_t finish_step(struct world *w, size_t worker, struct sentence **finished)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_sentences; i++) {
        if (!runs_at(w, i, worker, w->hands[worker].model))
            continue;
        w->fates[i].n_steps++;
        if (--w->fates[i].steps_left > 0)
            continue;
        charge(w, i);
        w->fates[i].place = ENDED;
        finished[n++] = &w->sentences[i];
        seen.finished++;
    }
    return n;
}

static void take_back(struct world *w, const struct sentence *list)
{
    for (const struct sentence *each = list; each; each = each->next) {
        struct fate *fate = fate_of(w, each);
        assert_int_equal(fate->place, ENDED);
        assert_int_equal(each->status, fate->status);
        fate->place = BACK;
    }
}

static int why_leave(const struct world *w, size_t i)
{
    uint64_t deadline = w->sentences[i].deadline_ns;
    if (w->is_closing)
        return ACRE_ECLOSED;
    if (w->fates[i].is_cancelled)
        return ACRE_ECANCELLED;
    return deadline != 0 && deadline <= w->now ? ACRE_ETIMEOUT : 0;
}

/* Those and only those leave that have a reason. */
static void check_leaving(struct world *w, size_t worker, size_t model, const struct sentence *list)
{
    for (const struct sentence *each = list; each; each = each->next) {
        struct fate *fate = fate_of(w, each);
        size_t i = (size_t)(each - w->sentences);
        assert_true(runs_at(w, i, worker, model));
        assert_int_not_equal(each->status, 0);
        assert_int_equal(each->status, why_leave(w, i));
        charge(w, i);
        fate->place = BACK;
        seen.closed_running += each->status == ACRE_ECLOSED;
        seen.cancelled_running += each->status == ACRE_ECANCELLED;
        seen.expired_running += each->status == ACRE_ETIMEOUT;
    }
    for (size_t i = 0; i < w->n_sentences; i++)
        if (runs_at(w, i, worker, model))
            assert_int_equal(why_leave(w, i), 0);
}

/* Those whom a later turn of theirs has passed were passed before no more often than allowed. */
static void check_passes(struct world *w, size_t model, const struct plan_actions *a)
{
    for (size_t i = 0; i < w->n_sentences; i++) {
        bool is_passed = false;
        for (size_t k = 0; waits_in(w, i, model) && k < a->n_newcomers; k++)
            is_passed |= w->sentences[i].caller == a->newcomers[k]->caller &&
                         is_before(&w->sentences[i], a->newcomers[k]);
        w->fates[i].n_passes += is_passed;
        seen.passed += is_passed;
        assert_true(w->fates[i].n_passes <= w->fates[i].max_passes);
    }
}

/* Nobody of his caller waits who came before, and nobody of another one. */
static bool is_alone(const struct world *w, size_t model, const struct sentence *sentence)
{
    const struct turns *turns = &w->turns[model];
    const struct sentence *first = NULL;
    for (size_t i = 0; i < turns->n; i++) {
        const struct sentence *each = turns->waiting[i];
        if (each->caller != sentence->caller)
            return false;
        first = !first || is_before(each, first) ? each : first;
    }
    return !first || first >= sentence;
}

/* Whether the worker decodes the first sentence of a text that is read as it is translated, and no
 * text came later; nor may one wait that came before, but for the step that the sentence enters in.
 */
static bool has_leader(const struct world *w, size_t worker, size_t model, bool has_entered)
{
    for (size_t i = 0; i < w->n_sentences; i++) {
        bool is_last = runs_at(w, i, worker, model) && w->sentences[i].n_behind > 0;
        for (size_t j = i + w->sentences[i].n_behind + 1; is_last && j < w->n_sentences; j++)
            is_last = w->fates[j].model != model || w->fates[j].place == NOWHERE;
        if (is_last && (has_entered || is_alone(w, model, &w->sentences[i])))
            return true;
    }
    return false;
}

/* Nobody who could have been admitted was left to wait. `batch` was before, `share` is the limit
 * for the sake of idle workers. */
static void check_room(struct world *w, size_t worker, size_t model, struct batch_count batch,
                       size_t share, const struct plan_actions *a)
{
    const struct plan_limits *limits = &w->models[model].limits;
    const struct sentence *next = turns_next(&w->turns[model]);
    size_t rows = 0, load = batch.load, n = batch.n + a->n_newcomers;
    if (n == limits->max_sentences || !next)
        return;
    if (n == 1 && has_leader(w, worker, model, a->n_newcomers == 1)) {
        seen.led++;
        return;
    }
    if (a->n_newcomers == 0) {
        assert_true(batch.n > 0 && batch.load + load_of(next) > limits->max_load);
        seen.held_back++;
        return;
    }
    seen.shared += a->n_newcomers == share;
    if (a->n_newcomers == share)
        return;
    for (size_t i = 0; i < a->n_newcomers; i++) {
        rows += turns_rows(a->newcomers[i]);
        load += load_of(a->newcomers[i]);
    }
    assert_true(rows + turns_rows(next) > limits->max_admit_rows ||
                load + load_of(next) > limits->max_load);
}

static void check_newcomers(struct world *w, size_t worker, size_t model,
                            const struct plan_actions *a)
{
    const struct plan_limits *limits = &w->models[model].limits;
    struct batch_count before = count_batch(w, worker, model);
    size_t n_takers = count_doing(w, SLEEPING) + count_doing(w, COMING) + 1, rows = 0;
    size_t share = (count_waiting(w, model) + n_takers - 1) / n_takers;
    assert_true(a->n_newcomers <= share);
    turns_begin(&w->turns[model]);
    for (size_t i = 0; i < a->n_newcomers; i++) {
        struct fate *fate = fate_of(w, a->newcomers[i]);
        assert_ptr_equal(a->newcomers[i], turns_next(&w->turns[model]));
        turns_take(&w->turns[model], a->newcomers[i]);
        assert_true(fate->place == WAITS && fate->model == model);
        fate->place = RUNS;
        fate->worker = worker;
        fate->n_steps = 0;
        rows += turns_rows(a->newcomers[i]);
    }
    check_passes(w, model, a);
    check_room(w, worker, model, before, share, a);
    struct batch_count after = count_batch(w, worker, model);
    assert_true(after.n <= limits->max_sentences);
    assert_true(a->n_newcomers <= 1 || rows <= limits->max_admit_rows);
    assert_true(after.n <= 1 || after.load <= limits->max_load);
    seen.too_large += after.load > limits->max_load;
    assert_int_equal(w->models[model].batches[worker].n_running, after.n);
    assert_int_equal(w->models[model].batches[worker].load, after.load);
}

/* No model with something to step for this worker is passed over twice for the same other one. */
static void check_turns(struct world *w, size_t worker, size_t model)
{
    struct hand *hand = &w->hands[worker];
    for (size_t a = 0; a < w->n_models; a++) {
        if (a != model && (count_batch(w, worker, a).n > 0 || count_waiting(w, a) > 0)) {
            assert_int_equal(++hand->others[a][model], 1);
            continue;
        }
        for (size_t b = 0; b < w->n_models; b++)
            hand->others[a][b] = 0;
    }
}

/* Sleeping or stopping: there is nothing that it could do. */
static void check_rest(struct world *w, size_t worker, const struct plan_actions *actions)
{
    assert_int_equal(actions->work == PLAN_STOP, w->is_closing);
    assert_int_equal(count_places(w, WAITS), 0);
    for (size_t model = 0; model < w->n_models; model++)
        assert_int_equal(count_batch(w, worker, model).n, 0);
    w->hands[worker].doing = actions->work == PLAN_STOP ? STOPPED : SLEEPING;
    w->hands[worker].at = UINT64_MAX;
}

/* ---- A device that is lost ------------------------------------------------------------------- */

/* As allow_passes(), of one that waits anew. */
static void allow_passes_of_moved(struct world *w, size_t moved)
{
    const struct sentence *sentence = &w->sentences[moved];
    bool has_earlier[QUEUE_CLASSES] = {false};
    for (size_t i = 0; i < w->n_sentences; i++) {
        const struct sentence *other = &w->sentences[i];
        if (i == moved || !waits_in(w, i, w->fates[moved].model) ||
            other->caller != sentence->caller)
            continue;
        if (is_before(other, sentence))
            has_earlier[turns_class(other)] = true;
        else
            w->fates[i].max_passes += turns_class(other) != turns_class(sentence);
    }
    has_earlier[turns_class(sentence)] = false;
    w->fates[moved].n_passes = w->fates[moved].max_passes = 0;
    for (size_t class = 0; class < QUEUE_CLASSES; class ++)
        w->fates[moved].max_passes += has_earlier[class];
}

/* What a worker of a lost device ran waits anew, or ends: who may not go on, who has lost a device
 * before, all where it is the last one. */
static void expect_moves(struct world *w, size_t worker, bool *has_moved)
{
    for (size_t i = 0; i < w->n_sentences; i++) {
        struct fate *fate = &w->fates[i];
        has_moved[i] = false;
        if (fate->place == WAITS && are_all_lost(w)) {
            end_waiting(w, i, ACRE_EDEVICE);
            seen.lost_waiting++;
        }
        if (fate->place != RUNS || fate->worker != worker)
            continue;
        int status = why_leave(w, i);
        has_moved[i] = status == 0 && !are_all_lost(w) && !w->sentences[i].is_moved;
        seen.moved += has_moved[i];
        seen.lost_twice += status == 0 && w->sentences[i].is_moved && !are_all_lost(w);
        fate->place = has_moved[i] ? WAITS : ENDED;
        fate->status = status == 0 && !has_moved[i] ? ACRE_EDEVICE : status;
    }
}

/* The worker's step fails, if it has to. Whether its device is lost. */
static bool lose_device(struct world *w, size_t worker, struct plan_event *event)
{
    bool is_stepping = w->hands[worker].doing == STEPPING;
    if (is_stepping && w->n_losses > 0 && random_pick(0, 20) == 0) {
        w->n_losses--;
        event->status = ACRE_EDEVICE;
        w->is_lost[device_of(w, worker)] = true;
    }
    return w->is_lost[device_of(w, worker)];
}

static void check_stopped(struct world *w, size_t worker, const struct plan_actions *actions,
                          const bool *has_moved)
{
    assert_int_equal(actions->work, PLAN_STOP);
    w->hands[worker].doing = STOPPED;
    w->hands[worker].at = UINT64_MAX;
    for (uint64_t order = 0, next; order != UINT64_MAX; order = next) {
        next = UINT64_MAX; /* they come into their queues one after the other */
        for (size_t i = 0; i < w->n_sentences; i++) {
            const struct sentence *sentence = &w->sentences[i];
            if (has_moved[i] && sentence->order == order) {
                turns_put(&w->turns[w->fates[i].model], sentence);
                allow_passes_of_moved(w, i);
            }
            if (has_moved[i] && sentence->order > order && sentence->order < next)
                next = sentence->order;
        }
    }
    for (size_t model = 0; model < w->n_models; model++)
        assert_int_equal(w->models[model].batches[worker].n_running, 0);
}

static void be_ready(struct world *w, size_t worker)
{
    struct hand *hand = &w->hands[worker];
    struct sentence *finished[MAX_SEAT];
    bool has_moved[N_SENTENCES];
    struct plan_event event = {.kind = PLAN_READY, .worker = worker, .finished = finished};
    expire(w);
    bool is_lost = lose_device(w, worker, &event);
    if (hand->doing == STEPPING && event.status == 0) {
        event.n_steps = 1;
        event.n_rows = 4 * count_batch(w, worker, hand->model).n;
        event.n = finish_step(w, worker, finished);
    }
    hand->doing = STEPPING;
    if (is_lost)
        expect_moves(w, worker, has_moved);
    struct plan_actions actions = tell(w, &event);
    take_back(w, actions.ended);
    assert_int_equal(count_places(w, ENDED), 0);
    if (is_lost) {
        check_stopped(w, worker, &actions, has_moved);
    } else if (actions.work == PLAN_STEP) {
        hand->model = (size_t)(actions.model - w->models);
        check_turns(w, worker, hand->model);
        check_leaving(w, worker, hand->model, actions.leaving);
        check_newcomers(w, worker, hand->model, &actions);
        hand->at = w->now + random_pick(1, random_pick(0, 9) == 0 ? 300 : 40);
    } else {
        check_rest(w, worker, &actions);
    }
    check_wakes(w, &actions);
}

/* ---- Random worlds --------------------------------------------------------------------------- */

static struct world *open_world(void)
{
    struct world *w = calloc(1, sizeof(*w));
    w->n_workers = random_pick(1, MAX_WORKERS);
    w->n_devices = random_pick(0, 1) ? w->n_workers : 1;
    w->n_losses = random_pick(0, 2) ? 0 : random_pick(1, MAX_WORKERS);
    w->n_models = random_pick(1, MAX_MODELS);
    size_t max_queued = random_pick(0, 2) ? 100000 : random_pick(10, 2000);
    assert_int_equal(plan_init(&w->plan, w->n_devices, w->n_workers, max_queued), 0);
    for (size_t i = 0; i < w->n_models; i++) {
        struct plan_limits limits = {.max_sentences = random_pick(1, MAX_SEAT)};
        limits.max_load = limits.max_sentences * random_pick(10, 130);
        limits.max_admit_rows = random_pick(50, 1024);
        limits.usual_beam = random_pick(1, 8);
        assert_int_equal(plan_model_init(&w->models[i], w->n_workers, &limits), 0);
        plan_add_model(&w->plan, &w->models[i]);
    }
    w->now = 1;
    for (size_t i = 0; i < w->n_workers; i++)
        w->hands[i] = (struct hand){.doing = COMING, .at = w->now + random_pick(0, 100)};
    w->cancel_at = w->now + random_pick(0, 500);
    w->close_at = random_pick(0, 2) ? UINT64_MAX : random_pick(1, 20000);
    return w;
}

static void close_all(struct world *w)
{
    for (size_t i = 0; i < w->n_models; i++)
        plan_model_fini(&w->models[i], w->n_workers);
    plan_fini(&w->plan);
    free(w);
}

/* The next thing to happen happens; false: nothing will. */
static bool advance(struct world *w)
{
    size_t worker = 0;
    uint64_t next = w->text_at < w->cancel_at ? w->text_at : w->cancel_at;
    next = w->close_at < next ? w->close_at : next;
    for (size_t i = 1; i < w->n_workers; i++)
        if (w->hands[i].at < w->hands[worker].at)
            worker = i;
    uint64_t at = w->hands[worker].at;
    w->now = at < next ? at : next;
    if (w->now == UINT64_MAX)
        return false;
    if (w->now == at)
        be_ready(w, worker);
    else if (w->now == w->text_at)
        submit(w);
    else if (w->now == w->cancel_at)
        cancel(w);
    else
        close_world(w);
    return true;
}

static void random_worlds_keep_every_promise(void **state)
{
    (void)state;
    for (size_t world = 0; world < N_WORLDS; world++) {
        random_seed(world + 1);
        struct world *w = open_world();
        size_t n_events = 0;
        while (advance(w))
            assert_true(n_events++ < 100 * N_SENTENCES);
        assert_int_equal(w->n_sentences, N_SENTENCES);
        for (size_t i = 0; i < N_SENTENCES; i++)
            assert_true(w->fates[i].place == BACK || w->fates[i].place == NOWHERE);
        size_t n_stopped = count_doing(w, STOPPED), n_asleep = count_doing(w, SLEEPING);
        assert_int_equal(n_stopped + (w->is_closing ? 0 : n_asleep), w->n_workers);
        close_all(w);
    }
    assert_true(seen.refused && seen.expired_waiting && seen.expired_running);
    assert_true(seen.cancelled_waiting && seen.cancelled_running);
    assert_true(seen.closed_waiting && seen.closed_running && seen.finished);
    assert_true(seen.moved && seen.lost_twice && seen.lost_waiting && seen.refused_lost);
    assert_true(seen.passed && seen.held_back && seen.too_large && seen.shared && seen.led);
    assert_true(seen.late && seen.reserve && seen.beside && seen.charged);
}

/* ---- Case by case ---------------------------------------------------------------------------- */

/* One model of eight batches a worker; every worker has come and sleeps. */
struct small {
    struct plan plan;
    struct plan_model model;
};

static struct plan_actions ready(struct small *s, size_t worker, struct sentence *finished)
{
    struct plan_event event = {.kind = PLAN_READY, .worker = worker, .finished = &finished};
    event.n = finished ? 1 : 0;
    return plan_step(&s->plan, &event, 1000);
}

static struct plan_actions put(struct small *s, struct sentence *sentences, size_t n, uint64_t now)
{
    struct plan_text text = {sentences, n};
    struct plan_event event = {.kind = PLAN_SUBMIT, .model = &s->model, .texts = &text, .n = 1};
    return plan_step(&s->plan, &event, now);
}

static void open_devices(struct small *s, size_t n_devices, size_t n_workers,
                         size_t max_queued_tokens)
{
    struct plan_limits limits = {
        .max_sentences = 8, .max_load = 100, .max_admit_rows = 100, .usual_beam = 4};
    assert_int_equal(plan_init(&s->plan, n_devices, n_workers, max_queued_tokens), 0);
    assert_int_equal(plan_model_init(&s->model, n_workers, &limits), 0);
    plan_add_model(&s->plan, &s->model);
    for (size_t i = 0; i < n_workers; i++)
        assert_int_equal(ready(s, i, NULL).work, PLAN_SLEEP);
}

static void open_small(struct small *s, size_t n_workers, size_t max_queued_tokens)
{
    open_devices(s, 1, n_workers, max_queued_tokens);
}

static void close_small(struct small *s)
{
    plan_model_fini(&s->model, s->plan.n_workers);
    plan_fini(&s->plan);
}

static void idle_workers_share(void **state)
{
    (void)state;
    struct small s;
    struct sentence sentences[8] = {{.n_source = 3}};
    open_small(&s, 4, 1000);
    assert_int_equal(put(&s, sentences, 8, 1000).n_wakes, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(ready(&s, i, NULL).n_newcomers, 2);
    close_small(&s);
}

static void no_more_wake_than_are_useful(void **state)
{
    (void)state;
    struct small s;
    struct sentence sentences[3] = {{.n_source = 3}};
    open_small(&s, 4, 1000);
    struct plan_actions actions = put(&s, sentences, 1, 1000);
    assert_int_equal(actions.n_wakes, 1);
    assert_int_equal(actions.wakes[0], 3); /* the last one to fall asleep */
    assert_int_equal(put(&s, sentences + 1, 2, 1000).n_wakes, 2);
    close_small(&s);
}

/* Somebody else than its worker sees that a device is lost: who sleeps there stops when he is
 * woken, who works there when he is ready, and with the last device all ends. */
static void devices_are_lost_from_outside(void **state)
{
    (void)state;
    struct small s;
    struct sentence sentences[2] = {{.n_source = 3}, {.n_source = 3}};
    struct plan_event lose = {.kind = PLAN_LOSE, .device = 1};
    open_devices(&s, 2, 2, 1000);
    plan_step(&s.plan, &lose, 1000);
    assert_int_equal(put(&s, &sentences[0], 1, 1000).wakes[0], 1);
    assert_int_equal(ready(&s, 1, NULL).work, PLAN_STOP);
    assert_int_equal(ready(&s, 0, NULL).n_newcomers, 1);
    lose.device = 0;
    plan_step(&s.plan, &lose, 1000);
    assert_int_equal(put(&s, &sentences[1], 1, 1000).status, ACRE_EDEVICE);
    struct plan_actions last = ready(&s, 0, NULL);
    assert_int_equal(last.work, PLAN_STOP);
    assert_ptr_equal(last.ended, &sentences[0]);
    assert_int_equal(sentences[0].status, ACRE_EDEVICE);
    close_small(&s);
}

/* While its only worker is busy, what is cancelled or has expired makes room at once. */
static void queue_limit_does_not_count_the_dead(void **state)
{
    (void)state;
    struct small s;
    struct sentence sentences[5] = {{.n_source = 3}};
    for (size_t i = 1; i < 5; i++)
        sentences[i] = (struct sentence){.n_source = 60, .deadline_ns = 5000};
    open_small(&s, 1, 100);
    put(&s, &sentences[0], 1, 1000);
    assert_int_equal(ready(&s, 0, NULL).n_newcomers, 1);
    assert_int_equal(put(&s, &sentences[1], 1, 2000).status, 0);
    assert_int_equal(put(&s, &sentences[2], 1, 2000).status, ACRE_EBUSY);
    struct plan_event cancel_1 = {.kind = PLAN_CANCEL, .sentences = &sentences[1], .n = 1};
    plan_step(&s.plan, &cancel_1, 2000);
    assert_int_equal(put(&s, &sentences[3], 1, 2000).status, 0);
    assert_int_equal(put(&s, &sentences[4], 1, 4999).status, ACRE_EBUSY);
    assert_int_equal(put(&s, &sentences[4], 1, 5000).status, 0);
    assert_int_equal(plan_queued_tokens(&s.plan), 60);
    close_small(&s);
}

/* A text larger than the limit keeps out its own caller, but for what is cached, and leaves half of
 * it to others. */
static void large_text_leaves_room_for_others(void **state)
{
    (void)state;
    struct small s;
    struct sentence large[10] = {{.n_source = 0}}, others[9] = {{.n_source = 0}};
    struct sentence again = {.n_source = 1}, cached = {.n_source = 1, .is_cached = true};
    open_small(&s, 1, 100);
    for (size_t i = 0; i < 10; i++)
        large[i].n_source = 50;
    assert_int_equal(put(&s, large, 10, 1000).status, 0);
    for (size_t i = 0; i < 9; i++) {
        others[i] = (struct sentence){.n_source = 10, .caller = 1 + i / 6};
        assert_int_equal(put(&s, &others[i], 1, 1000).status, i < 5 || i == 6 ? 0 : ACRE_EBUSY);
    }
    assert_int_equal(put(&s, &again, 1, 1000).status, ACRE_EBUSY);
    assert_int_equal(put(&s, &cached, 1, 1000).status, 0);
    close_small(&s);
}

/* Short sentences that never stop coming do not keep out one that needs the whole batch. */
static void large_sentence_is_not_starved(void **state)
{
    (void)state;
    struct small s;
    struct sentence sentences[20] = {{.n_source = 0}}, *large = &sentences[4];
    open_small(&s, 1, 1000);
    large->n_source = 200;
    put(&s, sentences, 4, 1000);
    assert_int_equal(ready(&s, 0, NULL).n_newcomers, 4);
    put(&s, large, 1, 1000);
    for (size_t i = 0; i < 4; i++) {
        put(&s, &sentences[5 + i], 1, 1000);
        struct plan_actions actions = ready(&s, 0, &sentences[i]);
        assert_ptr_equal(actions.ended, &sentences[i]);
        assert_int_equal(actions.n_newcomers, i == 3 ? 1 : 0);
        assert_true(i < 3 || actions.newcomers[0] == large);
    }
    close_small(&s);
}

/* Sentences whose translation is cached take no room, no turn and no worker; they are counted. */
static void cached_sentences_stay_out(void **state)
{
    (void)state;
    struct small s;
    struct sentence sentences[6] = {{.n_source = 0}}, whole[2] = {{.n_source = 400}};
    for (size_t i = 0; i < 6; i++) {
        sentences[i].n_source = 10 + i;
        sentences[i].is_cached = i != 2 && i != 4;
        sentences[i].deadline_ns = 5000;
    }
    whole[0].is_cached = whole[1].is_cached = true;
    open_small(&s, 1, 100);
    struct plan_actions actions = put(&s, whole, 2, 1000);
    assert_int_equal(actions.status, 0);
    assert_int_equal(actions.n_wakes, 0);
    assert_int_equal(put(&s, sentences, 6, 1000).status, 0);
    assert_int_equal(plan_queued_tokens(&s.plan), 12 + 14);
    struct acre_statistics statistics = plan_statistics(&s.plan, &s.model);
    assert_int_equal(statistics.cached_sentences, 6);
    assert_int_equal(statistics.queued_sentences, 2);
    actions = ready(&s, 0, NULL);
    assert_int_equal(actions.n_newcomers, 2);
    assert_true(actions.newcomers[0] == &sentences[2] || actions.newcomers[1] == &sentences[2]);
    struct plan_event cancel = {.kind = PLAN_CANCEL, .sentences = sentences, .n = 6};
    assert_null(plan_step(&s.plan, &cancel, 2000).ended);
    actions = ready(&s, 0, NULL);
    size_t n = 0;
    for (struct sentence *each = actions.leaving; each; each = each->next)
        n++;
    assert_int_equal(n, 2);
    assert_null(actions.ended);
    close_small(&s);
}

/* The first sentence of a text that is read as it is translated is decoded by itself, until it has
 * ended or another text comes. */
static void first_sentence_of_a_stream_is_alone(void **state)
{
    (void)state;
    for (int other_comes = 0; other_comes < 2; other_comes++) {
        struct small s;
        struct sentence text[6] = {{.n_behind = 5}}, other = {.n_source = 3};
        open_small(&s, 1, 1000);
        put(&s, text, 6, 1000);
        struct plan_actions actions = ready(&s, 0, NULL);
        assert_int_equal(actions.n_newcomers, 1);
        assert_ptr_equal(actions.newcomers[0], &text[0]);
        assert_int_equal(ready(&s, 0, NULL).n_newcomers, 0);
        if (other_comes)
            put(&s, &other, 1, 1000);
        actions = ready(&s, 0, other_comes ? NULL : &text[0]);
        assert_int_equal(actions.n_newcomers, other_comes ? 6 : 5);
        close_small(&s);
    }
}

/* Where others wait, or another worker has nothing to do, nothing is held back. */
static void stream_holds_up_nobody(void **state)
{
    (void)state;
    struct small s;
    struct sentence text[6] = {{.n_behind = 5}}, other[3] = {{.n_source = 0}};
    open_small(&s, 2, 1000);
    assert_int_equal(put(&s, text, 6, 1000).n_wakes, 2);
    assert_int_equal(ready(&s, 0, NULL).n_newcomers, 1);
    assert_int_equal(ready(&s, 1, NULL).n_newcomers, 5);
    close_small(&s);
    open_small(&s, 1, 1000);
    put(&s, other, 3, 1000);
    put(&s, text, 6, 1000);
    assert_int_equal(ready(&s, 0, NULL).n_newcomers, 8);
    close_small(&s);
}

/* A caller whose sentences take a hundred times their rows, with four times the usual beam, gets as
 * much of the batch as one whose sentences take as many steps as they have rows, and no more. */
static void long_translations_are_charged(void **state)
{
    (void)state;
    enum { N = 4000, HEAVY_STEPS = 50, ROWS = 10 };
    struct small s;
    struct sentence *sentences = calloc(2 * N, sizeof(*sentences)), *finished[8];
    uint64_t beams[2] = {0};
    for (size_t i = 0; i < 2 * N; i++) {
        sentences[i] = (struct sentence){.n_source = i < N ? 1 : ROWS - 1, .caller = i / N};
        sentences[i].decoding.beam_size = i < N ? 16 : 4;
    }
    open_small(&s, 1, 10 * N * ROWS);
    s.model.limits.max_load = s.model.limits.max_admit_rows = 1000;
    put(&s, sentences, N, 1000);
    put(&s, sentences + N, N, 1000);
    ready(&s, 0, NULL);
    const struct plan_batch *batch = &s.model.batches[0];
    for (size_t step = 0; step < 2000; step++) {
        struct plan_event event = {
            .kind = PLAN_READY, .finished = finished, .n_steps = 1, .n_rows = 1};
        for (size_t i = 0; i < batch->n_running; i++) {
            struct sentence *each = batch->running[i];
            beams[each->caller] += (uint64_t)each->decoding.beam_size;
            if (batch->n_steps + 1 - each->first_step == (each->caller ? ROWS : HEAVY_STEPS))
                finished[event.n++] = each;
        }
        plan_step(&s.plan, &event, 1000);
    }
    assert_in_range(100 * beams[0] / (beams[0] + beams[1]), 40, 60);
    close_small(&s);
    free(sentences);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_worlds_keep_every_promise),
        cmocka_unit_test(idle_workers_share),
        cmocka_unit_test(no_more_wake_than_are_useful),
        cmocka_unit_test(devices_are_lost_from_outside),
        cmocka_unit_test(queue_limit_does_not_count_the_dead),
        cmocka_unit_test(large_text_leaves_room_for_others),
        cmocka_unit_test(large_sentence_is_not_starved),
        cmocka_unit_test(cached_sentences_stay_out),
        cmocka_unit_test(first_sentence_of_a_stream_is_alone),
        cmocka_unit_test(stream_holds_up_nobody),
        cmocka_unit_test(long_translations_are_charged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
