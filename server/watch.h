/* watch.h - sees clients leave whose connections are suspended, which libmicrohttpd overlooks.
 *
 * One epoll set, which a connection enters once, when it is accepted: a request costs nothing. The
 * kernel reports a close once, whether a request is under way by then or not. A half-closed
 * connection (the client shut down its sending side) counts as left: nothing tells it from a closed
 * one. Loop thread only.
 */
#ifndef SERVER_WATCH_H
#define SERVER_WATCH_H

#include <uv.h>

struct watch;
typedef void watch_left_fn(void *user);

/* NULL if the system refuses. `left` is called with the `user` of each connection that is left. */
struct watch *watch_open(uv_loop_t *loop, watch_left_fn *left);

/* From now on until watch_remove(), which comes before `fd` is closed. If the system refuses, this
 * client's leaving is not seen. */
void watch_add(struct watch *watch, int fd, void *user);
void watch_remove(struct watch *watch, int fd);

/* Stops at once; memory goes when the loop has closed the handle. NULL is nothing. */
void watch_close(struct watch *watch);

#endif
