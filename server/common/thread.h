/* thread.h - threads of the server beside the loop. Any thread. */
#ifndef SERVER_COMMON_THREAD_H
#define SERVER_COMMON_THREAD_H

#include <pthread.h>

/* As pthread_create(), with every signal blocked: signals are the loop's. */
int thread_start(pthread_t *thread, void *(*run)(void *user), void *user);

#endif
