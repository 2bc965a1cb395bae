/* Loaded into a server: whoever reads "Late: N" from a socket makes the clock jump N seconds, as if
 * the loop had been busy with it for so long; the date, too. CLOCK_REALTIME stays: threads wait by
 * it, in the kernel, whose clock does not jump. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static long late_s;

ssize_t recv(int fd, void *buffer, size_t bytes, int flags)
{
    ssize_t (*real)(int, void *, size_t, int) = dlsym(RTLD_NEXT, "recv");
    const ssize_t n = real(fd, buffer, bytes, flags);
    const char *found = n > 6 ? memmem(buffer, (size_t)n, "Late: ", 6) : NULL;

    if (found)
        late_s += atol(found + 6);
    return n;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    const int rc = real(clock, now);

    if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE) /* libuv reads either */
        now->tv_sec += late_s;
    return rc;
}

time_t time(time_t *now)
{
    struct timespec real;

    clock_gettime(CLOCK_REALTIME, &real);
    if (now)
        *now = real.tv_sec + late_s;
    return real.tv_sec + late_s;
}
