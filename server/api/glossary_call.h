/* glossary_call.h - a call of DeepL's that makes, shows, changes or deletes a glossary.
 *
 * Its fields are read in a thread of the pool, as all long bodies are, two at a time; then entries
 * are read, or a long reply made, one call's at a time; of callers in turn. The change is made on
 * the loop and replied to when the store has it. A glossary that was changed meanwhile by another
 * call is changed from there. A request finds the glossaries of its own key alone.
 */
#ifndef SERVER_API_GLOSSARY_CALL_H
#define SERVER_API_GLOSSARY_CALL_H

#include "api/access.h"
#include "api/glossary_draft.h"
#include "api/pending.h"

struct glossary_call;

/* What a call does, in this order. Members may be NULL. */
struct glossary_verb {
    bool needs_glossary; /* the path names one, which is `base` */
    bool needs_list;     /* all of the owner's, which are `listed` */
    int status;          /* of a reply to what changed something */
    /* Loop thread: what read() takes besides reading the fields, as so many bytes of them. */
    size_t (*cost)(const struct glossary_call *call);
    /* Any thread: from the fields and what there is; a draft, or the reply of what changes none. */
    int (*read)(struct glossary_call *call, struct srv_error *error);
    /* Loop thread: *after is to take the place of `glossary`, which is NULL for a new one. */
    int (*change)(struct glossary_call *call, const struct glossary *glossary,
                  struct glossary **after, struct srv_error *error);
    /* Loop thread: of what changed; NULL: no body. */
    json_t *(*render)(const struct glossary_call *call, const struct glossary *glossary);
};

struct glossary_call {
    struct pending pending; /* its turns: of those that read bodies, then of those that read() */
    const struct glossary_verb *verb;
    int64_t owner;
    char id[GLOSSARY_ID_BYTES];
    struct glossary *base;    /* held, while it is worked on */
    struct glossary **listed; /* owned, and each of them held, likewise */
    size_t n_listed;
    struct glossary *after; /* borrowed, while it is written */
    struct fields fields;
    struct glossary_draft draft;
    struct glossary_part pair; /* without a dictionary */
    char *body;                /* owned: a reply that read() made, of `type` */
    size_t body_bytes;
    const char *type;
    bool is_writing; /* the store has its change */
};

/* `rest` is the path from the id on, or NULL. */
void glossary_call_start(struct server *server, struct http_request *request, const char *rest,
                         const struct glossary_verb *verb);

#endif
