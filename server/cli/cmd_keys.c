/* acre keys: adds, lists and revokes API keys in a server's store, while it runs or not. */
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
    int64_t quota, rate;
    bool json;
};

static const struct option options[] = {
    ARGS_TEXT("store", struct keys_args, store, "FILE", "the server's `store`; made by add"),
    {.key = "name",
     .type = OPTION_TEXT,
     .offset = offsetof(struct keys_args, name),
     .value = "NAME",
     .help = "the key's name, also as the second argument"},
    ARGS_NUMBER("quota", struct keys_args, quota, 0, 1e15, "0", "N",
                "characters it may have translated in a month (UTC); 0 = no limit"),
    ARGS_NUMBER("rate", struct keys_args, rate, 0, 1e6, "0", "N",
                "requests it may send in a minute; 0 = the server's rate_limit"),
    ARGS_FLAG("json", struct keys_args, json, "list as JSON, one object per line"),
    {.key = NULL},
};

static const struct option positionals[] = {
    ARGS_POSITIONAL("ACTION", struct keys_args, action, "add, list or revoke"),
    ARGS_POSITIONAL("NAME", struct keys_args, name, "the key's name, for add and revoke"),
    {.key = NULL},
};

static const struct args_command command = {
    .name = "keys",
    .synopsis = "add|list|revoke --store FILE [NAME] [options]",
    .about = "Keeps the API keys of a server whose `store` is FILE. `add` prints a new key. It\n"
             "is shown only once: the store keeps its SHA-256. Servers follow within two seconds.\n"
             "`list` has each key's limits and what it has used this month.\n",
    .options = options,
    .positionals = positionals,
};

/* ---- What it does ---------------------------------------------------------------------------- */

/* Nobody has a key that was added and could not be shown: it is shown first. */
static int add_key(sqlite3 *db, const struct keys_args *args, struct acre_err *err)
{
    char text[KEYS_TEXT_BYTES];
    int rc = store_execute(db, "BEGIN IMMEDIATE", err);

    if (rc == 0)
        rc = keys_add(db, args->name, args->quota, args->rate, text, err);
    if (rc != 0)
        return rc;
    printf("%s\n", text);
    if (!args_are_printed())
        return error_set(err, ACRE_EIO, ARGS_NOT_PRINTED);
    return store_execute(db, "COMMIT", err);
}

static int revoke_key(sqlite3 *db, const struct keys_args *args, struct acre_err *err)
{
    int rc = store_execute(db, "BEGIN IMMEDIATE", err);

    if (rc == 0)
        rc = keys_revoke(db, args->name, err);
    return rc ? rc : store_execute(db, "COMMIT", err);
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

static int list_keys(sqlite3 *db, struct keys_args *args, struct acre_err *err)
{
    int64_t version = 0;

    if (!args->json)
        printf("%-24s %15s %15s %12s %15s  %-20s  %s\n", "name", "characters", "of", "requests",
               "a minute", "created", "revoked");
    return keys_read(db, &version, keys_month(), print_row, args, err);
}

/* ---- The command ----------------------------------------------------------------------------- */

/* EXIT_DONE if it says what is wanted. */
static int check(const struct keys_args *args)
{
    const bool lists = strcmp(args->action, "list") == 0;

    if (!lists && strcmp(args->action, "add") != 0 && strcmp(args->action, "revoke") != 0)
        return args_wrong("ACTION: expected add, list or revoke, found %s%s%s",
                          args->action[0] ? "\"" : "", args->action[0] ? args->action : "none",
                          args->action[0] ? "\"" : "");
    if (!args->store[0])
        return args_wrong("--store: expected the file of a server's store, found none");
    if (!lists && !keys_name_valid(args->name))
        return args_wrong("NAME: expected %s, found \"%s\"", KEYS_NAME_EXPECTED, args->name);
    return EXIT_DONE;
}

static int run(struct keys_args *args, struct acre_err *err)
{
    struct store *store;
    int rc;

    if (strcmp(args->action, "add") != 0 && access(args->store, F_OK) != 0)
        return error_set(err, ACRE_EIO, "%s: expected a store, found: %s", args->store,
                         strerror(errno));
    rc = store_open(args->store, &store, err);
    if (rc != 0)
        return rc;
    if (strcmp(args->action, "add") == 0)
        rc = add_key(store_db(store), args, err);
    else if (strcmp(args->action, "revoke") == 0)
        rc = revoke_key(store_db(store), args, err);
    else
        rc = list_keys(store_db(store), args, err);
    store_close(store); /* takes back what was not committed */
    return rc == 0 || ferror(stdout) ? rc : error_prefix(err, "%s: ", args->store);
}

int cmd_keys(int argc, char **argv)
{
    struct keys_args args;
    struct acre_err err;
    int rc = args_parse(&command, &args, argc, argv);

    if (rc != ARGS_GO)
        return rc;
    rc = check(&args);
    if (rc != EXIT_DONE)
        return rc;
    return run(&args, &err) == 0 ? args_done() : args_failed("%s", err.text);
}
