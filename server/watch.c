#include "watch.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { EVENTS = 64 }; /* of one look; what is left over is reported by the next */

struct watch {
    uv_poll_t poll;
    int epoll_fd;
    watch_left_fn *left;
};

static void on_readable(uv_poll_t *poll, int status, int poll_events)
{
    const struct watch *watch = poll->data;
    struct epoll_event events[EVENTS];
    int n = epoll_wait(watch->epoll_fd, events, EVENTS, 0);

    (void)status;
    (void)poll_events;
    for (int i = 0; i < n; i++)
        watch->left(events[i].data.ptr);
}

static void on_closed(uv_handle_t *handle)
{
    struct watch *watch = handle->data;

    close(watch->epoll_fd);
    free(watch);
}

struct watch *watch_open(uv_loop_t *loop, watch_left_fn *left)
{
    struct watch *watch = malloc(sizeof(*watch));

    if (!watch)
        return NULL;
    *watch = (struct watch){.epoll_fd = epoll_create1(EPOLL_CLOEXEC), .left = left};
    if (watch->epoll_fd < 0)
        goto err_after_alloc;
    if (uv_poll_init(loop, &watch->poll, watch->epoll_fd) != 0)
        goto err_after_epoll;
    watch->poll.data = watch;
    uv_poll_start(&watch->poll, UV_READABLE, on_readable);
    return watch;

err_after_epoll:
    close(watch->epoll_fd);
err_after_alloc:
    free(watch);
    return NULL;
}

void watch_add(struct watch *watch, int fd, void *user)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = user};

    epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

void watch_remove(struct watch *watch, int fd)
{
    epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void watch_close(struct watch *watch)
{
    if (watch)
        uv_close((uv_handle_t *)&watch->poll, on_closed);
}
