/* How much memory there is still: of made-up machines and groups, and of this one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/temp.h"
#include "base/room.h"

struct file {
    const char *path, *text;
};

struct tree {
    const char *what;
    size_t room;
    struct file files[8];
};

#define SELF "/proc/self/cgroup"
#define GROUPS "/sys/fs/cgroup"
#define MACHINE                                                                                    \
    {                                                                                              \
        "/proc/meminfo", "MemTotal: 8000 kB\nMemFree: 5 kB\nMemAvailable: 4000 kB\n"               \
                         "HugePages_Total: 0\nSwapFree: 96 kB\n"                                   \
    }

static const struct tree trees[] = {
    {"nothing", SIZE_MAX, {{"/proc/none", ""}}},
    {"a machine", 4096 * 1024, {MACHINE}},
    {"no limit",
     4096 * 1024,
     {MACHINE,
      {SELF, "0::/\n"},
      {GROUPS "/memory.max", "max\n"},
      {GROUPS "/memory.current", "999999999\n"}}},
    {"a service's, with files in memory",
     1500,
     {MACHINE,
      {SELF, "0::/system.slice/acre.service\n"},
      {GROUPS "/system.slice/acre.service/memory.max", "10000\n"},
      {GROUPS "/system.slice/acre.service/memory.current", "9000\n"},
      {GROUPS "/system.slice/acre.service/memory.stat",
       "anon 8500\nfile 500\ninactive_file 200\nactive_file 300\n"}}},
    {"the one around a service's, which has less",
     10,
     {MACHINE,
      {SELF, "0::/a/b\n"},
      {GROUPS "/a/b/memory.max", "10000\n"},
      {GROUPS "/a/b/memory.current", "0\n"},
      {GROUPS "/a/memory.max", "500\n"},
      {GROUPS "/a/memory.current", "490\n"}}},
    {"more than the limit",
     0,
     {MACHINE,
      {SELF, "0::/\n"},
      {GROUPS "/memory.max", "100\n"},
      {GROUPS "/memory.current", "200\n"}}},
    {"version 1",
     3000,
     {MACHINE,
      {SELF, "5:memory:/docker/1\n4:cpuset:/docker/1\n"},
      {GROUPS "/memory/docker/1/memory.limit_in_bytes", "5000\n"},
      {GROUPS "/memory/docker/1/memory.usage_in_bytes", "4000\n"},
      {GROUPS "/memory/docker/1/memory.stat",
       "active_file 7\ntotal_active_file 1500\ntotal_inactive_file 500\n"}}},
    {"numbers that are none",
     4096 * 1024,
     {MACHINE,
      {SELF, "garbage\n::\n0::\n"},
      {GROUPS "/memory.max", "many\n"},
      {GROUPS "/memory.stat", "active_file many\n"}}},
};

static void test_trees(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(trees) / sizeof(trees[0]); i++) {
        char root[sizeof(TEMP_TEMPLATE)], command[64];
        temp_make(root);
        for (const struct file *file = trees[i].files; file->path; file++)
            temp_write_below(root, file->path, file->text);
        if (room_bytes(root) != trees[i].room)
            fail_msg("%s: expected %zu, found %zu", trees[i].what, trees[i].room, room_bytes(root));
        snprintf(command, sizeof(command), "rm -r %s", root);
        assert_int_equal(system(command), 0);
    }
}

static void test_this_machine(void **state)
{
    (void)state;
    struct acre_err err;
    assert_int_equal(room_take("none", 0, &err), 0);
    assert_int_equal(room_take("small", 2 << 20, &err), 0);
    room_filled(2 << 20);
    assert_int_equal(room_take("a block", (size_t)1 << 60, &err), ACRE_ENOMEM);
    assert_non_null(strstr(err.text, "a block: expected 1099511627808 MiB of free memory, found "));
}

/* Two blocks that fit alone but not together: the second waits until the first is filled, though
 * not a page of it is taken by then. */
static void test_promises(void **state)
{
    (void)state;
    size_t most = room_bytes("") / 8 * 5;
    assert_int_equal(room_take("first", most, NULL), 0);
    assert_int_equal(room_take("second", most, NULL), ACRE_ENOMEM);
    assert_int_equal(room_take("small", 1000, NULL), 0);
    room_filled(1000);
    room_filled(most);
    assert_int_equal(room_take("second", most, NULL), 0);
    room_filled(most);
    assert_int_equal(room_take("all", SIZE_MAX, NULL), ACRE_ENOMEM);
}

static atomic_bool is_over;

static void *ask_on(void *user)
{
    while (!atomic_load(&is_over))
        if (room_take("a block", 2 << 20, NULL) == 0)
            room_filled(2 << 20);
    return user;
}

/* Whatever the parent's other threads are at: the child asks too, and owes nobody what they do. */
static void test_forks(void **state)
{
    (void)state;
    pthread_t thread;
    size_t most = room_bytes("") / 8 * 5;
    assert_int_equal(room_take("a block", most, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, ask_on, NULL), 0);
    for (int i = 0; i < 20; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            alarm(20); /* ends it where it hangs */
            _exit(room_take("the same", most, NULL) == 0 ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    atomic_store(&is_over, true);
    pthread_join(thread, NULL);
    room_filled(most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trees),
        cmocka_unit_test(test_this_machine),
        cmocka_unit_test(test_promises),
        cmocka_unit_test(test_forks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
