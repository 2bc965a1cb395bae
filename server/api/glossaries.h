/* glossaries.h - a call of DeepL's that makes, shows, changes or deletes a glossary.
 *
 * Its fields and entries are read, and long replies made, in a thread of the pool, one call's at a
 * time: the others are for those who translate. The change is made on the loop and replied to when
 * the store has it. A glossary that was changed meanwhile by
 * another call is changed from there. Whoever sends a key finds the glossaries of that key alone.
 */
#ifndef SERVER_API_GLOSSARIES_H
#define SERVER_API_GLOSSARIES_H

#include "api/glossary_draft.h"
#include "serve/server.h"

struct glossary_call;

/* What a call does, in this order. Members may be NULL. */
struct glossary_verb {
    bool needs_glossary; /* the path names one, which `base` is a copy of */
    int status;          /* of a reply to what changed something */
    /* Any thread: from the fields. */
    int (*read)(struct glossary_call *call, struct srv_error *error);
    /* Loop thread: *after is to take the place of `glossary`, which is NULL for a new one. */
    int (*change)(struct glossary_call *call, const struct glossary *glossary,
                  struct glossary **after, struct srv_error *error);
    /* Loop thread: of what changed; NULL: no body. */
    json_t *(*render)(const struct glossary_call *call, const struct glossary *glossary);
};

struct glossary_call {
    struct server *server;
    struct http_request *http; /* NULL: it is replied to */
    const struct glossary_verb *verb;
    int64_t owner;
    char id[GLOSSARY_ID_BYTES];
    struct glossary *base;  /* owned */
    struct glossary *after; /* borrowed, while it is written */
    struct fields fields;
    struct glossary_draft draft;
    struct glossary_part pair; /* without a dictionary */
    char *body;                /* owned: a reply that read() made, of `type` */
    size_t body_bytes;
    const char *type;
    uv_work_t work;
    struct glossary_call *next; /* in server->reading, the first of which is being read */
    bool is_reading;            /* a thread of the pool has it */
    bool is_writing;            /* the store has its change */
    bool is_given_up;
    enum http_give_up why;
    int rc;
    struct srv_error error;
};

/* `rest` is the path from the id on, or NULL. */
void glossary_call_start(struct server *server, struct http_request *request, const char *rest,
                         const struct glossary_verb *verb);

/* What is shown of a glossary; version 2 knows those of one dictionary. NULL: no memory. */
json_t *glossary_render_v2(const struct glossary *glossary);
json_t *glossary_render_v3(const struct glossary *glossary);
json_t *glossary_render_part(const struct glossary_part *part);

#endif
