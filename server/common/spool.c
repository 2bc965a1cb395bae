/* Happy path: spool_add() copies the line into `filling` -> the thread takes that buffer, leaves
 * its own empty one, and writes. A file that takes nothing holds up the thread alone; one that has
 * taken a part of a line gets that line's end before the next. */
#include "common/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/thread.h"

enum { ROOM_BYTES = 256 << 10, CLOSE_WAIT_S = 1, RETRY_S = 1 };

struct spool {
    char *path;            /* owned; or NULL */
    int fd;                /* of the thread; -1: could not be opened, */
    struct timespec tried; /* then */
    bool is_cut;           /* of the thread: what was written last ends within a line */
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    char *filling; /* owned, [ROOM_BYTES] */
    size_t filled_bytes;
    size_t n_lost;
    bool reopens, is_closing, is_left;
};

static size_t count_lines(const char *text, size_t bytes)
{
    size_t n = 0;

    for (size_t i = 0; i < bytes; i++)
        n += text[i] == '\n';
    return n;
}

/* Bytes written; what the file refuses stays unwritten. */
static size_t write_all(int fd, const char *text, size_t bytes)
{
    struct pollfd writable = {.fd = fd, .events = POLLOUT};
    size_t written = 0;

    while (written < bytes) {
        const ssize_t n = write(fd, text + written, bytes - written);

        if (n >= 0)
            written += (size_t)n;
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            poll(&writable, 1, -1);
        else if (errno != EINTR)
            break;
    }
    return written;
}

static size_t write_lines(struct spool *spool, const char *text, size_t bytes)
{
    size_t written;

    if (spool->is_cut && write_all(spool->fd, "\n", 1) == 0)
        return 0;
    written = write_all(spool->fd, text, bytes);
    spool->is_cut = written > 0 && text[written - 1] != '\n';
    return written;
}

/* Whether a file that could not be opened may be there by now. */
static bool is_due(const struct spool *spool)
{
    struct timespec now;

    if (!spool->path || spool->fd >= 0)
        return false;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec - spool->tried.tv_sec > RETRY_S;
}

static void reopen(struct spool *spool)
{
    struct stat found;

    if (!spool->path)
        return;
    if (spool->fd >= 0)
        close(spool->fd);
    clock_gettime(CLOCK_MONOTONIC, &spool->tried);
    spool->fd = open(spool->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);
    spool->is_cut = spool->is_cut && fstat(spool->fd, &found) == 0 && found.st_size > 0;
}

/* Lock held, and given up meanwhile. */
static void write_buffer(struct spool *spool, char **empty)
{
    char *full = spool->filling;
    const size_t bytes = spool->filled_bytes;
    const bool reopens = spool->reopens;
    size_t written;

    spool->filling = *empty;
    *empty = full;
    spool->filled_bytes = 0;
    spool->reopens = false;
    pthread_mutex_unlock(&spool->lock);
    if (reopens || is_due(spool))
        reopen(spool);
    written = write_lines(spool, full, bytes);
    pthread_mutex_lock(&spool->lock);
    spool->n_lost += count_lines(full + written, bytes - written);
}

static void free_spool(struct spool *spool)
{
    if (spool->path && spool->fd >= 0)
        close(spool->fd);
    free(spool->path);
    free(spool->filling);
    free(spool);
}

static void *run(void *user)
{
    struct spool *spool = user;
    char *empty = malloc(ROOM_BYTES);
    bool is_left;

    pthread_mutex_lock(&spool->lock);
    while (empty && (!spool->is_closing || spool->filled_bytes > 0)) {
        if (spool->filled_bytes > 0 || spool->reopens)
            write_buffer(spool, &empty);
        else
            pthread_cond_wait(&spool->changed, &spool->lock);
    }
    is_left = spool->is_left;
    pthread_mutex_unlock(&spool->lock);
    free(empty);
    if (is_left)
        free_spool(spool);
    return NULL;
}

struct spool *spool_open(const char *path, int fd)
{
    struct spool *spool = calloc(1, sizeof(*spool));

    if (!spool)
        return NULL;
    spool->filling = malloc(ROOM_BYTES);
    spool->path = path ? strdup(path) : NULL;
    spool->fd = path ? -1 : fd;
    spool->reopens = true;
    pthread_mutex_init(&spool->lock, NULL);
    pthread_cond_init(&spool->changed, NULL);
    if (spool->filling && (spool->path || !path) && thread_start(&spool->thread, run, spool) == 0)
        return spool;
    free_spool(spool);
    return NULL;
}

void spool_reopen(struct spool *spool)
{
    pthread_mutex_lock(&spool->lock);
    spool->reopens = true;
    pthread_cond_signal(&spool->changed);
    pthread_mutex_unlock(&spool->lock);
}

void spool_add(struct spool *spool, const char *line, size_t bytes)
{
    pthread_mutex_lock(&spool->lock);
    if (bytes > ROOM_BYTES - spool->filled_bytes) {
        spool->n_lost++;
    } else {
        if (spool->filled_bytes == 0)
            pthread_cond_signal(&spool->changed);
        memcpy(spool->filling + spool->filled_bytes, line, bytes);
        spool->filled_bytes += bytes;
    }
    pthread_mutex_unlock(&spool->lock);
}

size_t spool_take_lost(struct spool *spool)
{
    size_t n;

    pthread_mutex_lock(&spool->lock);
    n = spool->n_lost;
    spool->n_lost = 0;
    pthread_mutex_unlock(&spool->lock);
    return n;
}

static void tell_to_close(struct spool *spool, bool is_left)
{
    pthread_mutex_lock(&spool->lock);
    spool->is_closing = true;
    spool->is_left = is_left;
    pthread_cond_signal(&spool->changed);
    pthread_mutex_unlock(&spool->lock);
}

void spool_leave(struct spool *spool)
{
    pthread_detach(spool->thread);
    tell_to_close(spool, true);
}

bool spool_finish(struct spool *spool)
{
    struct timespec end;

    tell_to_close(spool, false);
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += CLOSE_WAIT_S;
    return pthread_timedjoin_np(spool->thread, NULL, &end) == 0;
}

/* If the thread is stuck in a write, its memory is leaked on purpose: the process is exiting. */
void spool_close(struct spool *spool)
{
    if (spool && spool_finish(spool))
        free_spool(spool);
}
