/* acre keys: adds, lists, changes and revokes a server's API keys in its store, while it runs or
 * not. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/args.h"
#include "cli/cmd.h"
#include "common/error.h"
#include "common/json.h"
#include "store/keys.h"

struct keys_args {
    char action[OPTION_TEXT_BYTES];
    char name[OPTION_TEXT_BYTES];
    char store[OPTION_TEXT_BYTES];
    char key_file[OPTION_TEXT_BYTES];
    int64_t quota, rate; /* -1: not given */
    char text[KEYS_TEXT_BYTES];
    bool json;
};

static const struct option options[] = {
    ARGS_TEXT("store", struct keys_args, store, "FILE", "the server's `store`; made by add"),
    {.key = "name",
     .type = OPTION_TEXT,
     .offset = offsetof(struct keys_args, name),
     .value = "NAME",
     .help = "the key's name, also as the second argument"},
    ARGS_NUMBER("quota", struct keys_args, quota, 0, 1e15, NULL, "N",
                "characters it may have translated in a month (UTC); 0 = no limit, also for add"),
    ARGS_NUMBER("rate", struct keys_args, rate, 0, 1e6, NULL, "N",
                "requests it may send in a minute; 0 = the server's rate_limit, also for add"),
    ARGS_FILLED("key_file", struct keys_args, key_file, "FILE", "a file",
                "add or renew with the key that is in FILE; - = standard input"),
    ARGS_FLAG("json", struct keys_args, json, "list as JSON, one object per line"),
    {.key = NULL},
};

static const struct option positionals[] = {
    ARGS_POSITIONAL("ACTION", struct keys_args, action, "add, list, set, renew or revoke"),
    ARGS_POSITIONAL("NAME", struct keys_args, name, "the key's name, for all but list"),
    {.key = NULL},
};

static const struct args_command command = {
    .name = "keys",
    .synopsis = "add|list|set|renew|revoke --store FILE [NAME] [options]",
    .about = "Keeps the API keys of a server whose `store` is FILE. `add` prints a new key. It\n"
             "is shown only once: the store keeps its SHA-256. Servers follow within two seconds.\n"
             "`list` has each key's limits and what it has used this month. `set` changes limits.\n"
             "`renew` prints a new key in the place of one that has leaked, which ends; limits,\n"
             "usage and glossaries stay. `revoke` ends a key and deletes its glossaries.\n"
             "With --key-file servers with stores of their own take the same key.\n",
    .options = options,
    .positionals = positionals,
};

/* ---- What it does ---------------------------------------------------------------------------- */

/* A file may end in a newline. What else it has is not told: it may be nearly a key. */
static int read_text(FILE *file, struct keys_args *args, struct acre_err *err)
{
    char line[KEYS_TEXT_BYTES + 3];
    size_t n = fread(line, 1, sizeof(line) - 1, file);

    if (ferror(file))
        return error_set(err, ACRE_EIO, "%s: %s", args->key_file, strerror(errno));
    while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
        n--;
    line[n] = '\0';
    if (!keys_text_valid(line, n))
        return error_set(err, ACRE_EOPTION, "%s: expected " KEYS_TEXT_EXPECTED ", found %s",
                         args->key_file,
                         n < KEYS_TEXT_BYTES - 1   ? "less"
                         : n > KEYS_TEXT_BYTES - 1 ? "more"
                                                   : "something else");
    strcpy(args->text, line);
    return 0;
}

static int take_text(struct keys_args *args, struct acre_err *err)
{
    FILE *file = stdin;
    int rc;

    if (!args->key_file[0])
        return keys_make_text(args->text, err);
    if (strcmp(args->key_file, "-") != 0)
        file = fopen(args->key_file, "r");
    if (!file)
        return error_set(err, ACRE_EIO, "%s: %s", args->key_file, strerror(errno));
    rc = read_text(file, args, err);
    if (file != stdin)
        fclose(file);
    return rc;
}

static int add_key(sqlite3 *db, const struct keys_args *args, struct acre_err *err)
{
    return keys_add(db, args->name, args->quota, args->rate, args->text, err);
}

static int set_key(sqlite3 *db, const struct keys_args *args, struct acre_err *err)
{
    return keys_set(db, args->name, args->quota, args->rate, err);
}

static int renew_key(sqlite3 *db, const struct keys_args *args, struct acre_err *err)
{
    const int rc = keys_renew(db, args->name, args->text, err);

    return rc == 0 ? set_key(db, args, err) : rc;
}

static int revoke_key(sqlite3 *db, const struct keys_args *args, struct acre_err *err)
{
    return keys_revoke(db, args->name, err);
}

static int print_json(const struct key_row *row, struct acre_err *err)
{
    char *text = json_text(json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:s, s:s*}", "name", row->name, "quota",
        (json_int_t)row->characters_per_month, "rate", (json_int_t)row->requests_per_minute,
        "characters", (json_int_t)row->characters, "requests", (json_int_t)row->requests, "created",
        row->created, "revoked", row->revoked[0] ? row->revoked : NULL));

    if (!text)
        return error_set_no_memory(err);
    printf("%s\n", text);
    free(text);
    return 0;
}

