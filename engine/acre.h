/* acre.h - the public interface of libacre, the engine that translates.
 *
 * An engine owns worker threads and models. A caller submits a text with acre_submit() from any
 * thread; workers batch the sentences of all callers and call `done` when the whole text is
 * translated. acre_translate() is the same, waiting for the answer.
 *
 * Fallible functions return 0 or a negative ACRE_E... code and explain it in `err`, which may be
 * NULL; what they should have opened is NULL then. Pointers passed in are borrowed for the call;
 * pointers handed out say who owns them.
 * A sentence's translation and score do not depend on what else is translated at the same time.
 *
 * Workers block all signals but faults and SIGPROF. An engine belongs to the process that opened
 * it: a child of fork() has none of its threads and may use nothing of it, but open one of its own.
 * acre_engine_close() does nothing there.
 *
 * This header is all that the server and other programs may use of the engine, with acre_result.h,
 * which it includes, and acre_bench.h for measuring.
 */
#ifndef ACRE_H
#define ACRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acre_result.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ACRE_VERSION "0.1.0"

const char *acre_status_name(int status); /* "queue_full"; "ok" for 0. Static. */
const char *acre_status_text(int status); /* Static. */
int acre_status_http(int status);         /* HTTP status a server should answer with; 200 for 0. */

struct acre_engine;
struct acre_model;
struct acre_job;

enum acre_log_level { ACRE_LOG_INFO, ACRE_LOG_WARNING };
typedef void acre_log_fn(void *user, enum acre_log_level level, const char *line);

/* The largest values of the options below. */
enum { ACRE_MAX_THREADS = 1024, ACRE_MAX_BATCH_SIZE = 1024, ACRE_MAX_BEAM_SIZE = 64 };

/* What these options take, for people, with f16 also on GPUs; and whether a name is among it. */
#define ACRE_DEVICES "auto, cpu, cuda or cuda:N"
#define ACRE_COMPUTE_TYPES "auto, f32, bf16 or int8"
bool acre_has_device(const char *name);
bool acre_has_compute_type(const char *name);

/* Zero in any field means its default. */
struct acre_options {
    const char *device;          /* one of ACRE_DEVICES; default "auto" */
    const char *compute_type;    /* one of ACRE_COMPUTE_TYPES; default "auto": what a model's
                                  * config.json says it was evaluated in, else f32; on a GPU f16,
                                  * unless that is f32 and a matrix is stored in 32 bits */
    const char *device_fallback; /* "cpu": what a lost device leaves goes on there, with the same
                                  * models; default "none": it ends with ACRE_EDEVICE */
    int n_threads;               /* worker threads; default: the CPUs this process may use, at most
                                  * ACRE_MAX_THREADS */
    int batch_size;              /* most sentences one worker decodes together; default 32 */
    int max_beam_size;           /* largest beam a request may ask for; default 8, or the model's
                                  * own if that is larger */
    size_t max_queued_tokens;    /* source tokens that may wait; default 100,000 per thread */
    size_t cache_bytes;          /* for translations of sentences that come again; default: none */
    acre_log_fn *log;            /* called from any thread; default: silent */
    void *log_user;
};

/* Starts the workers. *engine is owned by the caller, until acre_engine_close(). */
int acre_engine_open(const struct acre_options *options, struct acre_engine **engine,
                     struct acre_err *err);

/* Stops the workers; unfinished jobs end with ACRE_ECLOSED. Closes its models. Jobs are closed
 * before or after it. NULL is allowed. */
void acre_engine_close(struct acre_engine *engine);
/* What the engine runs on, e.g. "cpu avx2"; lives as long as the engine. */
const char *acre_engine_backend(const struct acre_engine *engine);
int acre_engine_threads(const struct acre_engine *engine);
/* How many devices have its models, each all of them, and how many of those are lost. */
void acre_engine_devices(struct acre_engine *engine, size_t *n_devices, size_t *n_lost);
/* What the machine, or a control group that this process is in, has left for what models work in;
 * SIZE_MAX where nothing tells, and on GPUs, where that is taken when a model is loaded. */
size_t acre_engine_free_bytes(const struct acre_engine *engine);
/* Source tokens submitted and not yet taken by a worker, for admission control and metrics. */
size_t acre_engine_queued_tokens(struct acre_engine *engine);
/* How many may wait. */
size_t acre_engine_max_queued_tokens(const struct acre_engine *engine);
/* 0, or ACRE_EDEVICE once all its devices are lost: what waits and what runs ends with that as soon
 * as a worker comes round, and nothing more is accepted. `err` says what happened. It does not
 * recover. What one of several devices leaves goes to the others, once; a sentence that loses two
 * ends with ACRE_EDEVICE. */
int acre_engine_health(struct acre_engine *engine, struct acre_err *err);

