#include "engines.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>

const char *const model_directories[N_MODELS] = {
    "tests/golden/models/tiny-area",
    "tests/golden/models/tiny-char",
    "tests/golden/models/tiny-token",
};

struct acre_engine *open_engine(int n_threads, int batch_size)
{
    struct acre_engine *engine;
    struct acre_err err;
    struct acre_options options = {.n_threads = n_threads, .batch_size = batch_size};
    if (acre_engine_open(&options, &engine, &err) != 0)
        fail_msg("%s", err.text);
    return engine;
}

struct acre_model *open_model(struct acre_engine *engine, const char *directory)
{
    struct acre_model *model;
    struct acre_err err;
    if (acre_model_open(engine, directory, &model, &err) != 0)
        fail_msg("%s", err.text);
    return model;
}

struct acre_request request_of(struct acre_model *model, const char *text, bool is_tokens)
{
    return (struct acre_request){
        .model = model,
        .text = text,
        .text_bytes = strlen(text),
        .is_tokens = is_tokens,
        .decoding = acre_model_info(model)->decoding,
    };
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static size_t n_done;

void count_done(void *user)
{
    pthread_mutex_lock(&lock);
    ++*(int *)user;
    n_done++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void wait_done(size_t n)
{
    pthread_mutex_lock(&lock);
    while (n_done < n)
        pthread_cond_wait(&changed, &lock);
    n_done -= n;
    pthread_mutex_unlock(&lock);
}

void wait_called(const int *calls)
{
    pthread_mutex_lock(&lock);
    while (*calls == 0)
        pthread_cond_wait(&changed, &lock);
    n_done--;
    pthread_mutex_unlock(&lock);
}
