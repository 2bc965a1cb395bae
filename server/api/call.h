/* call.h - the life of a translation call, the same in every dialect; and what a dialect is.
 *
 * call_start() awaits the request, reads its fields (a large body in a thread of the pool), lets
 * the dialect parse them into one struct srv_translate, chooses the model, starts the translation,
 * and replies with what the dialect writes (a long reply in such a thread, too), or with an error
 * in its words. A dialect is a table of what is its own; nothing outside of its file knows its
 * words. Loop thread; only reading and writing may be a pool thread's.
 */
#ifndef SERVER_API_CALL_H
#define SERVER_API_CALL_H

#include "api/access.h"
#include "api/detect.h"
#include "api/fields.h"
#include "api/pending.h"
#include "api/stream.h"

struct dialect;
struct blob;
struct file;
struct upload;

enum { CALL_MAX_GLOSSARIES = 5 }; /* as DeepL has it */

struct call {
    struct pending pending; /* its client may have its reply before it ends: see accept() */
    const struct dialect *dialect;
    const char *name;             /* of the model, in the path; or NULL. Lives with the request */
    struct fields fields;         /* owns the strings of `request` */
    struct srv_translate request; /* `texts` owned */
    struct translate *translate;  /* owned, once started */
    int64_t n_characters;         /* of its texts */

    size_t max_texts; /* as it was when it came */

    struct upload *upload; /* owned; NULL: it brings no file */
    struct blob *result;   /* owned: the file translated, once it is */
    struct file *file;     /* that owns the call, once its client has its reply */

    /* What a dialect's parse() leaves for its write(). */
    bool is_array;                 /* the texts came as one, so the reply has arrays */
    const char *texts_field;       /* where they came */
    bool is_detected;              /* request.source is "auto", and this is what was found: */
    struct found *found;           /* owned, [request.n_texts] */
    struct srv_text *ignored;      /* owned: request.ignored */
    char target[24];               /* request.target may stand here */
    struct dictionary *dictionary; /* owned: what the request itself brings */
    const char *glossary_ids[CALL_MAX_GLOSSARIES];
    size_t n_glossary_ids;
    struct {
        bool wants_scores, wants_alignments, wants_sentences;
        int n_alternatives;
    } libre;
    struct {
        bool shows_characters;
        const char *model_type, *tag_version;
    } deepl;

    struct stream stream; /* of a streamed reply */

    bool is_long; /* its body, which is read in the pool and freed there */
    bool is_held; /* what its jobs hold is counted */
    uv_work_t work;
    void (*in_pool)(void *call);    /* what a thread of the pool does, */
    void (*after_pool)(void *call); /* and then the loop */
    bool has_slot;                  /* in server->heavy_callers */
    bool is_ended;                  /* while it works: it is nobody's any more */
    char *body;                     /* owned: the reply; NULL: pending.error says why */
    size_t body_bytes;
};

/* What a dialect does not have is NULL. Each has `phrase`, and one of the ways to reply. */
struct dialect {
    /* Its fields: the names of all, NULL at the end; and of these, where an API key may stand; what
     * a form has more than once, or as a file, which is call->upload. */
    const char *const *fields;
    const char *key_field;
    struct form_shape form;

    /* Reading them. prepare() is for what takes long, in the thread that read them; parse() then
     * fills call->request, on the loop. */
    int (*prepare)(struct call *call, struct srv_error *error);
    int (*parse)(struct call *call, struct srv_error *error);

    /* Replying without a translation. keep() comes first, in the pool: what waits for a disk. The
     * reply is answer()'s; NULL is an error. */
    int (*keep)(struct call *call, struct srv_error *error);
    json_t *(*answer)(struct call *call, struct srv_error *error);

    /* Replying in JSON, in any thread: render() or, where that would be large as a tree, write().
     * NULL or false: no memory, unless `err` says what else. `is_heavy` ones take long: in the
     * pool, one call after the other. count() is on the loop, once the reply is written. */
    json_t *(*render)(const struct call *call);
    bool (*write)(const struct call *call, FILE *out, struct acre_err *err);
    bool is_heavy;
    void (*count)(const struct call *call);

    /* Replying in a stream, on the loop: one sentence of text `index`. */
    bool (*write_sentence)(const struct call *call, size_t index,
                           const struct srv_sentence *sentence, FILE *out);

    /* Replying in another form than JSON, on the loop; refuse() for errors. */
    void (*reply)(struct call *call);
    void (*refuse)(const struct call *call, const struct srv_error *error);

    /* Replying before the translation of a file is there. accept() does, when all is queued, and
     * sets call->file, which takes the call; finish() has call->result, or what was wrong. */
    int (*accept)(struct call *call, struct srv_error *error);
    void (*finish)(struct call *call, const struct srv_error *error);

    /* Puts an error into the dialect's own words; most are "field: expected this, found that". */
    void (*phrase)(const struct call *call, struct srv_error *error);
};

/* Replies, now or later. `name` is the model's, or NULL. */
void call_start(struct server *server, struct http_request *request, const char *name,
                const struct dialect *dialect);

/* One of the slots for calls whose replies are heavy, until the call ends. False: all are taken,
 * or its caller has half of them, so that nobody takes those of all others. */
bool call_take_slot(struct call *call);

/* Ends a call whose client has its reply, whatever it is doing. */
void call_end(struct call *call);

#endif