enum { ACRE_MAX_LENGTH_PENALTY = 10, ACRE_MAX_LENGTH = 100000, ACRE_MAX_BEAM_THRESHOLD = 1000 };

/* What decoding can be told: KIND(name, min, max, help). Whoever parses, checks or lists decoding
 * options expands this. At max_length the end token is forced and adds 0 to the score. */
#define ACRE_DECODING_OPTIONS(INT, REAL)                                                           \
    INT(beam_size, 1, ACRE_MAX_BEAM_SIZE, "hypotheses kept while searching; 1 = greedy")           \
    INT(num_hypotheses, 1, ACRE_MAX_BEAM_SIZE, "hypotheses given back, at most the beam size")     \
    INT(max_length, 1, ACRE_MAX_LENGTH, "most target tokens, end token not counted")               \
    INT(min_length, 0, ACRE_MAX_LENGTH, "fewest target tokens, likewise")                          \
    REAL(length_penalty, -ACRE_MAX_LENGTH_PENALTY, ACRE_MAX_LENGTH_PENALTY,                        \
         "rank by score / tokens^X")                                                               \
    REAL(beam_threshold, 0, ACRE_MAX_BEAM_THRESHOLD,                                               \
         "give up hypotheses whose score is X below the best one's; 0 = none; not applied where "  \
         "several are given back")

struct acre_decoding {
    int beam_size, num_hypotheses, min_length, max_length;
    float length_penalty, beam_threshold;
};

struct acre_language {
    const char *code; /* as the model calls it: "deu_Latn" */
    const char *tag;  /* as others do, by BCP 47: "de", "zh-Hant"; no other of the model has it */
};

/* Strings and lists live as long as the model. C++ also needs "struct" before the name, as a
 * function has it too. */
struct acre_model_info {
    const char *name;   /* last part of the path it was opened by, e.g. "en-de-token" */
    const char *source; /* tag of the language of texts whose request does not say; "": none */
    const char *target; /* likewise, which they are translated to */
    const struct acre_language *sources, *targets; /* from each to each */
    size_t n_sources, n_targets;
    const char *level; /* "token" or "char" */
    const char *model_type;
    const char *compute_type; /* what products with its weights are computed in */
    uint64_t parameters;
    uint64_t packed_bytes;  /* held for its weights: packed, and the tables of embeddings */
    uint64_t working_bytes; /* all it works in, on all workers together, however full their batches
                             * are: reserved when it is loaded, resident once written */
    int d_model, encoder_layers, decoder_layers, attention_heads, vocab_size;
    int max_area_width;            /* 1 = regular attention everywhere */
    int max_source_tokens;         /* longer sentences are split: what the model can read, or two
                                    * thirds of its max_length, at least 64, if that is less */
    int max_target_tokens;         /* the largest max_length */
    struct acre_decoding decoding; /* the model's own defaults */
};

/* Loads a model (Hugging Face layout), until it or the engine is closed. Any threads at once. */
int acre_model_open(struct acre_engine *engine, const char *directory, struct acre_model **model,
                    struct acre_err *err);

/* Unloads it; all its jobs must be closed. NULL is allowed. */
void acre_model_close(struct acre_model *model);

const struct acre_model_info *acre_model_info(const struct acre_model *model);

/* The one of info->sources, or targets, that is called so, without case; also "zh-CN" and "zho" are
 * Chinese. NULL: none. */
const struct acre_language *acre_model_source(const struct acre_model *model, const char *name);
const struct acre_language *acre_model_target(const struct acre_model *model, const char *name);

/* Whether the model can read a character (UTF-8) of a source: its vocabulary has it; of bytes,
 * where no vocabulary tells, its language has it. Of what it cannot read it makes words that have
 * nothing to do with it. */
bool acre_model_reads(const struct acre_model *model, const char *character,
                      size_t character_bytes);

/* Sentences of one model on all workers: how many wait and run now, and what became of others.
 * Tokens are without end tokens. Bucket i of a histogram goes up to 2^i, the last one to all. */
struct acre_statistics {
    uint64_t queued_sentences, queued_tokens, running_sentences;     /* source tokens */
    uint64_t done_sentences, done_source_tokens, done_target_tokens; /* of best hypotheses */
    uint64_t cancelled_sentences, expired_sentences, failed_sentences;
    uint64_t cached_sentences;     /* translated before; not counted as done */
    uint64_t refused_texts;        /* ACRE_EBUSY: too much was waiting */
    uint64_t late_texts;           /* ACRE_ELATE: they would not have been done in time */
    uint64_t steps, rows;          /* decoder steps, and the hypotheses that they took a token on */
    uint64_t waits[16], waited_ms; /* sentences by how long they waited, and the sum */
    uint64_t batches[16], batched; /* steps by the sentences in them, likewise */
};
void acre_model_statistics(const struct acre_model *model, struct acre_statistics *statistics);

