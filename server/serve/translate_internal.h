/* translate_internal.h - what a translate and the translator are made of. Private to the files that
 * implement the two:
 *
 *   translator.c      the list of what engine workers have finished, and waking the loop
 *   submit.c          texts become jobs of the engine
 *   translate.c       the life of a translate, rendering, and what its owner reads
 *   translate_next.c  its sentences, one after the other
 */
#ifndef SERVER_SERVE_TRANSLATE_INTERNAL_H
#define SERVER_SERVE_TRANSLATE_INTERNAL_H

#include <stdatomic.h>

#include "content/prose.h"
#include "serve/rendition.h"
#include "serve/sentences.h"
#include "serve/translate.h"
#include "serve/turns.h"

/* A single text of up to so many bytes is submitted by the loop itself: that takes tenths of a
 * millisecond at most, and spares waking a thread of the pool and being woken by it. */
enum { SHORT_BYTES = 512 };

/* Texts of more become so many sentences that their jobs, two hundred times as large, are split one
 * request after the other, and freed in the pool. */
enum { LONG_BYTES = 16384 };

/* How long a request may hold a thread of the pool, by the thread's own clock; one that has more
 * waits again, behind the others. */
enum { SHARE_NS = 20000000 };

/* What the jobs of one route share. */
struct route {
    struct acre_request request;
    struct dictionary *dictionaries[SRV_MAX_DICTIONARIES]; /* held */
    size_t n_dictionaries;
};

struct item {
    struct translate *translate;
    const struct route *route; /* NULL: none, no job */
    const char *text;          /* in translate->texts */
    size_t bytes;              /* 0: blank, or without a route: no job */
    bool is_read;              /* as prose */
    bool is_prose;             /* else the text is what the engine is given */
    struct prose prose;
    struct rendition rendition;
    struct sentences sentences; /* of what is streamed */
    struct acre_job *job;       /* owned */
    struct item *next;          /* in translator->finished */
};

struct translate {
    struct translator *translator;
    struct translate *sibling, **previous_link; /* of all translates; loop thread */
    translate_done_fn *done;
    void *user;
    bool is_told;   /* `done` was called */
    bool is_closed; /* the owner has left */
    bool is_streamed, is_traced, is_raw;
    size_t n_streamed;           /* items that the owner has taken */
    bool has_news;               /* it waits to be told; translator->lock protects this */
    struct translate *next_news; /* likewise */
    size_t n_finished;

    /* Submitting: the pool thread's until its turn ends; only `is_cancelled` is anybody's. */
    struct turn turn;
    uv_work_t freeing;
    struct route *routes; /* owned, [n_routes] */
    size_t n_routes, n_queued_routes;
    uint64_t caller;
    uint64_t timeout_ms, deadline_ns;
    char *texts; /* owned copy */
    size_t bytes;
    bool is_submitting; /* or rendered: it has a turn, or waits for one; loop thread only */
    atomic_bool is_cancelled;
    struct item nothing; /* ends like a job where there is no job whose end to wait for */
    enum srv_format format;
    struct prose_markup markup;          /* its names are owned */
    size_t terms_bytes, max_terms_bytes; /* of the translations of the terms that were found */
    size_t n_prose;                      /* items that are, */
    size_t n_whole;                      /* and that are rendered in one */
    size_t n_rendered;                   /* the first item that is not */
    size_t next;                         /* the first item that is not split; it may have a job */
    size_t n_tokens, jobs_bytes;         /* of the items that are */
    size_t n_submitted;
    int status; /* of submitting */
    struct acre_err err;

    size_t n_items;
    struct item items[];
};

struct translator {
    struct acre_engine *engine;
    size_t n_submitting;
    struct turns splitting;       /* of long ones, */
    struct turns working;         /* of others, and rendering */
    struct translate *translates; /* those that are not freed; loop thread */
    uv_loop_t *loop;
    uv_work_t warm_up;
    /* The loop is woken by an eventfd of our own. With a uv_async_t the loop spins until the thread
     * that woke it has cleared a flag. On one CPU that thread cannot run while the loop spins. */
    uv_poll_t wake;
    int wake_fd;
    uv_mutex_t lock;
    struct item *finished;  /* protected by `lock` */
    struct translate *news; /* likewise: those of which a sentence has come */
};

/* ---- translator.c ---------------------------------------------------------------------------- */

/* What the engine calls, with an item: its job is done, or its next sentence. Any thread; the
 * former comes last, and the translate cannot be freed before it. */
void translator_on_done(void *item);
void translator_on_next(void *item);

/* ---- submit.c -------------------------------------------------------------------------------- */

/* Splits the texts to jobs, in the pool unless it is one short text, and queues all or none; of
 * several routes one may be queued before another is refused, and is cancelled then. */
void submit_start(struct translate *translate);
void submit_cancel(struct translate *translate);
/* Also one that is submitting; what a thread has at hand may still take a while. */
void submit_stop(struct translate *translate);

/* ---- translate.c ----------------------------------------------------------------------------- */

/* Nothing of it is submitting, queued or running. */
bool translate_is_idle(const struct translate *translate);

/* After anything changed: frees it or tells the owner, if it is time. */
void translate_settle(struct translate *translate);
void translate_tell_news(const struct translate *translate);

/* Works in the pool when it is its caller's turn, and then calls done() on the loop, which ends the
 * turn. Who leaves before ends it, too. */
void translate_wait_for_turn(struct translate *translate, struct turns *turns,
                             void (*work)(void *translate), void (*done)(void *translate));
void translate_end_turn(struct translate *translate);

/* Whether it is rendered in one piece, when all is done. */
bool item_is_whole(const struct item *item);

/* What the calling thread has worked. */
int64_t translate_worked_ns(void);

/* Says which text it was, if there are several and the text is at fault. -1. */
int translate_explain(const struct translate *translate, size_t index, int status,
                      const struct acre_err *err, struct srv_error *error);

#endif
