/* translate.h - a request of N texts as N jobs of the engine, all or nothing.
 *
 * Every dialect parses into one struct srv_translate and renders from one struct translate. The
 * loop thread owns all of it, and two other kinds of thread help: acre_job_split() splits text into
 * sentences and tokens, which takes long for a long text, so a thread of libuv's pool calls it
 * unless it is one short text; a worker of the engine puts a finished text on the translator's
 * list, the one thing its lock protects, and wakes the loop. A translate that was closed early
 * lives on, unseen, until the engine has finished its jobs.
 */
#ifndef SERVER_SERVE_TRANSLATE_H
#define SERVER_SERVE_TRANSLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "acre.h"
#include "common/error.h"
#include "content/dictionary.h"
#include "serve/decoding.h"

struct srv_text {
    const char *data; /* valid UTF-8 */
    size_t bytes;
};

enum srv_format { SRV_TEXT, SRV_HTML, SRV_XHTML, SRV_XML, SRV_SUBRIP, SRV_WEBVTT };
enum { SRV_MAX_DICTIONARIES = 6 };

/* What translates the texts that are in one language. */
struct srv_route {
    struct acre_model *model;
    const char *source; /* a language of the model by any name; borrowed. NULL: its own */
    struct dictionary *dictionaries[SRV_MAX_DICTIONARIES]; /* what terms are called; the first one
                                                            * that has a term counts */
    size_t n_dictionaries;
};
enum { SRV_NO_ROUTE = UINT16_MAX }; /* of a text that stays as it is */

/* What a client asks for. Strings are borrowed; NULL or 0 means not given. */
struct srv_translate {
    const char *model_name;
    const char *source, *target, *level; /* languages of the model by any name */
    struct srv_text *texts;              /* owned, [n_texts] */
    size_t n_texts;
    struct srv_route *routes; /* owned, [n_routes] */
    size_t n_routes;
    uint16_t *route_of; /* owned, [n_texts]: of `routes`; NULL: all take the first */
    struct decoding_wish decoding;
    enum srv_format format;
    bool with_attributes;           /* of HTML: alt, title and placeholder are translated, too */
    const struct srv_text *ignored; /* [n_ignored]: elements of markup, kept as they are */
    size_t n_ignored;
    bool is_aligned; /* of SRV_TEXT: where sentences and tokens stand is told, as they come out */
    bool is_raw;     /* of SRV_TEXT: placeholders and emoji are words like others */
    enum acre_split split;
    bool is_streamed; /* no subtitles */
    uint64_t caller;  /* see acre.h */
    uint64_t timeout_ms;
};

struct translator;
struct translate;
typedef void translate_done_fn(void *user);

int translator_open(uv_loop_t *loop, struct acre_engine *engine, struct translator **translator,
                    struct acre_err *err);

/* Whether a translate that is not freed has jobs of the model, or may get some. */
bool translator_uses(const struct translator *translator, const struct acre_model *model);

/* Runs the loop until no thread is submitting, so that the engine can be closed. Every translate
 * must be closed. NULL is allowed, as in the two below. */
void translator_settle(struct translator *translator);

/* After the engine was closed. Run the loop to its end, then translator_free(). */
void translator_close(struct translator *translator);
void translator_free(struct translator *translator);

/* Starts submitting every text to the model of its route; blank texts are not translated. Copies
 * what it needs of `request`. On success the caller owns *translate, and `done` is called later,
 * once, and once more when all is queued, unless it was when this returned or all is done then; of
 * what is streamed also whenever the sentence has come that translate_next() had not. */
int translate_start(struct translator *translator, const struct srv_translate *request,
                    translate_done_fn *done, void *user, struct translate **translate,
                    struct srv_error *error);

/* Whether all of it is queued, or was; and whether all is done. */
bool translate_is_queued(const struct translate *translate);
bool translate_is_done(const struct translate *translate);

/* Once all is queued: how many bytes its jobs hold, about, until it is closed. */
size_t translate_jobs_bytes(const struct translate *translate);

/* Once done: 0, or why there is no result: the queue was full (429), or can never take so much
 * (413), or what waits leaves too little time (503), or the first text's error. */
int translate_error(const struct translate *translate, struct srv_error *error);

/* Once done without error: the result of a text, or NULL if it was blank, or had no route, and
 * stands for itself. Of markup, and of text with placeholders or terms, it is that of its words:
 * see translate_text(). */
const struct acre_result *translate_result(const struct translate *translate, size_t index);

/* Likewise: the job itself. */
const struct acre_job *translate_job(const struct translate *translate, size_t index);

/* Once done without error: a text in the words of a hypothesis; NULL if it stands for itself. */
const char *translate_text(const struct translate *translate, size_t index, size_t hypothesis);

/* Once an aligned request is done: where in a text and its best translation the sentences stand, or
 * the tokens; those without a text of their own may be left out. Lives with the translate. */
struct srv_alignments {
    const struct acre_alignment *items; /* [n] */
    size_t n;
};
struct srv_alignments translate_alignments(const struct translate *translate, size_t index);

/* Likewise of sentence i; false: there is none. */
bool translate_sentence(const struct translate *translate, size_t index, size_t i,
                        struct acre_alignment *sentence);

/* Of a streamed request: the next sentence, in order, of text *index. Its text is NULL where
 * translate_text() is to be given instead, in one piece: of a text without a sentence, and, when
 * all are done, of a document with translated attributes. The first call is the caller's to make.
 */
enum translate_next { TRANSLATE_FAILED = -1, TRANSLATE_SENTENCE, TRANSLATE_LATER, TRANSLATE_END };
struct srv_sentence;
enum translate_next translate_next(struct translate *translate, size_t *index,
                                   struct srv_sentence *sentence, struct srv_error *error);

/* Frees a translate; what is not done is cancelled, and `done` is not called any more. */
void translate_close(struct translate *translate);

#endif
