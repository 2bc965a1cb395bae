/* Happy path: connect() -> PING is answered -> is_up; shared_ask() -> EVAL -> on_answer().
 *
 * Failure modes: an answer that takes longer than SHARED_WAIT_MS is not waited for, and until one
 * comes in time nobody waits: what is asked is sent all the same, so that it counts for others. No
 * answer for DEAD_MS, or a connection that ends: it is away, and is tried again each second.
 * hiredis does not hear of every error of its socket; those times are what ends such a one. */
#include "serve/shared.h"

#include <hiredis/adapters/libuv.h>
#include <hiredis/async.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/log.h"

enum {
    TICK_MS = 10,
    DEAD_MS = 1000,
    RETRY_MS = 1000,
    MAX_OPS = 10000, /* that are not answered */
    HOST_BYTES = 256
};

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
    struct shared *shared;
    struct shared_ask *ask; /* NULL: nobody waits */
    uint64_t sent_ns;
    struct shared_op *next;
};

struct target {
    char host[HOST_BYTES]; /* or the path of a socket */
    char user[HOST_BYTES], password[HOST_BYTES];
    int port, number;
    bool is_path;
};

struct shared {
    uv_loop_t *loop;
    struct target target;
    char replica[SHARED_NAME_BYTES];
    redisAsyncContext *context; /* NULL: not connected, nor trying to be */
    uv_getaddrinfo_t resolving;
    uv_timer_t timer;
    uint64_t tried_ns;
    struct shared_op *ops, **ops_end; /* not answered, in order */
    size_t n_ops;
    bool is_up, is_late, is_resolving, is_stopping, has_told;
    struct shared_counts counts;
};

/* ---- The address ----------------------------------------------------------------------------- */

static bool take(char *to, const char *from, size_t n)
{
    if (n >= HOST_BYTES)
        return false;
    memcpy(to, from, n);
    to[n] = '\0';
    return true;
}

static bool take_number(const char *text, size_t n, int most, int *number)
{
    char *end;
    const long value = strtol(text, &end, 10);

    *number = (int)value;
    return n > 0 && n < 6 && end == text + n && value >= 0 && value <= most;
}

static bool parse(const char *url, struct target *target)
{
    const char *at, *colon, *slash;

    memset(target, 0, sizeof(*target));
    if (strncmp(url, "unix:", 5) == 0) {
        target->is_path = true;
        return url[5] == '/' && take(target->host, url + 5, strlen(url + 5));
    }
    if (strncmp(url, "redis://", 8) != 0)
        return false;
    url += 8;
    at = strrchr(url, '@');
    if (at) {
        colon = memchr(url, ':', (size_t)(at - url));
        if (!colon || !take(target->user, url, (size_t)(colon - url)) ||
            !take(target->password, colon + 1, (size_t)(at - colon - 1)))
            return false;
        url = at + 1;
    }
    slash = strchr(url, '/');
    slash = slash ? slash : url + strlen(url);
    if (*slash && !take_number(slash + 1, strlen(slash + 1), 9999, &target->number))
        return false;
    for (colon = slash; colon > url && colon[-1] != ':';)
        colon--;
    if (colon - url < 2 || !take_number(colon, (size_t)(slash - colon), 65535, &target->port))
        return false;
    if (url[0] == '[' && colon[-2] == ']')
        return take(target->host, url + 1, (size_t)(colon - url - 3));
    return take(target->host, url, (size_t)(colon - url - 1));
}

bool shared_valid(const char *url)
{
    struct target target;

    return !url[0] || parse(url, &target);
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

static uint64_t age_ms(const struct shared_op *op)
{
    return (uv_hrtime() - op->sent_ns) / 1000000;
}

/* Whether it is what the script gives. */
static bool read_answer(const redisReply *reply, struct shared_ask *ask)
{
    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        reply->element[0]->type != REDIS_REPLY_INTEGER ||
        reply->element[1]->type != REDIS_REPLY_INTEGER)
        return false;
    ask->wait_ns = 1000 * (uint64_t)reply->element[0]->integer;
    ask->others = reply->element[1]->integer;
    return true;
}

static void on_answer(redisAsyncContext *context, void *answer, void *user)
{
    struct shared_op *op = user;
    struct shared *shared = op->shared;
    const redisReply *reply = answer;
    bool is_good = false;

    (void)context;
    take_op(shared); /* answers come in order */
    if (reply && age_ms(op) < SHARED_WAIT_MS)
        shared->is_late = false;
    if (reply && reply->type == REDIS_REPLY_ERROR && !shared->has_told) {
        shared->has_told = true;
        log_warning("shared_limits: %.200s", reply->str);
    }
    if (op->ask)
        is_good = read_answer(reply, op->ask);
    shared->counts.answered += is_good;
    end_ask(op, is_good);
    free(op);
}

