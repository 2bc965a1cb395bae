/* Happy path: args_parse() writes the defaults, takes options and positionals in the order they
 * come, and returns ARGS_GO.
 * Failure modes: an unknown option, a missing or wrong value, or an argument too many: one line on
 * stderr that names it, and EXIT_USAGE. */
#include "cli/args.h"

#include <stdarg.h>
#include <string.h>

/* One line, whatever the message quotes. */
static void complain(const char *format, va_list args)
{
    char text[2048];

    vsnprintf(text, sizeof(text), format, args);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    fprintf(stderr, "acre: %s\n", text);
}

int args_wrong(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    complain(format, args);
    va_end(args);
    return EXIT_USAGE;
}

int args_failed(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    complain(format, args);
    va_end(args);
    return EXIT_FAILED;
}

bool args_are_printed(void)
{
    return fflush(stdout) == 0 && !ferror(stdout);
}

int args_done(void)
{
    return args_are_printed() ? EXIT_DONE : args_failed(ARGS_NOT_PRINTED);
}

void args_flag(const char *key, char *name, size_t name_bytes)
{
    snprintf(name, name_bytes, "%s%s", key[1] ? "--" : "-", key);
    for (char *c = name; *c; c++)
        if (*c == '_')
            *c = '-';
}

static void print_option(const struct option *option)
{
    char name[64], left[128];

    args_flag(option->key, name, sizeof(name));
    snprintf(left, sizeof(left), "%s%s%s", name, option->value ? " " : "",
             option->value ? option->value : "");
    printf("  %-24s %s\n", left, option->help);
}

static void print_help(const struct args_command *command)
{
    printf("usage: acre %s %s\n\n%s", command->name, command->synopsis, command->about);
    printf("\n");
    for (const struct option *o = command->positionals; o && o->key; o++)
        printf("  %-24s %s\n", o->key, o->help);
    for (const struct option *o = command->options; o->key; o++)
        print_option(o);
    printf("  %-24s %s\n", "--help", "print this and exit");
    printf("  %-24s %s\n", "--version", "print the version and exit");
}

/* Finds the option `arg` names; *value is what follows "=", or NULL. */
static const struct option *find_flag(const struct option *options, const char *arg,
                                      const char **value)
{
    size_t n = strcspn(arg, "=");
    char name[64];

    *value = arg[n] ? arg + n + 1 : NULL;
    for (; options->key; options++) {
        args_flag(options->key, name, sizeof(name));
        if (strlen(name) == n && strncmp(name, arg, n) == 0)
            return options;
    }
    return NULL;
}

/* Sets one option from argv[*i] and perhaps argv[*i + 1]. */
static int take_option(const struct args_command *command, void *base, int argc, char **argv,
                       int *i)
{
    const char *arg = argv[*i], *value;
    const struct option *option = find_flag(command->options, arg, &value);
    struct acre_err err;
    char name[64];

    if (!option)
        return args_wrong("%s: expected an option of \"acre %s\" (see acre %s --help), found %s",
                          arg, command->name, command->name, arg);
    args_flag(option->key, name, sizeof(name));
    if (option->type == OPTION_FLAG && value)
        return args_wrong("%s: expected no value, found \"%s\"", name, value);
    if (option->type == OPTION_FLAG)
        value = "true";
    else if (!value && *i + 1 < argc)
        value = argv[++*i];
    if (!value)
        return args_wrong("%s: expected a value (%s), found none", name, option->value);
    if (options_set(option, base, value, &err) != 0)
        return args_wrong("%s: %s", name, err.text);
    return 0;
}

static int take_positional(const struct args_command *command, void *base, size_t index,
                           const char *value)
{
    const struct option *option = command->positionals;
    struct acre_err err;

    for (size_t i = 0; option && option->key && i < index; i++)
        option++;
    if (!option || !option->key)
        return args_wrong("expected no more arguments (see acre %s --help), found \"%s\"",
                          command->name, value);
    if (options_set(option, base, value, &err) != 0)
        return args_wrong("%s: %s", option->key, err.text);
    return 0;
}

static bool asks_for_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

int args_parse(const struct args_command *command, void *base, int argc, char **argv)
{
    bool only_positionals = false;
    size_t n_positionals = 0;

    options_init(command->options, base);
    if (command->positionals)
        options_init(command->positionals, base);
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        int rc;

        if (!only_positionals && strcmp(arg, "--") == 0) {
            only_positionals = true;
            continue;
        }
        if (!only_positionals && asks_for_help(arg)) {
            print_help(command);
            return EXIT_DONE;
        }
        if (!only_positionals && strcmp(arg, "--version") == 0) {
            printf("acre %s\n", ACRE_VERSION);
            return EXIT_DONE;
        }
        if (!only_positionals && arg[0] == '-' && arg[1])
            rc = take_option(command, base, argc, argv, &i);
        else
            rc = take_positional(command, base, n_positionals++, arg);
        if (rc != 0)
            return rc;
    }
    return ARGS_GO;
}
