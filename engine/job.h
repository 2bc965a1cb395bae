/* job.h - what a job is made of, and its result. Private to the files of this folder. */
#ifndef ENGINE_JOB_H
#define ENGINE_JOB_H

#include <stdatomic.h>

#include "align.h"
#include "engine.h"
#include "frame.h"
#include "text/document.h"
#include "text/splitter.h"
#include "waiter.h"

/* A translation of a sentence as text, written when it ends. */
struct written {
    char *text;                        /* owned */
    struct acre_alignment *alignments; /* owned: of its tokens, with targets in `text`; or NULL */
};

struct acre_job {
    struct acre_model *model;
    acre_done_fn *done; /* NULL: the waiter tells */
    acre_done_fn *next;
    void *user;
    struct waiter waiter;
    bool is_tokens, is_aligned;
    struct acre_decoding decoding;
    uint64_t deadline_ns, caller;
    struct frame frame;
    struct splitter *splitter; /* until the text is split; NULL for a line of tokens */
    struct document document;
    struct sentence *sentences; /* owned, [document.n_sentences] */
    struct acre_range *ranges;  /* owned, likewise: result.sentences */
    atomic_size_t n_left;
    atomic_bool *has_ended;   /* owned, likewise; NULL: not taken sentence by sentence */
    atomic_size_t awaited;    /* who ends this one calls `next` */
    struct written **written; /* owned, likewise: each of its hypotheses; NULL: it has not ended */
    size_t n_taken;
    enum spacing taken_end; /* of those so far, see document_is_apart() */
    struct acre_result result;
    struct acre_hypothesis *hypotheses; /* owned, result.hypotheses */
};

/* Writes what became of a sentence; or its status says why not. So the worker who ends the last one
 * has little left to do, while all others in his batch wait. */
void result_write(struct acre_job *job, struct sentence *sentence);

/* Puts the translations of all sentences together to job->result. The first sentence's error is the
 * job's; then there are no hypotheses. */
int result_fill(struct acre_job *job, struct acre_err *err);

/* Says why a sentence ended with this status. */
int result_fail(int status, struct acre_err *err);
void result_free(struct acre_job *job);

/* What is told of a sentence's translation. */
struct acre_part result_part(const struct sentence *sentence,
                             const struct sentence_hypothesis *hypothesis);

/* The i-th translation of sentence `number`, which is the part `in_target` of `target`. */
struct aligned_sentence result_aligned(const struct acre_job *job, size_t number, size_t i,
                                       const char *target, struct acre_range in_target);

/* Of a finished job; NULL if it has no such sentence or was not translated. */
const struct sentence *job_sentence(const struct acre_job *job, size_t number);
const struct acre_model *job_model(const struct acre_job *job);

/* Of such a sentence: its best translation, both as parts of their texts. */
void job_aligned(const struct acre_job *job, size_t number, struct aligned_sentence *aligned);

/* The scheduler's callback: the sentence's job counts it and ends with its last one. */
void job_sentence_finished(struct sentence *sentence);

#endif
