/* LibreTranslate's calls beside translating: /detect, /frontend/settings, /suggest.
 *
 * A suggestion is a line of JSON that a thread of the pool appends to the file `suggestions`; the
 * reply does not wait for the disk, and a failure is a line of the log. Who asks after the file was
 * found full is told so. */
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

    if (texts_parse(call, "q", error) != 0 || detect_texts(call, NULL, &detection, error) != 0)
        return NULL;
    if (detection.n == 0)
        detect_take_standard(call, NULL, &detection);
    list = json_array();
    for (size_t i = 0; i < detection.n; i++)
        list = json_list_append(list,
                                json_pack("{s:i, s:s}", "confidence", detection.items[i].confidence,
                                          "language", detection.items[i].code));
    if (!list)
        error_from_engine(error, ACRE_ENOMEM, NULL);
    return list;
}

static const struct dialect detect_dialect = {
    .fields = detect_fields,
    .key_field = "api_key",
    .answer = detect,
    .word = libre_word,
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
    pairs_standard(&server->models.pairs, &source, &target);
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

struct suggestion {
    uv_work_t work;
    const char *path; /* of the settings */
    char *line;       /* owned, [bytes], ends with a newline */
    size_t bytes;
};

/* Pool thread. Lines that are appended with one write() do not mix. */
static void append_line(uv_work_t *work)
{
    const struct suggestion *suggestion = work->data;
    int fd = open(suggestion->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, suggestion->line, suggestion->bytes) != (ssize_t)suggestion->bytes)
        log_warning("%s: a suggestion could not be written", suggestion->path);
    if (fd >= 0)
        close(fd);
}

static void on_appended(uv_work_t *work, int status)
{
    struct suggestion *suggestion = work->data;

    (void)status;
    free(suggestion->line);
    free(suggestion);
}

/* Takes `object`. */
static int keep(struct server *server, json_t *object)
{
    struct suggestion *suggestion = calloc(1, sizeof(*suggestion));
    char *text = object ? json_dumps(object, JSON_FLAGS) : NULL;

    json_decref(object);
    if (!suggestion || !text) {
        free(suggestion);
        free(text);
        return -1;
    }
    suggestion->line = text;
    suggestion->bytes = strlen(text) + 1;
    text[suggestion->bytes - 1] = '\n'; /* in the terminator's place */
    suggestion->path = server->settings->suggestions;
    suggestion->work.data = suggestion;
    uv_queue_work(server->loop, &suggestion->work, append_line, on_appended);
    return 0;
}

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

static json_t *suggest(struct call *call, struct srv_error *error)
{
    const char *values[4] = {NULL};
    json_t *object;

    if (!call->server->settings->suggestions[0]) {
        error_reply(error, 403, "suggestions_disabled", "Suggestions are disabled on this server.");
        return NULL;
    }
    for (size_t i = 0; i < 4; i++) {
        if (fields_text(&call->fields, suggest_fields[i], &values[i], error) != 0)
            return NULL;
        if (!values[i]) {
            error_field(error, "missing_parameter", suggest_fields[i],
                        "expected a value, found none");
            return NULL;
        }
    }
    if (are_full(call->server)) {
        error_reply(error, 503, "suggestions_full", "Too many suggestions are kept already.");
        return NULL;
    }
    object = json_pack("{s:s, s:s, s:s, s:s}", "q", values[0], "s", values[1], "source", values[2],
                       "target", values[3]);
    if (keep(call->server, object) != 0) {
        error_from_engine(error, ACRE_ENOMEM, NULL);
        return NULL;
    }
    return json_pack("{s:b}", "success", 1);
}

static const struct dialect suggest_dialect = {
    .fields = suggest_fields,
    .key_field = "api_key",
    .answer = suggest,
    .word = libre_word,
};

void api_libre_suggest(struct server *server, struct http_request *request, const char *rest)
{
    call_start(server, request, rest, &suggest_dialect);
}
