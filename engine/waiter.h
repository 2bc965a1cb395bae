/* waiter.h - one event that a thread waits for: it happens once, on any thread.
 *
 * The thread that waited may free the waiter at once: the thread that wakes it does not touch it
 * after its mutex is unlocked.
 */
#ifndef ENGINE_WAITER_H
#define ENGINE_WAITER_H

#include <pthread.h>
#include <stdbool.h>

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has_happened; /* under `lock` */
};

void waiter_init(struct waiter *waiter);
void waiter_fini(struct waiter *waiter);

void waiter_wake(struct waiter *waiter);

/* False if it has not happened within timeout_ms; a negative one is no limit. */
bool waiter_wait(struct waiter *waiter, int timeout_ms);

#endif
