/* main.c - the acre command: finds the subcommand and runs it. */
#include <stdio.h>
#include <string.h>

#include "acre.h"
#include "args.h"
#include "cmd.h"

static const struct {
    const char *name;
    cmd_fn *run;
    const char *about;
} commands[] = {
    {"serve", cmd_serve, "serve models over HTTP"},
    {"translate", cmd_translate, "translate lines of text"},
    {"bench", cmd_bench, "measure speed"},
    {"inspect", cmd_inspect, "tell what a model is"},
};
enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_usage(FILE *out)
{
    fprintf(out, "usage: acre COMMAND [options]\n\n"
                 "Acre translates text with neural models, over HTTP or on the command line.\n\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].about);
    fprintf(out, "\n`acre COMMAND --help` tells more. `acre --version` prints the version.\n"
                 "Exit status: 0 done, 1 failed, 2 wrong usage.\n");
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;

    if (!name) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_usage(stdout);
        return EXIT_DONE;
    }
    if (strcmp(name, "--version") == 0) {
        printf("acre %s\n", ACRE_VERSION);
        return EXIT_DONE;
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    return args_wrong("expected serve, translate, bench or inspect, found \"%s\"", name);
}
