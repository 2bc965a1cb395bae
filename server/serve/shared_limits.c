/* Happy path: redis.c connects -> shared_ask() -> EVAL -> on_replied().
 *
 * Failure modes: an answer that takes longer than SHARED_WAIT_MS is not waited for, and until one
 * comes in time nobody waits: what is asked is sent all the same, so that it counts for others. No
 * answer for DEAD_MS, or a connection that ends: it is away. An answer that the script cannot give
 * counts as none; after WRONG_MS of nothing else, as of a replica that takes no writes, the
 * connection is made again, perhaps to another address of its name. */
#include "serve/shared_limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/log.h"
#include "serve/redis.h"

enum {
    TICK_MS = 10,
    DEAD_MS = 1000,
    WRONG_MS = 3000,
    MAX_OPS = 10000,        /* that are not answered */
    MAX_WAIT_US = 120000000 /* a bucket is full in a minute, and a token is a minute's at most */
};
#define MAX_USED (INT64_C(1) << 53) /* to which numbers of Lua are exact */

/* KEYS: a bucket, and a hash of usage by replica; "-" is none. ARGV: requests a minute, replica,
 * its usage. Gives microseconds to wait, and the usage of others. */
static const char script[] =
    "local wait, others = 0, 0 "
    "if KEYS[1] ~= '-' then "
    "  local t = redis.call('TIME') "
    "  local now = t[1] * 1000000 + t[2] "
    "  local full = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now) + 60000000 / ARGV[1] "
    "  if full > now + 60000000 then wait = math.ceil(full - now - 60000000) "
    "  else redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', "
    "                  math.ceil((full - now) / 1000)) end "
    "end "
    "if KEYS[2] ~= '-' then "
    "  redis.call('HSET', KEYS[2], ARGV[2], ARGV[3]) "
    "  redis.call('EXPIRE', KEYS[2], 2764800) "
    "  local all = redis.call('HGETALL', KEYS[2]) "
    "  for i = 1, #all, 2 do "
    "    if all[i] ~= ARGV[2] then others = others + all[i + 1] end "
    "  end "
    "end "
    "return {wait, others}";

struct shared_op {
    struct shared_ask *ask; /* NULL: nobody waits */
    uint64_t sent_ns;
    struct shared_op *next;
};

struct shared {
    struct redis *redis; /* owned */
    char replica[SHARED_NAME_BYTES];
    uv_timer_t timer;
    struct shared_op *ops, **ops_end; /* not answered, in order */
    size_t n_ops;
    uint64_t wrong_ns; /* since then no answer was right; or the connection is there; or 0 */
    bool is_late, has_told, has_told_wrong; /* the log: it is away; an answer was wrong */
    struct shared_counts counts;
};

bool shared_valid(const char *url)
{
    return !url[0] || redis_valid(url);
}

/* ---- What is asked --------------------------------------------------------------------------- */

static void end_ask(struct shared_op *op, bool is_answered)
{
    struct shared_ask *ask = op->ask;

    op->ask = NULL;
    if (!ask)
        return;
    ask->is_answered = is_answered;
    ask->done(ask);
}

/* The first one's. */
static struct shared_op *take_op(struct shared *shared)
{
    struct shared_op *op = shared->ops;

    shared->ops = op->next;
    if (!shared->ops)
        shared->ops_end = &shared->ops;
    shared->n_ops--;
    return op;
}

static uint64_t ms_since(uint64_t then_ns)
{
    return (uv_hrtime() - then_ns) / 1000000;
}

static uint64_t age_ms(const struct shared_op *op)
{
    return ms_since(op->sent_ns);
}

static bool is_between(const redisReply *reply, long long least, long long most)
{
    return reply->type == REDIS_REPLY_INTEGER && reply->integer >= least && reply->integer <= most;
}

/* Whether it is what the script gives: of anything else a request would be turned away, or let
 * pass, for no reason. */
static bool read_answer(const redisReply *reply, struct shared_ask *ask)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        !is_between(reply->element[0], 0, MAX_WAIT_US) ||
        !is_between(reply->element[1], 0, MAX_USED))
        return false;
    ask->wait_ns = 1000 * (uint64_t)reply->element[0]->integer;
    ask->others = reply->element[1]->integer;
    return true;
}

static void tell_wrong(struct shared *shared, const redisReply *reply)
{
    if (!shared->has_told_wrong)
        log_warning("shared_limits: %.200s", reply->type == REDIS_REPLY_ERROR
                                                 ? reply->str
                                                 : "its answer is not what the script gives");
    shared->has_told_wrong = true;
}

static void tell_up(struct shared *shared)
{
    shared->has_told = shared->has_told_wrong = false;
    log_info("shared_limits: %s counts for all replicas", redis_host(shared->redis));
}

/* Where one answer in many is wrong the log does not tell each time. */
static void note_wrong(struct shared *shared, const redisReply *reply)
{
    tell_wrong(shared, reply);
    shared->wrong_ns = shared->wrong_ns ? shared->wrong_ns : uv_hrtime();
}

static void note_right(struct shared *shared)
{
    shared->wrong_ns = 0;
    if (shared->has_told)
        tell_up(shared);
}

