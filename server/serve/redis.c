/* Happy path: connect_again() -> on_poll(): it is connected, greet() goes out -> PONG -> up();
 * redis_send() -> on_poll(): written, read -> replied().
 *
 * Failure modes: no connection, no greeting in DEAD_MS; an error of the socket; anything that is no
 * reply, is longer than one may be, or comes unasked. Each ends the connection, and it is tried
 * again RETRY_MS after the last attempt, at the next address that its name has. */
#include "serve/redis.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    DEAD_MS = 1000,
    RETRY_MS = 1000,
    MAX_REPLY_BYTES = 65536,
    MAX_ELEMENTS = 2,
    HOST_BYTES = 256
};

struct target {
    char host[HOST_BYTES]; /* or the path of a socket */
    char user[HOST_BYTES], password[HOST_BYTES];
    int port, number;
    bool is_path;
};

/* One connection; freed when its handle is closed. */
struct link {
    uv_poll_t poll;
    redisContext *context;
    redisReplyObjectFunctions functions; /* with which hiredis makes replies */
    struct redis *redis;
    bool is_connected;
};

struct redis {
    uv_loop_t *loop;
    const struct redis_events *events;
    void *user;
    struct target target;
    struct link *link; /* NULL: not connected, nor trying to be */
    uv_getaddrinfo_t resolving;
    uint64_t tried_ns;
    size_t n_tried;                /* addresses of its name */
    size_t n_greetings, n_pending; /* replies that are to come; the latter of all */
    bool is_up, is_resolving, is_stopping;
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

bool redis_valid(const char *url)
{
    struct target target;

    return parse(url, &target);
}

/* ---- The end of a connection ----------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* `why` may be a part of what is freed here. */
void redis_hang_up(struct redis *redis, const char *why)
{
    struct link *link = redis->link;

    if (!link)
        return;
    redis->link = NULL;
    redis->is_up = false;
    redis->n_greetings = redis->n_pending = 0;
    uv_close((uv_handle_t *)&link->poll, on_closed);
    redis->events->down(redis->user, redis->target.host, why);
    redisFree(link->context);
}

/* ---- Replies --------------------------------------------------------------------------------- */

#if HIREDIS_MAJOR < 1
typedef int n_elements;
#else
typedef size_t n_elements;
#endif

/* hiredis would make room for as many elements as a server announces: no reply has more than two,
 * nor an array in it. */
static void *create_array(const redisReadTask *task, n_elements n)
{
    const redisReplyObjectFunctions *usual = task->privdata;

    return n <= MAX_ELEMENTS && !task->parent ? usual->createArray(task, n) : NULL;
}

static void bound_replies(struct link *link)
{
    redisReader *reader = link->context->reader;

    link->functions = *reader->fn;
    link->functions.createArray = create_array;
    reader->privdata = reader->fn;
    reader->fn = &link->functions;
}

/* Of AUTH, SELECT and PING. */
static void take_greeting(struct redis *redis, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_STATUS) {
        redis_hang_up(redis, reply->type == REDIS_REPLY_ERROR ? reply->str : "it does not greet");
        return;
    }
    redis->is_up = --redis->n_greetings == 0;
    if (!redis->is_up)
        return;
    redis->events->up(redis->user);
}

static void take_reply(struct redis *redis, const redisReply *reply)
{
    if (redis->n_pending == 0) {
        redis_hang_up(redis, "it answers what nobody asked");
        return;
    }
    redis->n_pending--;
    if (redis->n_greetings > 0)
        take_greeting(redis, reply);
    else if (redis->events->replied(redis->user, reply))
        redis->n_tried = 0; /* replicas that lose it try its addresses in the same order */
}

