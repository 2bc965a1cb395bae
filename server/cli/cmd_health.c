/* acre health: asks a server whether it is ready; for container runtimes and scripts, which then
 * need no curl.
 *
 * Happy path: URL, or the configured address -> connect -> GET -> status 200 -> exit status 0.
 * Failure modes: every step names the address and what was found; each has the time-out. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/args.h"
#include "cli/cmd.h"
#include "common/error.h"
#include "http/endpoint.h"
#include "http/tls.h"
#include "serve/settings.h"

struct health_args {
    char url[OPTION_TEXT_BYTES];
    char config[OPTION_TEXT_BYTES];
    int64_t timeout_s;
};

static const struct option options[] = {
    ARGS_FILLED("config", struct health_args, config, "FILE", "a file",
                "configuration whose \"listen\" is asked (default: 127.0.0.1:5000)"),
    ARGS_NUMBER("timeout", struct health_args, timeout_s, 1, 3600, "5", "SECONDS",
                "longest to wait for each step (default: 5)"),
    {.key = NULL},
};

static const struct option positionals[] = {
    ARGS_POSITIONAL(
        "URL", struct health_args, url,
        "http[s]://HOST:PORT[/PATH] or unix:/PATH; the path is /health/ready if none is given"),
    {.key = NULL},
};

static const struct args_command command = {
    .name = "health",
    .synopsis = "[URL] [--config FILE] [--timeout SECONDS]",
    .about =
        "Asks a server whether it is ready: at URL, else where the configuration has it listen.\n"
        "Exit status 0 if it is, else 1 and the reason. TLS certificates are not verified.\n",
    .options = options,
    .positionals = positionals,
};

/* Where to ask. `address` is HOST:PORT. */
struct target {
    char address[OPTION_TEXT_BYTES];
    char path[OPTION_TEXT_BYTES];
    bool is_tls;
};

/* Takes what an URL begins with off it. */
static const char *skip_scheme(const char *url, struct target *target)
{
    static const char plain[] = "http://", secure[] = "https://";

    target->is_tls = strncmp(url, secure, sizeof(secure) - 1) == 0;
    if (target->is_tls)
        return url + sizeof(secure) - 1;
    return strncmp(url, plain, sizeof(plain) - 1) == 0 ? url + sizeof(plain) - 1 : url;
}

static bool is_file(const char *address)
{
    return strncmp(address, "unix:", 5) == 0;
}

/* What the configuration listens at, first. */
static int read_configured(const struct health_args *args, char address[OPTION_TEXT_BYTES],
                           bool *is_tls, struct acre_err *err)
{
    struct settings settings;

    options_init(settings_table, &settings);
    if (args->config[0] && options_load(settings_table, &settings, args->config, err) != 0)
        return err->code;
    endpoint_first(settings.listen, address, OPTION_TEXT_BYTES);
    *is_tls = settings.tls_certificate[0] && !is_file(address);
    return 0;
}

static int find_target(const struct health_args *args, struct target *target, struct acre_err *err)
{
    char configured[OPTION_TEXT_BYTES];
    const char *address = configured;
    size_t n;

    if (args->url[0])
        address = skip_scheme(args->url, target);
    else if (read_configured(args, configured, &target->is_tls, err) != 0)
        return err->code;
    n = is_file(address) ? strlen(address) : strcspn(address, "/");
    snprintf(target->address, sizeof(target->address), "%.*s", (int)n, address);
    snprintf(target->path, sizeof(target->path), "%s",
             address[n] && address[n + 1] ? address + n : "/health/ready");
    if (!endpoint_valid(target->address))
        return error_set(err, ACRE_EOPTION,
                         "URL: expected http[s]://HOST:PORT[/PATH] or unix:/PATH, found \"%.200s\"",
                         args->url[0] ? args->url : address);
    return 0;
}

static ssize_t receive(int fd, struct tls *tls, char *text, size_t bytes)
{
    return tls ? tls_read(tls, text, bytes) : recv(fd, text, bytes, 0);
}

/* The reply as far as it goes into `text`, which is terminated. */
static int exchange(const struct target *target, int fd, struct tls *tls, char *text,
                    size_t text_bytes, struct acre_err *err)
{
    size_t used = 0;
    ssize_t n =
        snprintf(text, text_bytes, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                 target->path, is_file(target->address) ? "localhost" : target->address);

    n = tls ? tls_write(tls, text, (size_t)n) : send(fd, text, (size_t)n, MSG_NOSIGNAL);
    while (n > 0 && used < text_bytes - 1) {
        n = receive(fd, tls, text + used, text_bytes - 1 - used);
        used += n > 0 ? (size_t)n : 0;
    }
    text[used] = '\0';
    if (n < 0)
        return error_set(err, ACRE_EIO, "%s: expected a reply, found: %s", target->address,
                         errno == EAGAIN ? "none in time" : strerror(errno));
    return 0;
}

static int ask(const struct target *target, int timeout_s, char *reply, size_t reply_bytes,
               struct acre_err *err)
{
    struct tls *tls = NULL;
    int fd, rc = endpoint_connect(target->address, timeout_s, &fd, err);

    if (rc != 0)
        return rc;
    if (target->is_tls && tls_connect(fd, &tls, err) != 0)
        rc = error_prefix(err, "%s: ", target->address);
    if (rc == 0)
        rc = exchange(target, fd, tls, reply, reply_bytes, err);
    tls_close(tls);
    close(fd);
    return rc;
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
    struct health_args args = {.config = ""};
    struct target target = {.is_tls = false};
    struct acre_err err;
    char reply[4096];
    int rc = args_parse(&command, &args, argc, argv);

    if (rc != ARGS_GO)
        return rc;
    if (find_target(&args, &target, &err) != 0)
        return err.code == ACRE_EOPTION && args.url[0] ? args_wrong("%s", err.text)
                                                       : args_failed("%s", err.text);
    signal(SIGPIPE, SIG_IGN); /* OpenSSL writes to a socket that may be closed */
    rc = ask(&target, (int)args.timeout_s, reply, sizeof(reply), &err);
    if (rc == 0)
        rc = judge(&target, reply, &err);
    return rc == 0 ? EXIT_DONE : args_failed("%s", err.text);
}
