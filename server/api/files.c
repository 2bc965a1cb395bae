/* Happy path: files_add() -> files_finish() -> files_find() by the client that has id and key ->
 * files_remove(), or on_tick() when its time is over. Failure modes: its client has half of the
 * room, or all others have it, for files that are still being translated: refused. */
#include "api/files.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "api/blob.h"
#include "common/unicode.h"

enum { BUCKETS = 4096, TICK_MS = 1000 };

struct files {
    uv_timer_t timer;
    bool has_timer;
    struct file *oldest, *newest;
    struct file *buckets[BUCKETS]; /* by id */
    struct files_count count;
};

/* ---- The store ------------------------------------------------------------------------------- */

int files_open(struct server *server, struct acre_err *err)
{
    server->files = calloc(1, sizeof(*server->files));
    return server->files ? 0 : error_set_no_memory(err);
}

static void free_files(uv_handle_t *timer)
{
    free(timer->data);
}

void files_close(struct server *server)
{
    struct files *files = server->files;

    if (!files)
        return;
    while (files->oldest)
        files_remove(server, files->oldest);
    server->files = NULL;
    if (!files->has_timer) {
        free(files);
        return;
    }
    files->timer.data = files;
    uv_close((uv_handle_t *)&files->timer, free_files);
}

struct files_count files_count(const struct server *server)
{
    return server->files->count;
}

static struct file **bucket_of(struct files *files, const char *id)
{
    const char first[] = {id[0], id[1], id[2], '\0'};

    return &files->buckets[strtoul(first, NULL, 16) % BUCKETS];
}

static void link_file(struct files *files, struct file *file)
{
    struct file **bucket = bucket_of(files, file->id);

    file->next_in_bucket = *bucket;
    *bucket = file;
    file->older = files->newest;
    *(files->newest ? &files->newest->newer : &files->oldest) = file;
    files->newest = file;
    files->count.n++;
    files->count.n_ever++;
    files->count.bytes += file->bytes;
}

