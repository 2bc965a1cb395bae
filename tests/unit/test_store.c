/* The server's store: what opening refuses, what a task that fails leaves, who waits for whom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <sys/stat.h>

#include "../support/temp.h"
#include "../../server/store/store.h"

static char directory[sizeof(TEMP_TEMPLATE)], path[64];

static int setup(void **state)
{
    (void)state;
    temp_make(directory);
    snprintf(path, sizeof(path), "%s/s.db", directory);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    temp_remove(directory);
    return 0;
}

static void expect_refused(const char *message)
{
    struct store *store = NULL;
    struct acre_err err = {0};
    char expected[512];

    assert_true(store_open(path, &store, &err) < 0);
    assert_null(store);
    snprintf(expected, sizeof(expected), "%s: %s", path, message);
    assert_string_equal(err.text, expected);
}

static void execute_elsewhere(const char *sql)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void test_opening(void **state)
{
    struct store *store;
    struct acre_err err;
    struct stat found;

    (void)state;
    for (int i = 0; i < 2; i++) { /* new, then as it was left */
        assert_int_equal(store_open(path, &store, &err), 0);
        store_close(store);
    }
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0600);
}

static void test_other_files(void **state)
{
    (void)state;
    temp_write(directory, "s.db",
               "This is a text, and more than a hundred bytes of it, so that "
               "nobody takes it for the head of some database.",
               107);
    expect_refused("file is not a database");
    remove(path);
    execute_elsewhere("CREATE TABLE recipes (name)");
    expect_refused("expected a store of acre, found a database of another program");
    remove(path);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_refused("expected a file that can be written, found: Is a directory");
    rmdir(path);
    snprintf(path, sizeof(path), "%s/no/s.db", directory);
    expect_refused("expected a file that can be written, found: No such file or directory");
}

static void test_later_version(void **state)
{
    struct store *store;
    struct acre_err err;
    char expected[128];
    int version;

    (void)state;
    assert_int_equal(store_open(path, &store, &err), 0);
    sqlite3_stmt *statement;
    assert_int_equal(store_prepare(store_db(store), &statement, &err, "PRAGMA user_version", ""),
                     0);
    assert_int_equal(store_step(statement, &err), 1);
    version = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    store_close(store);
    execute_elsewhere("PRAGMA user_version = 1000");
    snprintf(expected, sizeof(expected),
             "expected a store of version %d at most, found version 1000: it belongs to a later "
             "acre",
             version);
    expect_refused(expected);
}

static void test_damaged(void **state)
{
    struct store *store;
    struct acre_err err;

    (void)state;
    assert_int_equal(store_open(path, &store, &err), 0);
    for (int i = 0; i < 2000; i++)
        assert_int_equal(store_do(store_db(store), &err, "INSERT INTO facts VALUES (?, ?)", "ii",
                                  (int64_t)i, (int64_t)i),
                         0);
    store_close(store);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    const long bytes = ftell(file);
    for (long at = 4096; at < bytes; at += 64) {
        fseek(file, at, SEEK_SET);
        fputs("damage", file);
    }
    fclose(file);
    assert_true(store_open(path, &store, &err) < 0);
    assert_memory_equal(err.text, path, strlen(path));
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

struct insert {
    struct store_task task;
    int64_t value;
    bool fails, is_done;
};

static int insert(sqlite3 *db, struct store_task *task)
{
    const struct insert *insert = (const struct insert *)(const void *)task;
    int rc = store_do(db, &task->err, "INSERT INTO facts VALUES (?, 0)", "i", insert->value);

    if (rc == 0 && insert->fails)
        rc = store_do(db, &task->err, "INSERT INTO nowhere VALUES (0)", "");
    return rc;
}

static int end_transaction(sqlite3 *db, struct store_task *task)
{
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL); /* as SQLite does when the disk is full */
    return store_do(db, &task->err, "INSERT INTO nowhere VALUES (0)", "");
}

static void on_done(struct store_task *task)
{
    ((struct insert *)(void *)task)->is_done = true;
}

static int64_t count(sqlite3 *db)
{
    sqlite3_stmt *statement;
    struct acre_err err;
    int64_t n;

    assert_int_equal(store_prepare(db, &statement, &err,
                                   "SELECT count(*) FROM facts WHERE typeof(name) = 'text' AND "
                                   "name GLOB '[0-9]*'",
                                   ""),
                     0);
    assert_int_equal(store_step(statement, &err), 1);
    n = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return n;
}

enum { N_TASKS = 50 };

static void run_tasks(struct insert tasks[N_TASKS])
{
    struct store *store;
    struct acre_err err;
    uv_loop_t loop;

    uv_loop_init(&loop);
    assert_int_equal(store_open(path, &store, &err), 0);
    assert_int_equal(store_start(store, &loop, &err), 0);
    for (int i = 0; i < N_TASKS; i++) {
        tasks[i].value = i;
        tasks[i].task.done = on_done;
        if (!tasks[i].task.run)
            tasks[i].task.run = insert;
        store_queue(store, &tasks[i].task);
    }
    store_stop(store);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    store_close(store);
    for (int i = 0; i < N_TASKS; i++)
        assert_true(tasks[i].is_done);
}

static int64_t count_kept(void)
{
    struct store *store;
    struct acre_err err;
    int64_t n;

    assert_int_equal(store_open(path, &store, &err), 0);
    n = count(store_db(store));
    store_close(store);
    return n;
}

static void test_tasks(void **state)
{
    struct insert tasks[N_TASKS] = {{.value = 0}};

    (void)state;
    tasks[7].fails = tasks[20].fails = true;
    run_tasks(tasks);
    for (int i = 0; i < N_TASKS; i++)
        assert_int_equal(tasks[i].task.rc, i == 7 || i == 20 ? ACRE_EIO : 0);
    assert_non_null(strstr(tasks[7].task.err.text, "/s.db: no such table: nowhere"));
    assert_int_equal(count_kept(), N_TASKS - 2);
}

/* Whatever is said to be there is there, and nothing else. */
static void test_lost_transaction(void **state)
{
    struct insert tasks[N_TASKS] = {{.value = 0}};
    int64_t n_good = 0;

    (void)state;
    tasks[30].task.run = end_transaction;
    run_tasks(tasks);
    assert_int_equal(tasks[30].task.rc, ACRE_EIO);
    for (int i = 0; i < N_TASKS; i++)
        n_good += tasks[i].task.rc == 0;
    assert_true(n_good >= N_TASKS - 31);
    assert_int_equal(count_kept(), n_good);
}

/* Somebody else has the file for a while; nobody on the loop waits for that. */
static void test_file_held(void **state)
{
    struct insert held = {.task = {.run = insert, .done = on_done}};
    struct store *store;
    struct acre_err err;
    uv_loop_t loop;
    sqlite3 *other;

    (void)state;
    uv_loop_init(&loop);
    assert_int_equal(store_open(path, &store, &err), 0);
    assert_int_equal(store_start(store, &loop, &err), 0);
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    store_queue(store, &held.task);
    usleep(100000);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_false(held.is_done);
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    while (!held.is_done)
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(held.task.rc, 0);
    store_stop(store);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_opening, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_later_version, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tasks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_transaction, setup, teardown),
        cmocka_unit_test_setup_teardown(test_file_held, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
