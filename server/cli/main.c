/* main.c - the acre command: finds the subcommand and runs it. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "acre.h"
#include "cli/args.h"
#include "cli/cmd.h"

static const struct {
    const char *name;
    cmd_fn *run;
    const char *about;
} commands[] = {
    {"serve", cmd_serve, "serve models over HTTP"},
    {"translate", cmd_translate, "translate lines of text"},
    {"bench", cmd_bench, "measure speed"},
    {"inspect", cmd_inspect, "tell what a model is"},
    {"health", cmd_health, "ask a server whether it is ready"},
    {"keys", cmd_keys, "add, list and revoke API keys"},
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

/* Where one is closed, the next file or socket would get its number, and what is printed. */
static void open_standard_streams(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;

    open_standard_streams();
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
    return args_wrong("expected serve, translate, bench, inspect, health or keys, found \"%s\"",
                      name);
}
