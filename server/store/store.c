/* Happy path: store_queue() -> the thread takes all that wait -> run_batch(): one transaction, a
 * savepoint for each task -> on_done(), on the loop.
 *
 * Failure modes: a task that fails is undone alone. A disk that is full or fails ends the whole
 * transaction: all its tasks have failed then. Another process that holds the file is waited for
 * some seconds, then all that wait have failed. No task is tried again here. */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/log.h"
#include "common/path.h"
#include "common/thread.h"
#include "store/migrations.h"

enum { BUSY_MS = 5000 };

struct store {
    char *path; /* owned */
    sqlite3 *db;
    uv_loop_t *loop; /* NULL: no thread */
    uv_async_t done_async;
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    struct store_task *waiting, **waiting_end;
    struct store_task *done, **done_end;
    bool is_stopping;
};

/* ---- The thread ------------------------------------------------------------------------------ */

/* Those of a transaction that is gone, up to `end`, have changed nothing. */
static void fail(struct store_task *from, const struct store_task *end, const struct acre_err *err)
{
    for (; from != end; from = from->next) {
        if (from->rc == 0)
            from->err = *err;
        from->rc = from->err.code;
    }
}

static int run_one(sqlite3 *db, struct store_task *task)
{
    int rc = store_execute(db, "SAVEPOINT task", &task->err);

    if (rc != 0)
        return rc;
    rc = task->run(db, task);
    if (sqlite3_get_autocommit(db))
        return rc ? rc : error_set(&task->err, ACRE_EIO, "the transaction was ended");
    if (rc != 0)
        sqlite3_exec(db, "ROLLBACK TO task; RELEASE task", NULL, NULL, NULL);
    else
        rc = store_execute(db, "RELEASE task", &task->err);
    return rc;
}

/* A transaction that cannot begin, because somebody else holds the file, fails for all that wait:
 * so they wait for him once, not each in turn. */
static void run_batch(sqlite3 *db, struct store_task *first)
{
    struct store_task *begun = first; /* in the transaction that is open */
    struct acre_err err;

    for (struct store_task *task = first; task; task = task->next)
        task->rc = 0;
    for (struct store_task *task = first; task; task = task->next) {
        if (sqlite3_get_autocommit(db) && store_execute(db, "BEGIN IMMEDIATE", &err) != 0) {
            fail(task, NULL, &err);
            return;
        }
        task->rc = run_one(db, task);
        if (sqlite3_get_autocommit(db)) { /* SQLite gave it up */
            fail(begun, task, &task->err);
            begun = task->next;
        }
    }
    if (!sqlite3_get_autocommit(db) && store_execute(db, "COMMIT", &err) != 0)
        fail(begun, NULL, &err);
    if (!sqlite3_get_autocommit(db))
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
}

/* Lock held. */
static void append(struct store_task ***end, struct store_task *list)
{
    **end = list;
    while (**end)
        *end = &(**end)->next;
}

static void *run(void *user)
{
    struct store *store = user;
    struct store_task *batch;

    pthread_mutex_lock(&store->lock);
    while (store->waiting || !store->is_stopping) {
        if (!store->waiting) {
            pthread_cond_wait(&store->changed, &store->lock);
            continue;
        }
        batch = store->waiting;
        store->waiting = NULL;
        store->waiting_end = &store->waiting;
        pthread_mutex_unlock(&store->lock);
        run_batch(store->db, batch);
        pthread_mutex_lock(&store->lock);
        append(&store->done_end, batch);
        uv_async_send(&store->done_async);
    }
    pthread_mutex_unlock(&store->lock);
    return NULL;
}

/* ---- The loop -------------------------------------------------------------------------------- */

static void tell_done(struct store *store)
{
    struct store_task *task, *next;

    pthread_mutex_lock(&store->lock);
    task = store->done;
    store->done = NULL;
    store->done_end = &store->done;
    pthread_mutex_unlock(&store->lock);
    for (; task; task = next) {
        next = task->next;
        if (task->rc != 0)
            error_prefix(&task->err, "%s: ", store->path);
        task->done(task);
    }
}

static void on_done(uv_async_t *async)
{
    tell_done(async->data);
}

void store_queue(struct store *store, struct store_task *task)
{
    task->next = NULL;
    pthread_mutex_lock(&store->lock);
    append(&store->waiting_end, task);
    pthread_cond_signal(&store->changed);
    pthread_mutex_unlock(&store->lock);
}

int store_start(struct store *store, uv_loop_t *loop, struct acre_err *err)
{
    if (uv_async_init(loop, &store->done_async, on_done) != 0)
        return error_set(err, ACRE_ENOMEM, "%s: its thread cannot be started", store->path);
    store->done_async.data = store;
    store->loop = loop;
    if (thread_start(&store->thread, run, store) == 0)
        return 0;
    store->loop = NULL;
    uv_close((uv_handle_t *)&store->done_async, NULL);
    return error_set(err, ACRE_ENOMEM, "%s: its thread cannot be started", store->path);
}

