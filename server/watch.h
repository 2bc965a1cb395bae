/* watch.h - keeps an eye on a request while its connection is suspended.
 *
 * libmicrohttpd neither times out a suspended connection nor notices that its client left, so a
 * watch does both: a timer for the deadline and a uv_poll on a duplicate of the socket.
 * Loop thread only. The callback comes at most once, never after watch_close().
 */
#ifndef SERVER_WATCH_H
#define SERVER_WATCH_H

#include <stdint.h>
#include <uv.h>

enum watch_event { WATCH_DEADLINE, WATCH_LEFT };
typedef void watch_fn(void *user, enum watch_event event);

struct watch;

/* Starts watching socket `fd`, which stays the caller's. NULL if there is no memory; if there is no
 * descriptor left, only the deadline is watched. */
struct watch *watch_open(uv_loop_t *loop, int fd, uint64_t timeout_ms, watch_fn *fn, void *user);

/* Stops at once; memory goes when the loop has closed the handles. */
void watch_close(struct watch *watch);

#endif
