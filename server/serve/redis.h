/* redis.h - a connection to Redis or Valkey, made again whenever it ends.
 *
 * Commands go out in their order, and replies come back in it: the sender keeps who waits for
 * which. hiredis writes and reads the protocol; the socket is ours, because its asynchronous half
 * hears not of every error, and aborts where a reply comes that nobody asked for. Here whatever a
 * server sends ends the connection at most. Loop thread only.
 */
#ifndef SERVER_SERVE_REDIS_H
#define SERVER_SERVE_REDIS_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <uv.h>

struct redis;

/* What its owner hears. */
struct redis_events {
    void (*up)(void *user); /* it has greeted: commands may go */
    /* To the oldest without reply; whether it shows that this is the right server. */
    bool (*replied)(void *user, const redisReply *reply);
    void (*down)(void *user, const char *host, const char *why); /* also where it never was up */
};

bool redis_valid(const char *url); /* as SHARED_EXPECTED says, see shared_limits.h */

/* NULL: no memory. Begins to connect; redis_tick() goes on with it. */
struct redis *redis_open(uv_loop_t *loop, const char *url, const struct redis_events *events,
                         void *user);
void redis_stop(struct redis *redis); /* then run the loop until it has nothing to do */
void redis_close(struct redis *redis);

/* Some times a second: gives up what takes too long to connect, and tries again. */
void redis_tick(struct redis *redis);

bool redis_is_up(const struct redis *redis);
const char *redis_host(const struct redis *redis);

/* Sends a command, as hiredis formats it; false: it is not up, or there is no memory. */
bool redis_send(struct redis *redis, const char *format, ...);

/* Ends the connection, whose owner hears why. */
void redis_hang_up(struct redis *redis, const char *why);

#endif