static void read_in(struct redis *redis)
{
    redisContext *context = redis->link->context;
    void *reply = NULL;

    if (redisBufferRead(context) != REDIS_OK) {
        redis_hang_up(redis, context->errstr);
        return;
    }
    while (redis->link && redisReaderGetReply(context->reader, &reply) == REDIS_OK && reply) {
        take_reply(redis, reply);
        freeReplyObject(reply);
    }
    if (redis->link && context->reader->err)
        redis_hang_up(redis, context->reader->err == REDIS_ERR_OOM ? "its answer is too large"
                                                                   : context->reader->errstr);
    else if (redis->link && context->reader->len - context->reader->pos > MAX_REPLY_BYTES)
        redis_hang_up(redis, "its answer does not end");
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void on_poll(uv_poll_t *poll, int status, int events);

static void write_out(struct redis *redis)
{
    struct link *link = redis->link;
    int is_done = 1;

    if (redisBufferWrite(link->context, &is_done) != REDIS_OK)
        redis_hang_up(redis, link->context->errstr);
    else
        uv_poll_start(&link->poll, UV_READABLE | (is_done ? 0 : UV_WRITABLE), on_poll);
}

/* Counts the reply that is to come. */
static bool append(struct redis *redis, const char *format, va_list args)
{
    if (redisvAppendCommand(redis->link->context, format, args) != REDIS_OK)
        return false;
    redis->n_pending++;
    uv_poll_start(&redis->link->poll, UV_READABLE | UV_WRITABLE, on_poll);
    return true;
}

bool redis_send(struct redis *redis, const char *format, ...)
{
    bool is_sent;
    va_list args;

    if (!redis->is_up)
        return false;
    va_start(args, format);
    is_sent = append(redis, format, args);
    va_end(args);
    return is_sent;
}

static void greet_with(struct redis *redis, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    redis->n_greetings += append(redis, format, args);
    va_end(args);
}

static void greet(struct redis *redis)
{
    const struct target *target = &redis->target;

    if (target->password[0] && target->user[0])
        greet_with(redis, "AUTH %s %s", target->user, target->password);
    else if (target->password[0])
        greet_with(redis, "AUTH %s", target->password);
    if (target->number)
        greet_with(redis, "SELECT %d", target->number);
    greet_with(redis, "PING");
}

/* ---- The socket ------------------------------------------------------------------------------ */

/* 0: none. */
static int socket_error(const struct link *link)
{
    int error = 0;
    socklen_t bytes = sizeof(error);

    return getsockopt(link->context->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? error : errno;
}

static bool is_connected(struct link *link)
{
    int error;

    if (link->is_connected)
        return true;
    error = socket_error(link);
    if (error != 0) {
        redis_hang_up(link->redis, strerror(error));
        return false;
    }
    link->is_connected = true;
    greet(link->redis);
    return true;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct link *link = poll->data;
    struct redis *redis = link->redis;

    if (status < 0) { /* libuv says EBADF whatever the socket has */
        const int error = socket_error(link);

        redis_hang_up(redis, error != 0 ? strerror(error) : uv_strerror(status));
        return;
    }
    if (!is_connected(link))
        return;
    if (events & UV_WRITABLE)
        write_out(redis);
    if (redis->link && events & UV_READABLE)
        read_in(redis);
}

static void give_up(struct redis *redis, redisContext *context, const char *why)
{
    redis->events->down(redis->user, redis->target.host, why);
    if (context)
        redisFree(context);
}

/* Takes `context`, which is connecting. */
static void begin(struct redis *redis, redisContext *context)
{
    struct link *link = calloc(1, sizeof(*link));

    if (!context || context->err || !link) {
        give_up(redis, context, context && context->err ? context->errstr : "out of memory");
        free(link);
        return;
    }
    link->context = context;
    link->redis = redis;
    link->poll.data = link;
    bound_replies(link);
    if (uv_poll_init(redis->loop, &link->poll, context->fd) != 0) {
        give_up(redis, context, "its socket cannot be watched");
        free(link);
        return;
    }
    redis->link = link;
    uv_poll_start(&link->poll, UV_READABLE | UV_WRITABLE, on_poll);
}

/* One of them, another one for the next `n`. */
static const struct sockaddr *choose(const struct addrinfo *list, size_t n)
{
    size_t n_all = 0;

    for (const struct addrinfo *info = list; info; info = info->ai_next)
        n_all++;
    for (n %= n_all; n > 0; n--)
        list = list->ai_next;
    return list->ai_addr;
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct redis *redis = request->data;
    char host[64];

    redis->is_resolving = false;
    if (status == 0 && !redis->is_stopping) {
        uv_ip_name(choose(list, redis->n_tried++), host, sizeof(host));
        begin(redis, redisConnectNonBlock(host, redis->target.port));
    } else if (!redis->is_stopping) {
        give_up(redis, NULL, uv_strerror(status));
    }
    uv_freeaddrinfo(list);
}

static void connect_again(struct redis *redis)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};

    redis->tried_ns = uv_hrtime();
    if (redis->target.is_path) {
        begin(redis, redisConnectUnixNonBlock(redis->target.host));
        return;
    }
    redis->resolving.data = redis;
    redis->is_resolving = uv_getaddrinfo(redis->loop, &redis->resolving, on_resolved,
                                         redis->target.host, NULL, &hints) == 0;
}

void redis_tick(struct redis *redis)
{
    const uint64_t tried_ms = (uv_hrtime() - redis->tried_ns) / 1000000;

    if (redis->link && !redis->is_up && tried_ms > DEAD_MS)
        redis_hang_up(redis, "it cannot be reached");
    else if (!redis->link && !redis->is_resolving && tried_ms > RETRY_MS)
        connect_again(redis);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

struct redis *redis_open(uv_loop_t *loop, const char *url, const struct redis_events *events,
                         void *user)
{
    struct redis *redis = calloc(1, sizeof(*redis));

    if (!redis || !parse(url, &redis->target)) {
        free(redis);
        return NULL;
    }
    redis->loop = loop;
    redis->events = events;
    redis->user = user;
    connect_again(redis);
    return redis;
}

void redis_stop(struct redis *redis)
{
    redis->is_stopping = true;
    redis_hang_up(redis, "");
    if (redis->is_resolving)
        uv_cancel((uv_req_t *)&redis->resolving);
}

void redis_close(struct redis *redis)
{
    free(redis);
}

bool redis_is_up(const struct redis *redis)
{
    return redis->is_up;
}

const char *redis_host(const struct redis *redis)
{
    return redis->target.host;
}
