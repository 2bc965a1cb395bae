/* engines.h - opening engines and models through acre.h, and waiting for jobs. What cannot be
 * opened fails the test. */
#ifndef TESTS_ENGINES_H
#define TESTS_ENGINES_H

#include <stdbool.h>
#include <stddef.h>

#include "acre.h"

enum { N_MODELS = 3 };

extern const char *const model_directories[N_MODELS]; /* with areas, of bytes, without areas */

struct acre_engine *open_engine(int n_threads, int batch_size);
struct acre_model *open_model(struct acre_engine *engine, const char *directory);

/* With the model's own decoding options and without `done`. */
struct acre_request request_of(struct acre_model *model, const char *text, bool is_tokens);

/* For acre_request.done; `user` is an int that counts how often it was called. */
void count_done(void *user);

/* Until count_done() was called n times since the last wait. */
void wait_done(size_t n);

/* Until this counter is no more 0; instead of wait_done(1) where several threads wait. */
void wait_called(const int *calls);

#endif
