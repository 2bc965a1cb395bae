/* LibreTranslate's calls beside translating: /detect, /frontend/settings, /suggest.
 *
 * A suggestion is a line of JSON that a thread of the pool appends to the file `suggestions`; the
 * reply waits for that, and no other does. Requests after the file was found full are told so. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/call.h"
#include "api/detect.h"
#include "api/files.h"
#include "api/libre.h"
#include "api/reply.h"
#include "api/routes.h"
#include "api/texts.h"
#include "common/log.h"
#include "serve/languages.h"

/* ---- /detect --------------------------------------------------------------------------------- */

static const char *const detect_fields[] = {"q", "api_key", NULL};

/* What is not known is said to be a language with confidence 0, as LibreTranslate does. */
static json_t *detect(struct call *call, struct srv_error *error)
{
    struct detection detection;
    json_t *list;

    if (texts_parse(call, "q", error) != 0 || detect_texts(call, &detection, error) != 0)
        return NULL;
    if (detection.n == 0)
        detect_take_default(call, NULL, &detection);
    list = json_array();
    for (size_t i = 0; i < detection.n; i++)
        list = json_list_append(list,
                                json_pack("{s:i, s:s}", "confidence", detection.items[i].confidence,
                                          "language", detection.items[i].code));
    if (!list)
        error_no_memory(error);
    return list;
}

static const struct dialect detect_dialect = {
    .fields = detect_fields,
    .key_field = "api_key",
    .answer = detect,
    .phrase = libre_phrase,
};

void api_libre_detect(struct server *server, struct http_request *request, const char *rest)
{
    call_start(server, request, rest, &detect_dialect);
}

/* ---- /frontend/settings ---------------------------------------------------------------------- */

static json_t *language(const char *code)
{
    return json_pack("{s:s, s:s}", "code", code, "name", languages_name(code));
}

static json_t *list_kinds(const struct server *server)
{
    json_t *list = json_array();

    for (const struct upload_kind *k = upload_kinds; k->extension && files_are_on(server); k++)
        list = json_list_append(list, json_string(k->extension));
    return list;
}

void api_libre_settings(struct server *server, struct http_request *request, const char *rest)
{
    const struct settings *settings = server->settings;
    const char *source, *target;

    (void)rest;
    pairs_default(&server->models.pairs, &source, &target);
    reply_json(request, 200,
               json_pack("{s:b, s:I, s:b, s:i, s:b, s:{s:o, s:o}, s:b, s:o}", "apiKeys",
                         server->store != NULL, "charLimit", (json_int_t)settings->max_text_chars,
                         "filesTranslation", (int)files_are_on(server), "frontendTimeout", 500,
                         "keyRequired", (int)settings->keys_required, "language", "source",
                         language(source), "target", language(target), "suggestions",
                         settings->suggestions[0] != '\0', "supportedFilesFormat",
                         list_kinds(server)));
}

/* ---- /suggest -------------------------------------------------------------------------------- */

static const char *const suggest_fields[] = {"q", "s", "source", "target", "api_key", NULL};

enum { SUGGESTIONS_BYTES = 64 << 20 }; /* so that nobody can fill the disk */

/* What is on its way to the file may go a little beyond. */
static bool are_full(struct server *server)
{
    const char *path = server->settings->suggestions;
    const bool were_full = server->has_full_suggestions;
    struct stat now;

    server->has_full_suggestions = stat(path, &now) == 0 && now.st_size >= SUGGESTIONS_BYTES;
    if (server->has_full_suggestions && !were_full)
        log_warning("%s: no suggestion is kept beyond %d bytes; move the file away", path,
                    SUGGESTIONS_BYTES);
    return server->has_full_suggestions;
}

/* q, s, source and target. */
static int read_suggestion(struct call *call, const char *values[4], struct srv_error *error)
{
    for (size_t i = 0; i < 4; i++)
        if (fields_required(&call->fields, suggest_fields[i], &values[i], error) != 0)
            return -1;
    return 0;
}

static int check_suggestion(struct call *call, struct srv_error *error)
{
    const char *values[4] = {NULL};

    if (!call->pending.server->settings->suggestions[0])
        return error_http(error, 403, "suggestions_disabled",
                          "Suggestions are disabled on this server.");
    if (read_suggestion(call, values, error) != 0)
        return -1;
    return are_full(call->pending.server) ? error_http(error, 503, "suggestions_full",
                                                       "Too many suggestions are kept already.")
                                          : 0;
}

/* Lines that are appended with one write() do not mix. 0, or what is wrong. */
static int append(const char *path, const char *line, size_t bytes)
{
    const int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    ssize_t n;
    int wrong;

    if (fd < 0)
        return errno;
    n = write(fd, line, bytes);
    wrong = n < 0 ? errno : n < (ssize_t)bytes ? ENOSPC : 0;
    return close(fd) != 0 && wrong == 0 ? errno : wrong;
}

/* Pool thread. */
static int keep_suggestion(struct call *call, struct srv_error *error)
{
    /* Of a running server it stays. */
    const char *path = call->pending.server->settings->suggestions;
    const char *values[4] = {NULL};
    size_t bytes;
    char *line;
    int wrong;

    if (read_suggestion(call, values, error) != 0)
        return -1;
    line = json_line(json_pack("{s:s, s:s, s:s, s:s}", "q", values[0], "s", values[1], "source",
                               values[2], "target", values[3]),
                     &bytes);
    if (!line)
        return error_no_memory(error);
    wrong = append(path, line, bytes);
    free(line);
    if (wrong == 0)
        return 0;
    log_warning("%s: a suggestion could not be written: %s", path, strerror(wrong));
    return error_http(error, 500, "suggestion_not_kept", "The suggestion could not be written.");
}

static json_t *suggest(struct call *call, struct srv_error *error)
{
    json_t *told = json_pack("{s:b}", "success", 1);

    (void)call;
    if (!told)
        error_no_memory(error);
    return told;
}

static const struct dialect suggest_dialect = {
    .fields = suggest_fields,
    .key_field = "api_key",
    .parse = check_suggestion,
    .keep = keep_suggestion,
    .answer = suggest,
    .phrase = libre_phrase,
};

void api_libre_suggest(struct server *server, struct http_request *request, const char *rest)
{
    call_start(server, request, rest, &suggest_dialect);
}
