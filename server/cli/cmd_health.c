/* acre health: asks a server whether it is ready; for container runtimes and scripts, which then
 * need no curl.
 *
 * Happy path: URL, or the configured address -> connect -> GET -> status 200 -> exit status 0.
 * Failure modes: every step names the address and what was found; each has the time-out. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/args.h"
#include "cli/cmd.h"
#include "common/error.h"
#include "http/listener.h"
#include "serve/settings.h"

struct health_args {
    char url[OPTION_TEXT_BYTES];
    char config[OPTION_TEXT_BYTES];
    int64_t timeout_s;
};

static const struct option options[] = {
    ARGS_TEXT("config", struct health_args, config, "FILE",
              "configuration whose \"listen\" is asked (default: 127.0.0.1:5000)"),
    ARGS_NUMBER("timeout", struct health_args, timeout_s, 1, 3600, "5", "SECONDS",
                "longest to wait for each step (default: 5)"),
    {.key = NULL},
};

static const struct option positionals[] = {
    ARGS_POSITIONAL(
        "URL", struct health_args, url,
        "http://HOST:PORT[/PATH] or unix:/PATH; the path is /health/ready if none is given"),
    {.key = NULL},
};

static const struct args_command command = {
    .name = "health",
    .synopsis = "[URL] [--config FILE] [--timeout SECONDS]",
    .about = "Asks a server whether it is ready. Exit status 0 if it is, else 1 and the reason.\n",
    .options = options,
    .positionals = positionals,
};

/* Where to ask. `address` is HOST:PORT. */
struct target {
    char address[OPTION_TEXT_BYTES];
    char path[OPTION_TEXT_BYTES];
};

static int find_target(const struct health_args *args, struct target *target, struct acre_err *err)
{
    static const char scheme[] = "http://";
    const char *address = args->url;
    char first[OPTION_TEXT_BYTES];
    struct settings settings;
    size_t n;

    options_init(settings_table, &settings);
    if (!args->url[0]) {
        if (args->config[0] && options_load(settings_table, &settings, args->config, err) != 0)
            return err->code;
        listener_first(settings.listen, first, sizeof(first));
        address = first;
    } else if (strncmp(address, scheme, sizeof(scheme) - 1) == 0) {
        address += sizeof(scheme) - 1;
    }
    n = strncmp(address, "unix:", 5) == 0 ? strlen(address) : strcspn(address, "/");
    snprintf(target->address, sizeof(target->address), "%.*s", (int)n, address);
    snprintf(target->path, sizeof(target->path), "%s",
             address[n] && address[n + 1] ? address + n : "/health/ready");
    if (!listener_valid(target->address))
        return error_set(err, ACRE_EOPTION,
                         "URL: expected http://HOST:PORT[/PATH] or unix:/PATH, found \"%.200s\"",
                         args->url[0] ? args->url : address);
    return 0;
}

/* The reply as far as it goes into `text`, which is terminated. */
static int exchange(const struct target *target, int fd, char *text, size_t text_bytes,
                    struct acre_err *err)
{
    size_t used = 0;
    ssize_t n =
        dprintf(fd, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", target->path,
                strncmp(target->address, "unix:", 5) == 0 ? "localhost" : target->address);

    while (n > 0 && used < text_bytes - 1) {
        n = recv(fd, text + used, text_bytes - 1 - used, 0);
        used += n > 0 ? (size_t)n : 0;
    }
    text[used] = '\0';
    if (n < 0)
        return error_set(err, ACRE_EIO, "%s: expected a reply, found: %s", target->address,
                         errno == EAGAIN ? "none in time" : strerror(errno));
    return 0;
}

static int judge(const struct target *target, const char *reply, struct acre_err *err)
{
    const char *body = strstr(reply, "\r\n\r\n");
    int status;

    if (sscanf(reply, "HTTP/1.%*d %d", &status) != 1)
        return error_set(err, ACRE_EIO, "%s: expected an HTTP reply, found something else",
                         target->address);
    if (status == 200)
        return 0;
    body = body ? body + 4 : "";
    return error_set(err, ACRE_EIO, "%s%s: expected status 200, found %d: %.*s", target->address,
                     target->path, status, (int)strcspn(body, "\r\n"), body);
}

int cmd_health(int argc, char **argv)
{
    struct health_args args;
    struct target target;
    struct acre_err err;
    char reply[4096];
    int fd, rc;

    switch (args_parse(&command, &args, argc, argv)) {
    case ARGS_GO:
        break;
    case ARGS_HELP_SHOWN:
        return EXIT_DONE;
    case ARGS_WRONG:
        return EXIT_USAGE;
    }
    if (find_target(&args, &target, &err) != 0)
        return err.code == ACRE_EOPTION && args.url[0] ? args_wrong("%s", err.text)
                                                       : args_failed("%s", err.text);
    rc = listener_connect(target.address, (int)args.timeout_s, &fd, &err);
    if (rc == 0) {
        rc = exchange(&target, fd, reply, sizeof(reply), &err);
        close(fd);
    }
    if (rc == 0)
        rc = judge(&target, reply, &err);
    return rc == 0 ? EXIT_DONE : args_failed("%s", err.text);
}
