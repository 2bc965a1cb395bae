/* Happy path: call_start() -> read_fields() -> go_on(): the dialect's parse(), limits_admit() ->
 * begin(): choose(), translate_start() ... on_translated() -> write_reply() -> reply. A long body
 * is read, and a long reply written, in the pool.
 *
 * A streamed one instead: stream(), first once it is started and then whenever a sentence has come
 * or the client has taken what was sent.
 *
 * One that brings a file: its translation is made in the pool, too. If it goes on without its
 * client: on_queued() -> the dialect's accept(), which replies -> its finish(), later.
 *
 * Failure modes: anything wrong with the request is refused before it is queued. on_give_up() ends
 * a call at its deadline, when its client left, or when the server stops; while a thread of the
 * pool reads the body, which goes with the request, that waits until it has read it. */
#include "api/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/detect.h"
#include "api/document.h"
#include "api/reply.h"
#include "api/stream.h"
#include "api/upload.h"
#include "common/unicode.h"
#include "serve/languages.h"

/* Read by the loop itself, in a tenth of a millisecond; and written, with all that may be asked
 * for.
 */
enum { SMALL_BODY_BYTES = 16384, SMALL_REPLY_BYTES = 2048 };

/* One that waited for its turn waits no more. */
static void leave_turns(struct call *call)
{
    struct call **link = &call->server->heavy_waiting;

    while (*link && *link != call)
        link = &(*link)->next_heavy;
    if (*link)
        *link = call->next_heavy;
    call->server->n_heavy -= call->is_counted;
}

void call_end(struct call *call)
{
    if (call->is_working) { /* who works frees it */
        call->is_ended = true;
        return;
    }
    limits_settle(&call->server->limits, &call->grant, call->is_charged);
    if (call->dialect->is_heavy)
        leave_turns(call);
    translate_close(call->translate);
    fields_fini(&call->fields);
    document_close(call->document);
    upload_close(call->upload);
    free(call->request.texts);
    free(call->ignored);
    free(call->body);
    dictionary_drop(call->dictionary);
    free(call);
}

