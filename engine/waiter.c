#include "waiter.h"

#include <time.h>

void waiter_init(struct waiter *waiter)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&waiter->lock, NULL);
    pthread_cond_init(&waiter->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    waiter->has_happened = false;
}

void waiter_fini(struct waiter *waiter)
{
    pthread_cond_destroy(&waiter->changed);
    pthread_mutex_destroy(&waiter->lock);
}

void waiter_wake(struct waiter *waiter)
{
    pthread_mutex_lock(&waiter->lock);
    waiter->has_happened = true;
    pthread_cond_broadcast(&waiter->changed);
    pthread_mutex_unlock(&waiter->lock);
}

static struct timespec in_ms(int timeout_ms)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    long ns = time.tv_nsec + (timeout_ms % 1000) * 1000000L;
    time.tv_sec += timeout_ms / 1000 + ns / 1000000000L;
    time.tv_nsec = ns % 1000000000L;
    return time;
}

bool waiter_wait(struct waiter *waiter, int timeout_ms)
{
    struct timespec end = timeout_ms < 0 ? (struct timespec){0, 0} : in_ms(timeout_ms);
    int status = 0;
    pthread_mutex_lock(&waiter->lock);
    while (!waiter->has_happened && status == 0)
        status = timeout_ms < 0 ? pthread_cond_wait(&waiter->changed, &waiter->lock)
                                : pthread_cond_timedwait(&waiter->changed, &waiter->lock, &end);
    bool has_happened = waiter->has_happened;
    pthread_mutex_unlock(&waiter->lock);
    return has_happened;
}
