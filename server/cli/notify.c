#include "cli/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"

static void notify(const char *text)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    const size_t n = path ? strlen(path) : 0;
    int fd;

    if (n == 0 || n >= sizeof(address.sun_path))
        return;
    memcpy(address.sun_path, path, n);
    if (path[0] == '@') /* an abstract name */
        address.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address,
                         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) < 0)
        log_warning("NOTIFY_SOCKET: %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
}

void notify_ready(void)
{
    notify("READY=1");
}

void notify_reloading(void)
{
    struct timespec now;
    char text[64];

    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
             (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
    notify(text);
}

void notify_stopping(void)
{
    notify("STOPPING=1");
}

void notify_watchdog(void)
{
    notify("WATCHDOG=1");
}

uint64_t notify_watchdog_ms(void)
{
    const char *pid = getenv("WATCHDOG_PID"), *limit_us = getenv("WATCHDOG_USEC");

    if (!limit_us || (pid && strtol(pid, NULL, 10) != getpid()))
        return 0;
    return strtoull(limit_us, NULL, 10) / 2000;
}
