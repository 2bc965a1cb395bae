/* Happy path: open -> close, nothing happened. Otherwise the timer fires or the peer closes: both
 * handles stop, `fn` is called, and its owner closes the watch. A half-closed connection (the
 * client shut down its sending side) counts as left: nothing tells it from a closed one. */
#include "watch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct watch {
    uv_timer_t timer;
    uv_poll_t poll;
    int fd; /* our duplicate, -1 if there is none */
    int n_open_handles;
    watch_fn *fn;
    void *user;
};

static void on_closed(uv_handle_t *handle)
{
    struct watch *watch = handle->data;

    if (--watch->n_open_handles > 0)
        return;
    if (watch->fd >= 0)
        close(watch->fd);
    free(watch);
}

static void stop(struct watch *watch)
{
    uv_timer_stop(&watch->timer);
    if (watch->fd >= 0)
        uv_poll_stop(&watch->poll);
}

static void on_deadline(uv_timer_t *timer)
{
    struct watch *watch = timer->data;

    stop(watch);
    watch->fn(watch->user, WATCH_DEADLINE);
}

static void on_left(uv_poll_t *poll, int status, int events)
{
    struct watch *watch = poll->data;

    (void)status; /* an error on the socket is as good as a disconnect */
    (void)events;
    stop(watch);
    watch->fn(watch->user, WATCH_LEFT);
}

static void watch_socket(struct watch *watch, uv_loop_t *loop, int fd)
{
    watch->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (watch->fd < 0)
        return; /* UNTESTED: out of descriptors */
    if (uv_poll_init_socket(loop, &watch->poll, watch->fd) != 0) {
        close(watch->fd); /* UNTESTED: the event loop refuses a socket */
        watch->fd = -1;
        return;
    }
    watch->poll.data = watch;
    watch->n_open_handles++;
    uv_poll_start(&watch->poll, UV_DISCONNECT, on_left);
}

struct watch *watch_open(uv_loop_t *loop, int fd, uint64_t timeout_ms, watch_fn *fn, void *user)
{
    struct watch *watch = malloc(sizeof(*watch));

    if (!watch)
        return NULL;
    *watch = (struct watch){.fd = -1, .n_open_handles = 1, .fn = fn, .user = user};
    uv_timer_init(loop, &watch->timer);
    watch->timer.data = watch;
    uv_update_time(loop); /* parsing a large body may have taken a while */
    uv_timer_start(&watch->timer, on_deadline, timeout_ms, 0);
    watch_socket(watch, loop, fd);
    return watch;
}

void watch_close(struct watch *watch)
{
    uv_close((uv_handle_t *)&watch->timer, on_closed);
    if (watch->fd >= 0)
        uv_close((uv_handle_t *)&watch->poll, on_closed);
}