static bool on_replied(void *user, const redisReply *reply)
{
    struct shared *shared = user;
    struct shared_op *op = take_op(shared);
    struct shared_ask rest = {.is_answered = false}, *ask = op->ask ? op->ask : &rest;
    const bool is_good = read_answer(reply, ask);
    /* Who has to wait takes nothing: a node that takes no writes says that, too. */
    const bool has_written = is_good && ask->wait_ns == 0;

    if (age_ms(op) < SHARED_WAIT_MS)
        shared->is_late = false;
    if (!is_good)
        note_wrong(shared, reply);
    else if (has_written)
        note_right(shared);
    shared->counts.answered += is_good && op->ask;
    shared->counts.wrong += !is_good && op->ask;
    end_ask(op, is_good);
    free(op);
    return has_written;
}

static bool send_op(struct shared *shared, const char *bucket, int64_t per_minute,
                    const char *usage, int64_t own, struct shared_ask *ask)
{
    struct shared_op *op;

    if (!redis_is_up(shared->redis) || shared->n_ops >= MAX_OPS)
        return false;
    op = calloc(1, sizeof(*op));
    if (!op)
        return false;
    op->ask = ask;
    op->sent_ns = uv_hrtime();
    if (!redis_send(shared->redis, "EVAL %s 2 %s %s %lld %s %lld", script, bucket[0] ? bucket : "-",
                    usage[0] ? usage : "-", (long long)per_minute, shared->replica,
                    (long long)own)) {
        free(op);
        return false;
    }
    *shared->ops_end = op;
    shared->ops_end = &op->next;
    shared->n_ops++;
    return true;
}

bool shared_ask(struct shared *shared, struct shared_ask *ask)
{
    const bool waits = !shared->is_late;

    if (send_op(shared, ask->bucket, ask->per_minute, ask->usage, ask->own, waits ? ask : NULL) &&
        waits)
        return true;
    shared->counts.away++;
    return false;
}

void shared_tell(struct shared *shared, const char *usage, int64_t own)
{
    send_op(shared, "", 0, usage, own, NULL);
}

bool shared_is_up(const struct shared *shared)
{
    return redis_is_up(shared->redis) && !shared->wrong_ns;
}

struct shared_counts shared_counts(const struct shared *shared)
{
    return shared->counts;
}

/* ---- The connection -------------------------------------------------------------------------- */

/* Whether one that was wrong is right by now is found out before anybody asks: by something to
 * write. */
static void on_up(void *user)
{
    struct shared *shared = user;

    shared->is_late = false;
    if (!shared->wrong_ns) {
        tell_up(shared);
        return;
    }
    shared->wrong_ns = uv_hrtime();
    shared_tell(shared, "acre:probe", 0);
}

/* Those that wait are told that this replica is alone. */
static void on_down(void *user, const char *host, const char *why)
{
    struct shared *shared = user;

    if (!shared->has_told)
        log_warning("shared_limits: %s: %s; limits are this replica's own until it is back", host,
                    why);
    shared->has_told = true;
    while (shared->ops) {
        struct shared_op *op = take_op(shared);

        shared->counts.away += op->ask != NULL;
        end_ask(op, false);
        free(op);
    }
}

static const struct redis_events events = {.up = on_up, .replied = on_replied, .down = on_down};

/* ---- Clocks ---------------------------------------------------------------------------------- */

static void give_up_late(struct shared *shared)
{
    for (struct shared_op *op = shared->ops, *next; op && age_ms(op) >= SHARED_WAIT_MS - TICK_MS;
         op = next) {
        next = op->next;
        shared->is_late = true;
        shared->counts.late += op->ask != NULL;
        end_ask(op, false);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct shared *shared = timer->data;

    give_up_late(shared);
    if (shared->ops && age_ms(shared->ops) > DEAD_MS)
        redis_hang_up(shared->redis, "it does not answer");
    else if (shared->wrong_ns && redis_is_up(shared->redis) &&
             ms_since(shared->wrong_ns) > WRONG_MS)
        redis_hang_up(shared->redis, "its answers are wrong");
    redis_tick(shared->redis);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

int shared_open(uv_loop_t *loop, const char *url, const char *replica, struct shared **out,
                struct acre_err *err)
{
    struct shared *shared = calloc(1, sizeof(*shared));

    if (!shared)
        return error_set(err, ACRE_ENOMEM, "shared_limits: out of memory");
    shared->ops_end = &shared->ops;
    snprintf(shared->replica, sizeof(shared->replica), "%s", replica);
    shared->redis = redis_open(loop, url, &events, shared);
    if (!shared->redis) {
        free(shared);
        return error_set(err, ACRE_ENOMEM, "shared_limits: out of memory");
    }
    uv_timer_init(loop, &shared->timer);
    shared->timer.data = shared;
    uv_timer_start(&shared->timer, on_tick, TICK_MS, TICK_MS);
    *out = shared;
    return 0;
}

void shared_stop(struct shared *shared)
{
    if (!shared)
        return;
    shared->has_told = true;
    redis_stop(shared->redis);
    uv_close((uv_handle_t *)&shared->timer, NULL);
}

void shared_close(struct shared *shared)
{
    if (shared)
        redis_close(shared->redis);
    free(shared);
}
