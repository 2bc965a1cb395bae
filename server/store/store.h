/* store.h - what a server keeps beyond its end: one SQLite file, and one thread that works on it.
 *
 * The loop queues tasks; the thread does all that wait in one transaction, in their order, and the
 * loop hears of each when it is committed. So nobody on the loop waits for a disk. Several
 * processes may have the file open (`acre keys` while servers run): a task has it for itself while
 * it runs. What it looks like is in migrations.c.
 */
#ifndef SERVER_STORE_STORE_H
#define SERVER_STORE_STORE_H

#include <sqlite3.h>
#include <uv.h>

#include "acre.h"

struct store;
struct store_task;

/* Opens the file, which is made if there is none, for its owner alone, and brings it to this
 * version. Root makes it for whom its folder belongs to: a server that is not root is to open it.
 * Errors name the file: another version's, damaged, no store. Waits for the disk. */
int store_open(const char *path, struct store **store, struct acre_err *err);

/* Whether store_open() would do it. Makes and changes no file. Waits for the disk. */
int store_check(const char *path, struct acre_err *err);

/* For use without a loop, or before it runs: until store_start(). */
sqlite3 *store_db(struct store *store);

/* From now on only tasks have the file. */
int store_start(struct store *store, uv_loop_t *loop, struct acre_err *err);

/* Store's thread, in a transaction. Fills task->err and returns its code where it fails: then what
 * it did is undone, of this task alone. */
typedef int store_run_fn(sqlite3 *db, struct store_task *task);

/* Loop thread: it is committed if task->rc is 0; else task->err says why nothing has changed. The
 * task is its owner's again. */
typedef void store_done_fn(struct store_task *task);

/* Part of whatever wants something of the store; its owner sets run and done. */
struct store_task {
    store_run_fn *run;
    store_done_fn *done;
    int rc;
    struct acre_err err;
    struct store_task *next; /* in the store's lists */
};

/* Loop thread. How many may wait is for the callers to bound. */
void store_queue(struct store *store, struct store_task *task);

/* Waits until all that is queued is done, and says so. Then run the loop once, then store_close().
 * Loop thread. */
void store_stop(struct store *store);
void store_close(struct store *store); /* NULL is allowed */

/* ---- For tasks, and for users of store_db() -------------------------------------------------- */

/* Fills `err` with SQLite's last message and returns ACRE_EIO; the caller adds the file's name. */
int store_refuse(sqlite3 *db, struct acre_err *err);

/* One or several statements without parameters or rows. */
int store_execute(sqlite3 *db, const char *sql, struct acre_err *err);

/* A statement with its parameters bound in order, as `types` says: 'i' int64_t; 's' const char *,
 * NULL is null; 'b' const void * and size_t. Texts and bytes are borrowed until it is finalized. */
int store_prepare(sqlite3 *db, sqlite3_stmt **statement, struct acre_err *err, const char *sql,
                  const char *types, ...);

/* 1: there is a row, 0: there is no more, else an error. */
int store_step(sqlite3_stmt *statement, struct acre_err *err);

/* Prepares, runs to its end, and finalizes. */
int store_do(sqlite3 *db, struct acre_err *err, const char *sql, const char *types, ...);

#endif