void files_remove(struct server *server, struct file *file)
{
    struct files *files = server->files;
    struct file **link = bucket_of(files, file->id);

    while (*link != file)
        link = &(*link)->next_in_bucket;
    *link = file->next_in_bucket;
    *(file->older ? &file->older->newer : &files->oldest) = file->newer;
    *(file->newer ? &file->newer->older : &files->newest) = file->older;
    files->count.n--;
    files->count.bytes -= file->bytes;
    if (file->call)
        call_end(file->call);
    blob_close(file->result);
    free(file);
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

bool files_are_on(const struct server *server)
{
    return server->settings->max_files > 0;
}

static bool is_full(const struct server *server, size_t n_files, size_t bytes)
{
    const struct files_count *count = &server->files->count;

    return count->n + n_files > (size_t)server->settings->max_files ||
           count->bytes + bytes > (size_t)server->settings->max_files_bytes;
}

/* The oldest that is not being translated; of one caller, or, NULL, of all. */
static struct file *find_oldest(const struct files *files, const uint64_t *caller)
{
    struct file *file = files->oldest;

    while (file && (file->state == FILE_TRANSLATING || (caller && file->caller != *caller)))
        file = file->newer;
    return file;
}

/* Besides one; with all his files, or with those that cannot leave. */
static bool has_half(const struct server *server, uint64_t caller, const struct file *besides,
                     bool with_all)
{
    size_t n = 0, bytes = 0;

    for (const struct file *file = server->files->oldest; file; file = file->newer)
        if (file->caller == caller && (with_all || file->state == FILE_TRANSLATING)) {
            n += file != besides;
            bytes += file != besides ? file->bytes : 0;
        }
    return 2 * n >= (size_t)server->settings->max_files ||
           2 * bytes >= (size_t)server->settings->max_files_bytes;
}

/* The one to leave for more of a caller: his own, and if he has less than half, anybody's. */
static struct file *find_leaving(const struct server *server, uint64_t caller,
                                 const struct file *growing)
{
    struct file *own = find_oldest(server->files, &caller);

    if (own || has_half(server, caller, growing, true))
        return own;
    return find_oldest(server->files, NULL);
}

static int refuse_full(struct srv_error *error)
{
    error_http(error, 503, "files_full",
               "Too many files are being translated or waiting for their clients");
    error->retry_after_s = 5;
    return -1;
}

/* For a new file, or, if one grows, for that. */
static int make_room(struct server *server, uint64_t caller, const struct file *growing,
                     size_t bytes, struct srv_error *error)
{
    const int64_t most = server->settings->max_files_bytes;

    if (bytes > (size_t)most)
        return error_http(error, 413, "file_too_large",
                          "expected a file and a translation of at most %lld bytes, found %zu",
                          (long long)most, bytes);
    while (is_full(server, growing ? 0 : 1, bytes)) {
        struct file *file = find_leaving(server, caller, growing);

        if (!file)
            return refuse_full(error);
        files_remove(server, file);
        server->files->count.n_evicted++;
    }
    return 0;
}

int files_make_room(struct server *server, uint64_t caller, size_t bytes, struct srv_error *error)
{
    if (has_half(server, caller, NULL, false))
        return refuse_full(error);
    return make_room(server, caller, NULL, bytes, error);
}

/* All live equally long, but for a reload; so it is the first that ends. */
static void on_tick(uv_timer_t *timer)
{
    struct server *server = timer->data;
    const uint64_t now_ms = uv_now(server->loop);

    while (server->files->oldest && server->files->oldest->end_ms <= now_ms)
        files_remove(server, server->files->oldest);
    if (!server->files->oldest)
        uv_timer_stop(timer);
}

static void start_timer(struct server *server)
{
    struct files *files = server->files;

    if (!files->has_timer)
        uv_timer_init(server->loop, &files->timer);
    files->has_timer = true;
    files->timer.data = server;
    if (!uv_is_active((uv_handle_t *)&files->timer))
        uv_timer_start(&files->timer, on_tick, TICK_MS, TICK_MS);
}

/* ---- A file ---------------------------------------------------------------------------------- */

static int make_names(struct file *file)
{
    unsigned char random[(FILE_ID_CHARS + FILE_KEY_CHARS) / 2];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return -1;
    for (size_t i = 0; i < FILE_ID_CHARS / 2; i++)
        snprintf(file->id + 2 * i, 3, "%02X", random[i]);
    for (size_t i = 0; i < FILE_KEY_CHARS / 2; i++)
        snprintf(file->key + 2 * i, 3, "%02X", random[FILE_ID_CHARS / 2 + i]);
    return 0;
}

int files_add(const struct call *call, size_t bytes, struct file **out, struct srv_error *error)
{
    struct server *server = call->pending.server;
    const struct upload *upload = call->upload;
    const uint64_t caller = call->request.caller;
    struct file *file;

    if (make_room(server, caller, NULL, bytes, error) != 0)
        return -1;
    file = calloc(1, sizeof(*file));
    if (!file || make_names(file) != 0) {
        free(file);
        return error_from_engine(error, ACRE_ENOMEM, NULL);
    }
    upload_result_name(upload, call->request.target, file->name);
    file->caller = caller;
    file->n_chars = upload->n_chars;
    file->bytes = bytes;
    file->end_ms =
        uv_now(server->loop) + (uint64_t)server->settings->file_lifetime_s * UINT64_C(1000);
    link_file(server->files, file);
    start_timer(server);
    *out = file;
    return 0;
}

static bool is_same(const char *a, const char *b, size_t bytes, size_t b_bytes)
{
    return bytes == b_bytes && CRYPTO_memcmp(a, b, bytes) == 0;
}

struct file *files_find(const struct server *server, const char *id, size_t id_bytes,
                        const char *key, size_t key_bytes)
{
    struct file *file;

    if (id_bytes != FILE_ID_CHARS)
        return NULL;
    file = *bucket_of(server->files, id);
    while (file && !(is_same(file->id, id, FILE_ID_CHARS, id_bytes) &&
                     is_same(file->key, key, FILE_KEY_CHARS, key_bytes)))
        file = file->next_in_bucket;
    return file;
}

/* ---- Its end --------------------------------------------------------------------------------- */

static void count_anew(struct files *files, struct file *file, size_t bytes)
{
    files->count.bytes += bytes - file->bytes;
    file->bytes = bytes;
}

int files_finish(struct server *server, struct file *file, struct call *call,
                 struct srv_error *error)
{
    const size_t bytes = blob_bytes(call->result);

    if (bytes > file->bytes &&
        make_room(server, file->caller, file, bytes - file->bytes, error) != 0)
        return -1;
    file->result = call->result;
    call->result = NULL;
    count_anew(server->files, file, bytes);
    file->state = FILE_DONE;
    file->call = NULL;
    return 0;
}

void files_fail(struct server *server, struct file *file, const struct srv_error *error)
{
    count_anew(server->files, file, 0);
    snprintf(file->error, sizeof(file->error), "%s", error->text);
    unicode_scrub(file->error);
    file->state = FILE_FAILED;
    file->call = NULL;
}