void store_stop(struct store *store)
{
    if (!store || !store->loop)
        return;
    pthread_mutex_lock(&store->lock);
    store->is_stopping = true;
    pthread_cond_signal(&store->changed);
    pthread_mutex_unlock(&store->lock);
    pthread_join(store->thread, NULL);
    tell_done(store);
    store->loop = NULL;
    uv_close((uv_handle_t *)&store->done_async, NULL);
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Those who own a folder decide what is in it, so this gives them nothing. */
static void give_to_owner_of_folder(int fd, const char *path)
{
    char *folder = path_folder(path);
    struct stat owned;

    if (folder && stat(folder, &owned) == 0 && owned.st_uid != 0 &&
        fchown(fd, owned.st_uid, owned.st_gid) != 0)
        log_warning("%s: stays root's: %s", path, strerror(errno));
    free(folder);
}

/* SQLite would make it for everybody to read; its companions have the rights that it has. */
static int make_file(const char *path, struct acre_err *err)
{
    const int flags = O_CREAT | O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    int fd = open(path, flags | O_EXCL, 0600);

    if (fd >= 0 && geteuid() == 0)
        give_to_owner_of_folder(fd, path);
    if (fd < 0 && errno == EEXIST)
        fd = open(path, flags, 0600);
    if (fd < 0)
        return error_set(err, ACRE_EIO, "expected a file that can be written, found: %s",
                         strerror(errno));
    close(fd);
    return 0;
}

/* Two processes that turn a new file to WAL at once would wait for each other: SQLite gives up one,
 * which tries again. It waits for nobody here, or each try might take as long as all may. */
static int turn_to_wal(sqlite3 *db, struct acre_err *err)
{
    enum { PAUSE_MS = 5 };
    int rc;

    sqlite3_busy_timeout(db, 0);
    for (int waited_ms = 0;; waited_ms += PAUSE_MS) {
        rc = store_execute(db, "PRAGMA journal_mode = WAL", err);
        if (rc == 0 || sqlite3_errcode(db) != SQLITE_BUSY || waited_ms >= BUSY_MS)
            break;
        sqlite3_sleep(PAUSE_MS);
    }
    sqlite3_busy_timeout(db, BUSY_MS);
    return rc;
}

/* Committed is what a crash of the process leaves; the power may take the last moments. An image
 * has no folder for temporary files, which undoing a large change would want. */
static int configure(sqlite3 *db, struct acre_err *err)
{
    int rc = turn_to_wal(db, err);

    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    return rc ? rc
              : store_execute(db,
                              "PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON;"
                              "PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY",
                              err);
}

static int check_pages(sqlite3 *db, struct acre_err *err)
{
    sqlite3_stmt *statement;
    int rc = store_prepare(db, &statement, err, "PRAGMA quick_check(1)", "");

    if (rc == 0)
        rc = store_step(statement, err);
    if (rc == 1 && strcmp((const char *)sqlite3_column_text(statement, 0), "ok") == 0)
        rc = 0;
    else if (rc == 1)
        rc = error_set(err, ACRE_EIO, "expected a sound database, found: %.200s",
                       sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    return rc;
}

static int open_file(struct store *store, struct acre_err *err)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;

    if (make_file(store->path, err) != 0)
        return err->code;
    if (sqlite3_open_v2(store->path, &store->db, flags, NULL) != SQLITE_OK)
        return store->db ? store_refuse(store->db, err) : error_set_no_memory(err);
    sqlite3_busy_timeout(store->db, BUSY_MS);
    if (migrations_check(store->db, err) != 0 || configure(store->db, err) != 0 ||
        check_pages(store->db, err) != 0)
        return err->code;
    return migrations_run(store->db, err);
}

int store_open(const char *path, struct store **out, struct acre_err *err)
{
    struct store *store = calloc(1, sizeof(*store));

    if (!store)
        return error_set_no_memory(err);
    store->waiting_end = &store->waiting;
    store->done_end = &store->done;
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->changed, NULL);
    store->path = strdup(path);
    if (!store->path)
        error_set_no_memory(err);
    else if (open_file(store, err) == 0) {
        *out = store;
        return 0;
    }
    store_close(store);
    return error_prefix(err, "%s: ", path);
}

/* Writes nothing of its own. What a crash left SQLite brings into the file as it opens it; and a
 * process that may not write leaves the two files of a WAL behind. */
static int check_file(const char *path, struct acre_err *err)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    sqlite3 *db = NULL;
    int rc = sqlite3_open_v2(path, &db, flags, NULL);

    if (rc != SQLITE_OK) {
        rc = db ? store_refuse(db, err) : error_set_no_memory(err);
    } else {
        sqlite3_busy_timeout(db, BUSY_MS);
        rc = migrations_check(db, err) != 0 ? err->code : check_pages(db, err);
    }
    sqlite3_close(db);
    return rc;
}

int store_check(const char *path, struct acre_err *err)
{
    const int wrong = path_writable(path);

    if (wrong != 0)
        error_set(err, ACRE_EIO, "expected a file that can be written, found: %s", strerror(wrong));
    else if (access(path, F_OK) != 0 || check_file(path, err) == 0)
        return 0;
    return error_prefix(err, "%s: ", path);
}

sqlite3 *store_db(struct store *store)
{
    return store->db;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    sqlite3_close(store->db);
    free(store->path);
    free(store);
}
