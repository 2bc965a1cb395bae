/* glossaries.h - the glossaries of a server: names for dictionaries of several pairs of languages.
 *
 * A glossary is never changed: another one takes its place, in memory at once and then in the
 * store, if there is one; where the store fails, that is undone. All of this belongs to the loop
 * thread: a glossary that was found there lives until the handler returns. One that is held, or
 * whose dictionaries are, lives longer and may be read in any thread. Of servers that share a store
 * none puts another one in the place of what it has not seen. Each glossary belongs to the key that
 * made it (0: to nobody), and only that one finds it. Bounded: glossaries of a key, memory of all
 * together and, where there are keys, of each; and changes that the store has not written.
 */
#ifndef SERVER_SERVE_GLOSSARIES_H
#define SERVER_SERVE_GLOSSARIES_H

#include "common/error.h"
#include "content/dictionary.h"
#include "serve/settings.h"
#include "store/store.h"

enum {
    GLOSSARY_ID_BYTES = 37,     /* a UUID, and the terminator */
    GLOSSARY_CODE_BYTES = 12,   /* of a language */
    GLOSSARY_NAME_BYTES = 1024, /* as DeepL has it */
    GLOSSARY_MAX_PARTS = 64,    /* dictionaries */
    GLOSSARY_NOBODY = 0         /* owner of those that are made without a key */
};

struct glossary_part {
    char source[GLOSSARY_CODE_BYTES], target[GLOSSARY_CODE_BYTES]; /* "en", without a region */
    struct dictionary *dictionary;                                 /* held */
};

struct glossary {
    char id[GLOSSARY_ID_BYTES];
    int64_t owner;
    int64_t created_ms;          /* since 1970 */
    int64_t number;              /* in the store, whose thread's it is while that is changing */
    char *name;                  /* owned */
    struct glossary_part *parts; /* owned; no pair twice */
    size_t n_parts;
    size_t n_references;
};

struct keyring;

/* What is known of the store: its count of changes, and the largest number of a glossary. */
struct glossaries_seen {
    int64_t version, newest;
};

struct glossaries {
    const struct settings *settings; /* borrowed, as are the others, which may be NULL */
    struct store *store;
    const struct keyring *keyring; /* owners besides nobody */
    struct glossary **items;       /* owned, in the order they came */
    size_t n_items, capacity;
    size_t bytes;                  /* of their dictionaries */
    struct glossary_change *first; /* that the store has not written yet */
    size_t n_changes;
    struct glossaries_seen seen;
    struct follower *follower; /* owned; NULL: no other server can change them */
};

/* Reads what the store has, and before the loop runs. */
int glossaries_open(struct glossaries *glossaries, const struct settings *settings,
                    struct store *store, const struct keyring *keyring, struct acre_err *err);
void glossaries_close(struct glossaries *glossaries);

/* Whose the glossaries are that a key makes; NULL: there is none. */
struct key;
int64_t glossary_owner(const struct key *key);

/* NULL if the owner has none of that id. */
struct glossary *glossaries_find(const struct glossaries *glossaries, const char *id,
                                 int64_t owner);

/* All of an owner, each of them held, in an array; false: no memory. */
bool glossaries_list(const struct glossaries *glossaries, int64_t owner, struct glossary ***list,
                     size_t *n);
void glossaries_drop_list(struct glossary **list, size_t n);

/* The dictionary of a pair, whose codes may have a region; or NULL. */
struct glossary_part *glossary_find_part(const struct glossary *glossary, const char *source,
                                         const char *target);

/* A glossary with another name (NULL: the same), and with `part` (NULL: none) in the place of that
 * of its pair, or behind all. NULL: no memory. The caller owns it until glossaries_change(). */
struct glossary *glossary_with(const struct glossary *glossary, const char *name,
                               const struct glossary_part *part);
struct glossary *glossary_without(const struct glossary *glossary,
                                  const struct glossary_part *part);

/* A new one without dictionaries; NULL: no memory. */
struct glossary *glossary_new(const char *name, int64_t owner);
bool glossary_add(struct glossary *glossary, const struct glossary_part *part);

/* References are counted on the loop: a new one has one, and the last to be dropped frees it. NULL
 * may be dropped. */
void glossary_hold(struct glossary *glossary);
void glossary_drop(struct glossary *glossary);

/* Puts `after` in the place of `before`: a new one where that is NULL, none where `after` is. Takes
 * `after`, and `before` out of the list. `done` is called once it is kept, maybe before this
 * returns, with what went wrong or NULL; refused at once, with `after` freed, where there is no
 * room. `is_outdated`: another server was first, and the list has now what that one made of it, so
 * that the change can be made again from there. */
typedef void glossaries_done_fn(void *user, bool is_outdated, const struct srv_error *error);
int glossaries_change(struct glossaries *glossaries, struct glossary *before,
                      struct glossary *after, glossaries_done_fn *done, void *user,
                      struct srv_error *error);

/* Whether the store has a change of it still to write. */
bool glossaries_are_changing(const struct glossaries *glossaries, const char *id);

/* Puts `after` in the place of `before`, as above, in memory alone; false: no memory. */
bool glossaries_swap(struct glossaries *glossaries, const struct glossary *before,
                     struct glossary *after);
bool glossaries_append(struct glossaries *glossaries, struct glossary *glossary);

/* glossaries_follow.c: what other servers change in the store is seen, from start to stop. Stop
 * before store_stop(); without a store both do nothing. */
int glossaries_start(struct glossaries *glossaries, uv_loop_t *loop, struct acre_err *err);
void glossaries_stop(struct glossaries *glossaries);
void follower_free(struct follower *follower); /* NULL is allowed */

/* glossaries_store.c, of which all but the first is for the store's thread, too. */
int glossaries_load(struct glossaries *glossaries, sqlite3 *db, struct acre_err *err);
/* Fails and *is_outdated: `before` is not there any more. */
int glossaries_write(sqlite3 *db, const struct glossary *before, struct glossary *after,
                     struct glossaries_seen *seen, bool *is_outdated, struct acre_err *err);
int glossaries_read_version(sqlite3 *db, int64_t *version, struct acre_err *err);

/* The numbers of all, in order; *numbers is reallocated. */
int glossaries_read_numbers(sqlite3 *db, int64_t **numbers, size_t *n, struct acre_err *err);

/* Those with a number after that one, in order. `visit` takes each; not 0 ends it: below 0 an
 * error, else it has enough. */
typedef int glossaries_visit_fn(void *user, struct glossary *glossary, struct acre_err *err);
int glossaries_read(sqlite3 *db, int64_t after, glossaries_visit_fn *visit, void *user,
                    struct acre_err *err);

/* *glossary is the caller's; NULL: there is none of that id. */
int glossaries_read_one(sqlite3 *db, const char *id, struct glossary **glossary,
                        struct acre_err *err);

#endif