/* May call anything but acre_engine_close(), acre_job_wait() and acre_translate(), which wait for
 * workers; whatever it does, sentences of others wait for. */
typedef void acre_done_fn(void *user);

/* Where sentences end, besides where they are longer than max_source_tokens. */
enum acre_split {
    ACRE_SPLIT_LINES,     /* where they read like it, and at line ends and tabs */
    ACRE_SPLIT_SENTENCES, /* only where they read like it */
    ACRE_SPLIT_NOTHING,   /* nowhere */
    ACRE_SPLIT_ONLY_LINES /* only at line ends and tabs */
};

struct acre_request {
    struct acre_model *model;
    const char *text; /* UTF-8 without U+0000, [text_bytes]; no terminator needed */
    size_t text_bytes;
    const char *source, *target; /* languages by any name; NULL: those of the model's info */
    bool is_tokens; /* text is the vocabulary's own tokens separated by spaces, one sentence */
    const char *translation; /* UTF-8, [translation_bytes], or NULL. It is scored then, and the only
                              * hypothesis; text and translation are one sentence each */
    size_t translation_bytes;
    enum acre_split split;
    struct acre_decoding decoding; /* start from acre_model_info()->decoding */
    bool is_aligned;    /* hypotheses shall say where in the text each of their tokens comes from */
    uint64_t caller;    /* whose it is, by any number: what waits is shared fairly among callers */
    int timeout_ms;     /* from now; not translated by then ends with ACRE_ETIMEOUT. 0: no limit */
    acre_done_fn *done; /* called once, not if submitting failed: from a worker thread, or from
                         * acre_submit() if there is nothing to do. NULL: acre_job_wait() tells */
    acre_done_fn *next; /* NULL, or called from such threads before `done`, whenever the sentence
                         * has ended that acre_job_next() found not to have */
    void *user;
};

/* Queues a text for the engine of its model. *job is owned by the caller, until acre_job_close()
 * after `done` was called. */
int acre_submit(const struct acre_request *request, struct acre_job **job, struct acre_err *err);

/* acre_submit() in parts, for callers that lend their threads for a short time only, or have
 * several texts that belong together. Opening copies the text; each call of acre_job_split() splits
 * about max_bytes more of it. Until it is queued, the job may be closed without `done`; one thread
 * at a time. */
int acre_job_open(const struct acre_request *request, struct acre_job **job, struct acre_err *err);
int acre_job_split(struct acre_job *job, size_t max_bytes, bool *is_split, struct acre_err *err);
/* Once it is split: its source tokens, but those of sentences that the cache knows. */
size_t acre_job_tokens(const struct acre_job *job);
/* Likewise: how many bytes it holds then beside its text, about, and until it is closed;
 * translations that the cache does not know come to it. */
size_t acre_job_bytes(const struct acre_job *job);

/* Queues n > 0 split jobs of one caller and model, all or none: ACRE_EBUSY where others' work
 * leaves no room; ACRE_ETOOLARGE where there never is; ACRE_ELATE where what comes before it leaves
 * too little time. One text alone always fits once nothing waits. */
int acre_jobs_queue(struct acre_job *const *jobs, size_t n, struct acre_err *err);

/* Asks to stop early; `done` is still called, soon, usually with ACRE_ECANCELLED. Any thread, but
 * not while the engine is being closed. */
void acre_job_cancel(struct acre_job *job);

/* The next sentence of a job with `next`, from 0 on, once it is queued; one thread at a time. */
int acre_job_next(struct acre_job *job, struct acre_sentence *sentence, struct acre_err *err);
/* The result, once `done` was called; lives as long as the job, its tokens as long as the model. */
const struct acre_result *acre_job_result(const struct acre_job *job);
/* Frees job and result; only after `done` was called, or before it is queued. NULL is allowed. */
void acre_job_close(struct acre_job *job);

/* Waits for a job queued without `done`; false once timeout_ms, if it is not negative, are over. */
bool acre_job_wait(struct acre_job *job, int timeout_ms);

/* Submits `request` (its done and user are not used) and waits. On success the caller owns *job;
 * its result may still be an error of the translation. */
int acre_translate(const struct acre_request *request, struct acre_job **job, struct acre_err *err);

/* Computes it on this thread for a sentence of a job whose `done` was called, with the areas that
 * weigh at least `least`. *attention is owned by the caller. ACRE_EDEVICE if the device is lost
 * meanwhile; the engine counts it as lost from then on. */
int acre_attention_open(const struct acre_job *job, size_t sentence, float least,
                        struct acre_attention **attention, struct acre_err *err);
void acre_attention_close(struct acre_attention *attention); /* NULL is allowed */

#ifdef __cplusplus
}
#endif

#endif
