/* files.h - files that were translated and are waiting for their clients, in memory only.
 *
 * A file has a random id and a random key; without both nobody finds it. There are at most
 * `max_files`, of at most `max_files_bytes`, each for at most `file_lifetime_s`; for a new one the
 * oldest that is done leaves, of its client's own first, then, if he has less than half, of
 * anybody's. Those that are still being translated leave for nobody, and a client with half of the
 * room in such gets no more of it; each owns the call that does it, and ends it with itself. Loop
 * thread.
 */
#ifndef SERVER_API_FILES_H
#define SERVER_API_FILES_H

#include "api/call.h"
#include "api/upload.h"

enum { FILE_ID_CHARS = 32, FILE_KEY_CHARS = 64 };

enum file_state { FILE_TRANSLATING, FILE_DONE, FILE_FAILED };

struct blob;

struct file {
    char id[FILE_ID_CHARS + 1], key[FILE_KEY_CHARS + 1]; /* hexadecimal, upper case */
    char name[UPLOAD_NAME_BYTES];                        /* of the translation */
    enum file_state state;
    struct blob *result; /* owned, once done */
    char error[512];     /* once failed */
    size_t n_chars;      /* of the text that came */
    size_t bytes;        /* that are counted */
    uint64_t end_ms;
    uint64_t caller;   /* who brought it */
    struct call *call; /* owned, until done */
    struct file *older, *newer, *next_in_bucket;
};

/* Makes server->files. */
int files_open(struct server *server, struct acre_err *err);

/* Ends what is being translated; run the loop afterwards, which frees what is left. */
void files_close(struct server *server);

/* Whether files are translated at all, and so many bytes that are yet to be translated find room,
 * which is made. */
bool files_are_on(const struct server *server);
int files_make_room(struct server *server, uint64_t caller, size_t bytes, struct srv_error *error);

/* A new one for what `call` translates, which holds so many bytes until it is finished; who sets
 * file->call gives it the call. */
int files_add(const struct call *call, size_t bytes, struct file **file, struct srv_error *error);

/* Only who has both finds it; NULL. The ends of the two are where their lengths say. */
struct file *files_find(const struct server *server, const char *id, size_t id_bytes,
                        const char *key, size_t key_bytes);

/* It is translated, and takes call->result; or failed. The call is its owner's again. */
int files_finish(struct server *server, struct file *file, struct call *call,
                 struct srv_error *error);
void files_fail(struct server *server, struct file *file, const struct srv_error *error);

void files_remove(struct server *server, struct file *file);

/* For metrics. */
struct files_count {
    size_t n, bytes;
    uint64_t n_ever, n_evicted;
};
struct files_count files_count(const struct server *server);

#endif