static void print_limit(int64_t limit)
{
    if (limit)
        printf(" %15lld", (long long)limit);
    else
        printf(" %15s", "-");
}

static int print_row(void *user, const struct key_row *row, struct acre_err *err)
{
    const struct keys_args *args = user;

    if (args->json)
        return print_json(row, err);
    printf("%-24s", row->name);
    printf(" %15lld", (long long)row->characters);
    print_limit(row->characters_per_month);
    printf(" %12lld", (long long)row->requests);
    print_limit(row->requests_per_minute);
    printf("  %s  %s\n", row->created, row->revoked[0] ? row->revoked : "-");
    return 0;
}

static int list_keys(sqlite3 *db, const struct keys_args *args, struct acre_err *err)
{
    int64_t version = 0;

    if (!args->json)
        printf("%-24s %15s %15s %12s %15s  %-20s  %s\n", "name", "characters", "of", "requests",
               "a minute", "created", "revoked");
    return keys_read(db, &version, keys_month(), print_row, (void *)args, err);
}

/* ---- The command ----------------------------------------------------------------------------- */

static const struct action {
    const char *name;
    int (*run)(sqlite3 *db, const struct keys_args *args, struct acre_err *err);
    bool makes_key, only_reads;
} actions[] = {
    {.name = "add", .run = add_key, .makes_key = true},
    {.name = "list", .run = list_keys, .only_reads = true},
    {.name = "set", .run = set_key},
    {.name = "renew", .run = renew_key, .makes_key = true},
    {.name = "revoke", .run = revoke_key},
    {.name = NULL},
};

/* EXIT_DONE if it says what is wanted, and *action is that. */
static int check(const struct keys_args *args, const struct action **action)
{
    const struct action *a = actions;

    while (a->name && strcmp(args->action, a->name) != 0)
        a++;
    if (!a->name)
        return args_wrong("ACTION: expected add, list, set, renew or revoke, found %s%s%s",
                          args->action[0] ? "\"" : "", args->action[0] ? args->action : "none",
                          args->action[0] ? "\"" : "");
    if (!args->store[0])
        return args_wrong("--store: expected the file of a server's store, found none");
    if (a->only_reads && args->name[0])
        return args_wrong("NAME: expected with add, set, renew or revoke, found with %s", a->name);
    if (!a->only_reads && args->json)
        return args_wrong("--json: expected with list, found with %s", a->name);
    if (!a->only_reads && !keys_name_valid(args->name))
        return args_wrong("NAME: expected %s, found \"%s\"", KEYS_NAME_EXPECTED, args->name);
    if (a->run == set_key && args->quota < 0 && args->rate < 0)
        return args_wrong("set: expected --quota or --rate, found none");
    if (args->key_file[0] && !a->makes_key)
        return args_wrong("--key-file: expected with add or renew, found with %s", a->name);
    if ((args->quota >= 0 || args->rate >= 0) && (a->only_reads || a->run == revoke_key))
        return args_wrong("--quota and --rate: expected with add, set or renew, found with %s",
                          a->name);
    *action = a;
    return EXIT_DONE;
}

/* A new key is shown before it counts: if it cannot be, nobody has it. */
static int change(sqlite3 *db, const struct keys_args *args, const struct action *action,
                  struct acre_err *err)
{
    int rc = store_execute(db, "BEGIN IMMEDIATE", err);

    if (rc == 0)
        rc = action->run(db, args, err);
    if (rc != 0)
        return rc;
    if (action->makes_key && !args->key_file[0])
        printf("%s\n", args->text);
    if (!args_are_printed())
        return error_set(err, ACRE_EIO, ARGS_NOT_PRINTED);
    return store_execute(db, "COMMIT", err);
}

static int run(struct keys_args *args, const struct action *action, struct acre_err *err)
{
    struct store *store;
    int rc;

    if (action->run != add_key && access(args->store, F_OK) != 0)
        return error_set(err, ACRE_EIO, "%s: expected a store, found: %s", args->store,
                         strerror(errno));
    if (action->makes_key && take_text(args, err) != 0)
        return err->code;
    rc = store_open(args->store, &store, err);
    if (rc != 0)
        return rc;
    rc = action->only_reads ? action->run(store_db(store), args, err)
                            : change(store_db(store), args, action, err);
    store_close(store); /* takes back what was not committed */
    return rc == 0 || ferror(stdout) ? rc : error_prefix(err, "%s: ", args->store);
}

int cmd_keys(int argc, char **argv)
{
    struct keys_args args = {.quota = -1, .rate = -1};
    const struct action *action = NULL;
    struct acre_err err;
    int rc = args_parse(&command, &args, argc, argv);

    if (rc != ARGS_GO)
        return rc;
    rc = check(&args, &action);
    if (rc != EXIT_DONE)
        return rc;
    return run(&args, action, &err) == 0 ? args_done() : args_failed("%s", err.text);
}