static void end_with_error(struct call *call, struct srv_error *error)
{
    call->dialect->word(call, error);
    if (call->file)
        call->dialect->finish(call, error);
    else if (call->has_begun)
        stream_end_with_error(call, error);
    else if (call->dialect->refuse)
        call->dialect->refuse(call, error);
    else
        reply_error(call->http, error);
    call_end(call);
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static int parse_text(struct call *call, const json_t *value, const char *name,
                      struct srv_text *text, struct srv_error *error)
{
    const struct server *server = call->server;
    size_t n_chars;

    if (!json_is_string(value))
        return fields_refuse(error, name, "a string", value);
    text->data = json_string_value(value);
    text->bytes = json_string_length(value);
    n_chars = unicode_chars(text->data, text->bytes);
    if (n_chars > (size_t)server->settings->max_text_chars)
        return error_reply(error, 400, "text_too_long", "request (%zu) exceeds text limit (%lld)",
                           n_chars, (long long)server->settings->max_text_chars);
    call->n_characters += (int64_t)n_chars;
    return 0;
}

int call_parse_texts(struct call *call, const char *field, struct srv_error *error)
{
    const json_t *found = fields_find(&call->fields, field);
    const size_t limit = (size_t)call->server->settings->max_texts;
    struct srv_translate *request = &call->request;
    char name[32];

    call->is_array = json_is_array(found);
    if (!found || (call->is_array && json_array_size(found) == 0))
        return error_field(error, "missing_parameter", field, "expected a text, found none");
    if (!call->is_array && !json_is_string(found))
        return fields_refuse(error, field, "a string or an array of strings", found);
    request->n_texts = call->is_array ? json_array_size(found) : 1;
    if (request->n_texts > limit)
        return error_reply(error, 400, "too_many_texts", "request (%zu) exceeds text limit (%zu)",
                           request->n_texts, limit);
    request->texts = calloc(request->n_texts, sizeof(request->texts[0]));
    if (!request->texts)
        return error_from_engine(error, ACRE_ENOMEM, NULL);
    if (!call->is_array)
        return parse_text(call, found, field, &request->texts[0], error);
    for (size_t i = 0; i < request->n_texts; i++) {
        snprintf(name, sizeof(name), "%s[%zu]", field, i);
        if (parse_text(call, json_array_get(found, i), name, &request->texts[i], error))
            return -1;
    }
    return 0;
}

int call_parse_file(struct call *call, struct srv_error *error)
{
    struct srv_translate *request = &call->request;
    const struct upload *upload = call->upload;

    if (upload->rc != 0) {
        *error = upload->error;
        return -1;
    }
    request->texts = calloc(1, sizeof(request->texts[0]));
    if (!request->texts)
        return error_from_engine(error, ACRE_ENOMEM, NULL);
    request->n_texts = 1;
    request->texts[0] = (struct srv_text){upload->text.data, upload->text.bytes};
    request->format = upload->kind->format;
    call->n_characters = (int64_t)upload->n_chars;
    return 0;
}

/* ---- Choosing a model ------------------------------------------------------------------------ */

static int must_match(const char *field, const char *wanted, const char *has,
                      const struct acre_model_info *info, struct srv_error *error)
{
    if (!wanted || strcasecmp(wanted, has) == 0)
        return 0;
    return error_field(error, "model_mismatch", field,
                       "expected %s as in model %.100s, found %.60s", has, info->name, wanted);
}

/* *name is NULL if the request does not say, and the model has a default. */
static int must_speak(const char *field, const char *name, const char *standard,
                      const struct acre_language *language, const struct acre_model_info *info,
                      struct srv_error *error)
{
    if (language || (!name && standard[0]))
        return 0;
    if (!name)
        return error_field(error, "missing_parameter", field,
                           "expected a language of model %.100s, found none", info->name);
    return error_field(error, "model_mismatch", field,
                       "expected %s as in model %.100s, found %.60s",
                       standard[0] ? standard : "a language", info->name, name);
}

/* "auto" is what a model for one language reads; of several it is found. */
static int settle_auto(struct call *call, const struct acre_model_info *info,
                       struct srv_error *error)
{
    if (!call->request.source || strcasecmp(call->request.source, "auto") != 0)
        return 0;
    if (info->n_sources > 1)
        return detect_source(call, error);
    call->request.source = NULL;
    return 0;
}

static int choose_by_name(struct call *call, struct acre_model **model, struct srv_error *error)
{
    const struct srv_translate *request = &call->request;
    const struct acre_model_info *info;
    char names[256];

    *model = models_find_name(&call->server->models, request->model_name);
    if (!*model) {
        models_list_names(&call->server->models, names, sizeof(names));
        return error_reply(error, call->name ? 404 : 400, "unknown_model",
                           "model: expected one of %s, found %.100s", names, request->model_name);
    }
    info = acre_model_info(*model);
    if (settle_auto(call, info, error) != 0 ||
        must_speak("source", request->source, info->source,
                   request->source ? acre_model_source(*model, request->source) : NULL, info,
                   error) != 0 ||
        must_speak("target", request->target, info->target,
                   request->target ? acre_model_target(*model, request->target) : NULL, info,
                   error) != 0)
        return -1;
    return must_match("level", request->level, info->level, info, error);
}

static int choose_by_pair(struct call *call, struct acre_model **model, struct srv_error *error)
{
    const struct srv_translate *request = &call->request;
    const char *source, *target = request->target;
    enum models_match match;

    if (strcasecmp(request->source, "auto") == 0 && detect_source(call, error) != 0)
        return -1;
    source = request->source;
    match = models_find_pair(&call->server->models, source, target, request->level, model);
    if (match == MODELS_NO_SOURCE || match == MODELS_NO_TARGET)
        return error_field(error, "language_not_supported",
                           match == MODELS_NO_SOURCE ? "source" : "target",
                           "expected a language of this server, found %.60s",
                           match == MODELS_NO_SOURCE ? source : target);
    if (match == MODELS_NO_LEVEL)
        return error_reply(error, 400, "level_not_available",
                           "level %s is not available from %s (%.10s) to %s (%.10s)",
                           request->level, languages_name(source), source, languages_name(target),
                           target);
    if (match == MODELS_NO_PAIR)
        return error_reply(error, 400, "pair_not_available",
                           "%s (%.10s) is not available as a target language from %s (%.10s)",
                           languages_name(target), target, languages_name(source), source);
    return 0;
}

static int choose(struct call *call, struct acre_model **model, struct srv_error *error)
{
    return call->request.model_name ? choose_by_name(call, model, error)
                                    : choose_by_pair(call, model, error);
}

/* How long a translation may be is the model's to say. */
static int read_decoding(struct call *call, const struct acre_model *model, struct srv_error *error)
{
    const int max_beam_size = (int)call->server->settings->max_beam_size;
    const int max_length = acre_model_info(model)->decoding.max_length;
    const struct acre_decoding most = {max_beam_size, max_beam_size, max_length, max_length,
                                       ACRE_MAX_LENGTH_PENALTY};
    struct decoding_wish *wish = &call->request.decoding;

    if (fields_decoding(&call->fields, &most, wish, error) != 0)
        return -1;
    if (wish->beam_size != DECODING_UNSET && wish->beam_size < wish->num_hypotheses)
        return error_field(error, "invalid_parameter", "beam_size",
                           "expected more than alternatives (%d), found %d",
                           (int)wish->num_hypotheses - 1, (int)wish->beam_size);
    return 0;
}

/* The request's own, then those of its glossaries for what the model translates. */
static int find_dictionaries(struct call *call, const struct acre_model *model,
                             struct srv_error *error)
{
    const struct acre_model_info *info = acre_model_info(model);
    struct srv_translate *request = &call->request;
    const char *source = request->source ? request->source : info->source;
    const char *target = request->target ? request->target : info->target;

    if (call->dictionary)
        request->dictionaries[request->n_dictionaries++] = call->dictionary;
    for (size_t i = 0; i < call->n_glossary_ids; i++) {
        const char *id = call->glossary_ids[i];
        const struct glossary *glossary =
            glossaries_find(&call->server->glossaries, id, glossary_owner(call->grant.key));
        const struct glossary_part *part;

        if (!glossary)
            return error_reply(error, 404, "glossary_not_found", "Glossary not found: %.40s", id);
        part = glossary_find_part(glossary, source, target);
        if (!part)
            return error_reply(error, 400, "dictionary_not_found",
                               "Glossary %.40s has no dictionary from %.20s to %.20s", id, source,
                               target);
        request->dictionaries[request->n_dictionaries++] = part->dictionary;
    }
    return 0;
}

/* ---- The call -------------------------------------------------------------------------------- */

/* There is another sentence, or room for one. */
static void stream(void *user)
{
    struct call *call = user;
    struct srv_error error;

    switch (stream_go_on(call, stream, &error)) {
    case STREAM_FAILED:
        end_with_error(call, &error);
        break;
    case STREAM_ENDED:
        call->is_charged = true;
        call_end(call);
        break;
    case STREAM_WAITS:
        break;
    }
}

static void give_up(struct call *call, enum http_give_up why)
{
    struct srv_error error;

    if (why == HTTP_LEFT && call->has_begun) {
        http_stream_end(call->http, false);
        call->is_charged = true;
        call_end(call);
        return;
    }
    if (why == HTTP_DEADLINE)
        error_deadline(&error, call->dialect->accept
                                   ? (uint64_t)call->server->settings->request_timeout_ms
                                   : call->request.timeout_ms);
    else if (why == HTTP_SHUTDOWN)
        error_from_engine(&error, ACRE_ECLOSED, NULL);
    else
        error_from_engine(&error, ACRE_ECANCELLED, NULL); /* to nobody */
    end_with_error(call, &error);
}

/* Any thread. */
static void write_reply(struct call *call)
{
    const struct dialect *dialect = call->dialect;
    FILE *out = open_memstream(&call->body, &call->body_bytes);
    bool is_whole;

    if (!out)
        return;
    is_whole = dialect->write ? dialect->write(call, out) : json_put(out, dialect->render(call));
    putc('\n', out);
    if (fclose(out) == 0 && is_whole)
        return;
    free(call->body);
    call->body = NULL;
}

static void send_reply(struct call *call)
{
    if (call->body && call->dialect->count)
        call->dialect->count(call);
    call->is_charged = call->body != NULL;
    reply_text(call->http, call->body, call->body_bytes);
    call->body = NULL;
    call_end(call);
}

/* Pool thread. */
static void write_in_pool(uv_work_t *work)
{
    write_reply(work->data);
}

static void work_in_pool(struct call *call, uv_work_cb work, uv_after_work_cb after)
{
    call->work.data = call;
    call->is_working = true;
    call->server->n_working++;
    uv_queue_work(call->server->loop, &call->work, work, after);
}

static void on_written(uv_work_t *work, int status);

/* Whose turn it is: the next one's, if nobody is at work. */
static void take_turn(struct server *server)
{
    struct call *call = server->heavy_waiting;

    if (server->heavy || !call)
        return;
    server->heavy = call;
    server->heavy_waiting = call->next_heavy;
    work_in_pool(call, write_in_pool, on_written);
}

static void wait_for_turn(struct call *call)
{
    struct call **link = &call->server->heavy_waiting;

    while (*link)
        link = &(*link)->next_heavy;
    *link = call;
    take_turn(call->server);
}

/* If it was told to give up meanwhile, and the reply is there, it is sent all the same. */
static void on_written(uv_work_t *work, int status)
{
    struct call *call = work->data;
    struct server *server = call->server;

    (void)status;
    call->is_working = false;
    server->n_working--;
    if (server->heavy == call)
        server->heavy = NULL;
    if (!call->body && call->is_given_up)
        give_up(call, call->why);
    else
        send_reply(call);
    take_turn(server);
}

static bool is_small(const struct call *call)
{
    size_t bytes = 0;

    for (size_t i = 0; i < call->request.n_texts; i++)
        bytes += call->request.texts[i].bytes;
    return bytes <= SMALL_REPLY_BYTES;
}

/* Any thread. */
static void make_document(struct call *call)
{
    const struct srv_text *text = &call->request.texts[0];
    const char *translation = translate_text(call->translate, 0, 0);

    call->document =
        upload_document(call->upload, translation ? translation : text->data,
                        translation ? strlen(translation) : text->bytes, call->request.target);
}

static void end_with_document(struct call *call)
{
    struct srv_error error;

    if (!call->document) {
        error_from_engine(&error, ACRE_ENOMEM, NULL);
        end_with_error(call, &error);
        return;
    }
    if (call->file)
        call->dialect->finish(call, NULL);
    else
        call->dialect->reply(call);
    call_end(call);
}

/* Pool thread. */
static void make_in_pool(uv_work_t *work)
{
    make_document(work->data);
}

static void on_made(uv_work_t *work, int status)
{
    struct call *call = work->data;

    (void)status;
    call->is_working = false;
    call->server->n_working--;
    if (call->is_ended)
        call_end(call);
    else if (call->is_given_up)
        give_up(call, call->why);
    else
        end_with_document(call);
}

/* Its client gets its reply and leaves, if all is queued. False: the call has ended. */
static bool on_queued(struct call *call)
{
    struct srv_error error;

    if (call->file || !translate_is_queued(call->translate) ||
        call->dialect->accept(call, &error) == 0)
        return true;
    end_with_error(call, &error);
    return false;
}

static void on_translated(void *user)
{
    struct call *call = user;
    struct srv_error error;

    if (call->request.is_streamed) {
        stream(call);
        return;
    }
    if (call->dialect->accept && (!on_queued(call) || !translate_is_done(call->translate)))
        return;
    if (translate_error(call->translate, &error) != 0) {
        end_with_error(call, &error);
        return;
    }
    if (call->upload && is_small(call)) {
        make_document(call);
        end_with_document(call);
    } else if (call->upload) {
        work_in_pool(call, make_in_pool, on_made);
    } else if (call->dialect->reply) {
        call->dialect->reply(call);
        call->is_charged = true;
        call_end(call);
    } else if (call->dialect->is_heavy) {
        wait_for_turn(call);
    } else if (is_small(call)) {
        write_reply(call);
        send_reply(call);
    } else {
        work_in_pool(call, write_in_pool, on_written);
    }
}

static void on_give_up(void *user, enum http_give_up why)
{
    struct call *call = user;

    if (!call->is_working) {
        give_up(call, why);
        return;
    }
    call->why = why;
    atomic_store(&call->is_given_up, true);
}

static int start(struct call *call, struct srv_error *error)
{
    struct acre_model *model;

    if (choose(call, &model, error) != 0 || read_decoding(call, model, error) != 0 ||
        find_dictionaries(call, model, error) != 0)
        return -1;
    call->request.caller = access_caller(call->http, &call->grant);
    if (!call->dialect->accept)
        http_set_deadline(call->http, call->request.timeout_ms);
    call->request.tells_queued = call->dialect->accept != NULL;
    if (!call->request.target)
        call->request.target = acre_model_info(model)->target;
    return translate_start(call->server->translator, &call->request, model, on_translated, call,
                           &call->translate, error);
}

/* Any thread. */
static void read_fields(struct call *call)
{
    const struct dialect *dialect = call->dialect;

    call->rc = fields_read_file(&call->fields, call->http, dialect->fields, dialect->repeated,
                                dialect->file, &call->error);
    if (call->rc == 0 && dialect->prepare)
        call->rc = dialect->prepare(call, &call->error);
    if (call->rc != 0 || !dialect->file)
        return;
    call->upload = upload_open(&call->fields);
    if (!call->upload)
        call->rc = error_from_engine(&call->error, ACRE_ENOMEM, NULL);
}

static void answer(struct call *call)
{
    json_t *body = call->dialect->answer(call, &call->error);

    if (!body) {
        end_with_error(call, &call->error);
        return;
    }
    reply_json(call->http, 200, body);
    call->is_charged = true;
    call_end(call);
}

/* It has been admitted, or rc says that it is not. */
static void begin(struct call *call)
{
    if (call->rc == 0 && call->dialect->answer) {
        answer(call);
        return;
    }
    if (call->rc == 0)
        call->rc = start(call, &call->error);
    if (call->rc != 0)
        end_with_error(call, &call->error);
    else if (call->request.is_streamed)
        stream(call);
    else if (call->dialect->accept)
        on_queued(call);
}

static void on_admitted(void *user, int rc, const struct srv_error *error)
{
    struct call *call = user;

    call->is_working = false;
    call->server->n_working--;
    call->rc = rc;
    if (rc != 0)
        call->error = *error;
    if (call->is_given_up)
        give_up(call, call->why);
    else
        begin(call);
}

static void go_on(struct call *call)
{
    if (call->rc == 0)
        call->rc = access_identify(call->server, call->http, &call->fields,
                                   call->dialect->key_field, &call->grant, &call->error);
    if (call->rc == 0 && call->dialect->parse)
        call->rc = call->dialect->parse(call, &call->error);
    if (call->rc == 0)
        call->rc = limits_admit(&call->server->limits, &call->grant, call->n_characters,
                                on_admitted, call, &call->error);
    if (call->rc == LIMITS_LATER) {
        call->is_working = true;
        call->server->n_working++;
    } else {
        begin(call);
    }
}

/* Pool thread. */
static void read_in_pool(uv_work_t *work)
{
    read_fields(work->data);
}

static void on_read(uv_work_t *work, int status)
{
    struct call *call = work->data;

    (void)status;
    call->is_working = false;
    call->server->n_working--;
    if (call->is_given_up)
        give_up(call, call->why);
    else
        go_on(call);
}

void call_start(struct server *server, struct http_request *request, const char *name,
                const struct dialect *dialect)
{
    struct call *call = calloc(1, sizeof(*call));
    struct srv_error error;
    size_t body_bytes;

    if (!call) {
        error_from_engine(&error, ACRE_ENOMEM, NULL);
        reply_error(request, &error);
        return;
    }
    call->server = server;
    call->http = request;
    call->dialect = dialect;
    decoding_init(&call->request.decoding);
    call->name = name;
    call->request.timeout_ms = (uint64_t)server->settings->request_timeout_ms;
    if (!http_await(request, call->request.timeout_ms, on_give_up, call)) {
        error_reply(&call->error, 503, "server_busy", "Too many requests wait for a translation");
        call->error.retry_after_s = 1;
        end_with_error(call, &call->error);
        return;
    }
    http_body(request, &body_bytes);
    if (body_bytes <= SMALL_BODY_BYTES) {
        read_fields(call);
        go_on(call);
        return;
    }
    work_in_pool(call, read_in_pool, on_read);
}
