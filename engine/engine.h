/* engine.h - what an engine and a model are made of. Private to the files of this folder.
 *
 * Models may be opened by several threads at once; `lock` guards the list. Everything in a model is
 * immutable once it is open, except what is served, which the scheduler's lock guards.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "acre.h"
#include "cache.h"
#include "device/device.h"
#include "model/config.h"
#include "model/language_names.h"
#include "model/safetensors.h"
#include "nn/network.h"
#include "sched/scheduler.h"
#include "search/constraint.h"
#include "text/alphabet.h"
#include "text/tokenizer.h"

struct acre_engine {
    pid_t process;               /* that opened it; its children have none of the threads */
    struct acre_options options; /* defaults filled in, but max_beam_size: that is for models */
    bool is_type_forced;         /* else each model's own */
    enum compute_type compute_type;
    struct device_set devices; /* each has all models */
    char name[512];            /* of the devices */
    struct scheduler *scheduler;
    struct cache *cache;          /* NULL: none */
    struct acre_engine *fallback; /* owned, see fallback.h; NULL: there is none */
    atomic_bool is_loss_told;
    pthread_mutex_t lock;
    struct acre_model *models;
    uint64_t n_models; /* ever opened */
};

struct acre_model {
    struct acre_engine *engine;
    struct acre_model *next;
    uint64_t serial; /* no other model of the engine has it, nor had */
    char *name;
    struct config config;
    int max_beam_size; /* of its requests */
    uint64_t parameters;
    size_t packed_bytes; /* of its weights, on all devices */
    struct tokenizer *tokenizer;
    struct alphabet *alphabet;              /* of its sources */
    struct language_names sources, targets; /* in the order of the tokenizer's, if it has them */
    const struct acre_language *source, *target; /* where a request does not say; NULL: none */
    struct network *networks[MAX_DEVICES];       /* one on each that was well */
    struct constraint *constraint;
    struct served_model *served;
    struct acre_model *fallback; /* the same of engine->fallback, which owns it; or NULL */
    struct acre_model_info info;
};

/* acre_engine_open() on devices that are open already, which become the engine's also if it fails;
 * options->device does not count. */
int engine_open_on(const struct device_set *devices, const struct acre_options *options,
                   struct acre_engine **engine, struct acre_err *err);

/* A line for the log that `options` name. */
void engine_say(const struct acre_options *options, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Of a model that is served no more, or not yet. */
void model_free(struct acre_model *model);

/* ACRE_EOPTION unless it is from 1 to max. */
int engine_check_range(const char *name, int value, int max, struct acre_err *err);

/* "auto" is f32. ACRE_EUNSUPPORTED if the device has no type that is called so. */
int engine_compute_type(const struct device *device, const char *name, enum compute_type *type,
                        struct acre_err *err);

#endif