static bool send_op(struct shared *shared, const char *bucket, int64_t per_minute,
                    const char *usage, int64_t own, struct shared_ask *ask)
{
    struct shared_op *op;

    if (!shared->is_up || shared->n_ops >= MAX_OPS)
        return false;
    op = calloc(1, sizeof(*op));
    if (!op)
        return false;
    op->shared = shared;
    op->ask = ask;
    op->sent_ns = uv_hrtime();
    if (redisAsyncCommand(shared->context, on_answer, op, "EVAL %s 2 %s %s %lld %s %lld", script,
                          bucket[0] ? bucket : "-", usage[0] ? usage : "-", (long long)per_minute,
                          shared->replica, (long long)own) != REDIS_OK) {
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
    return shared->is_up;
}

struct shared_counts shared_counts(const struct shared *shared)
{
    return shared->counts;
}

/* ---- The connection -------------------------------------------------------------------------- */

static void tell_down(struct shared *shared, const char *why)
{
    if (shared->is_up || !shared->has_told)
        log_warning("shared_limits: %s: %s; limits are this replica's own until it is back",
                    shared->target.host, why);
    shared->has_told = true;
    shared->is_up = false;
}

/* The context is gone, or goes. */
static void go_down(struct shared *shared, const char *why)
{
    redisAsyncContext *context = shared->context;

    if (!context)
        return;
    shared->context = NULL;
    tell_down(shared, why);
    context->data = NULL;
}

static void hang_up(struct shared *shared, const char *why)
{
    redisAsyncContext *context = shared->context;

    go_down(shared, why);
    if (context)
        redisAsyncFree(context); /* everything not answered gets NULL */
}

static void on_connected(const redisAsyncContext *context, int status)
{
    if (context->data && status != REDIS_OK)
        go_down(context->data, context->errstr);
}

static void on_disconnected(const redisAsyncContext *context, int status)
{
    if (context->data)
        go_down(context->data, status == REDIS_OK ? "it hung up" : context->errstr);
}

/* Of AUTH and SELECT: what they refuse, PING is refused, too, or worse. */
static void on_prepared(redisAsyncContext *context, void *answer, void *user)
{
    struct shared *shared = user;
    const redisReply *reply = answer;

    if (reply && reply->type == REDIS_REPLY_ERROR && context->data) {
        tell_down(shared, reply->str);
        redisAsyncDisconnect(context);
    }
}

static void on_pong(redisAsyncContext *context, void *answer, void *user)
{
    struct shared *shared = user;
    const redisReply *reply = answer;

    if (!reply || !context->data)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        on_prepared(context, answer, user);
        return;
    }
    shared->is_up = true;
    shared->is_late = shared->has_told = false;
    log_info("shared_limits: %s counts for all replicas", shared->target.host);
}

static void greet(struct shared *shared)
{
    const struct target *target = &shared->target;
    redisAsyncContext *context = shared->context;

    if (target->password[0] && target->user[0])
        redisAsyncCommand(context, on_prepared, shared, "AUTH %s %s", target->user,
                          target->password);
    else if (target->password[0])
        redisAsyncCommand(context, on_prepared, shared, "AUTH %s", target->password);
    if (target->number)
        redisAsyncCommand(context, on_prepared, shared, "SELECT %d", target->number);
    redisAsyncCommand(context, on_pong, shared, "PING");
}

/* Takes `context`, which is connecting. */
static void begin(struct shared *shared, redisAsyncContext *context)
{
    if (!context || context->err || redisLibuvAttach(context, shared->loop) != REDIS_OK) {
        tell_down(shared, context && context->err ? context->errstr : "out of memory");
        if (context)
            redisAsyncFree(context);
        return;
    }
    context->data = shared;
    shared->context = context;
    redisAsyncSetConnectCallback(context, on_connected);
    redisAsyncSetDisconnectCallback(context, on_disconnected);
    greet(shared);
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct shared *shared = request->data;
    char host[64];

    shared->is_resolving = false;
    if (status == 0 && !shared->is_stopping) {
        if (list->ai_family == AF_INET6)
            uv_ip6_name((const struct sockaddr_in6 *)(const void *)list->ai_addr, host,
                        sizeof(host));
        else
            uv_ip4_name((const struct sockaddr_in *)(const void *)list->ai_addr, host,
                        sizeof(host));
        begin(shared, redisAsyncConnect(host, shared->target.port));
    } else if (!shared->is_stopping) {
        tell_down(shared, uv_strerror(status));
    }
    uv_freeaddrinfo(list);
}

static void connect_again(struct shared *shared)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};

    shared->tried_ns = uv_hrtime();
    if (shared->target.is_path) {
        begin(shared, redisAsyncConnectUnix(shared->target.host));
        return;
    }
    shared->resolving.data = shared;
    shared->is_resolving = uv_getaddrinfo(shared->loop, &shared->resolving, on_resolved,
                                          shared->target.host, NULL, &hints) == 0;
}

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
    const uint64_t tried_ms = (uv_hrtime() - shared->tried_ns) / 1000000;

    give_up_late(shared);
    if (shared->ops && age_ms(shared->ops) > DEAD_MS)
        hang_up(shared, "it does not answer");
    else if (shared->context && !shared->is_up && tried_ms > DEAD_MS)
        hang_up(shared, "it cannot be reached");
    else if (!shared->context && !shared->is_resolving && tried_ms > RETRY_MS)
        connect_again(shared);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

int shared_open(uv_loop_t *loop, const char *url, const char *replica, struct shared **out,
                struct acre_err *err)
{
    struct shared *shared = calloc(1, sizeof(*shared));

    if (!shared || !parse(url, &shared->target)) {
        free(shared);
        return error_set(err, ACRE_ENOMEM, "shared_limits: out of memory");
    }
    shared->loop = loop;
    shared->ops_end = &shared->ops;
    snprintf(shared->replica, sizeof(shared->replica), "%s", replica);
    uv_timer_init(loop, &shared->timer);
    shared->timer.data = shared;
    uv_timer_start(&shared->timer, on_tick, TICK_MS, TICK_MS);
    connect_again(shared);
    *out = shared;
    return 0;
}

void shared_stop(struct shared *shared)
{
    if (!shared)
        return;
    shared->is_stopping = shared->has_told = true;
    shared->is_up = false;
    hang_up(shared, "");
    if (shared->is_resolving)
        uv_cancel((uv_req_t *)&shared->resolving);
    uv_close((uv_handle_t *)&shared->timer, NULL);
}

void shared_close(struct shared *shared)
{
    free(shared);
}
