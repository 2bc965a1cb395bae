/* DeepL's /v2/glossaries and /v3/glossaries: what each call reads, changes and shows.
 *
 * A glossary is the same in both versions; version 2 shows those of one dictionary. Codes of
 * languages go without regions: EN is meant by EN-US, too. */
#include "api/glossary_call.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/deepl.h"
#include "api/reply.h"
#include "api/routes.h"
#include "common/language.h"
#include "serve/languages.h"

/* ---- Showing --------------------------------------------------------------------------------- */

static json_t *render_time(int64_t ms)
{
    const time_t seconds = ms / 1000;
    char text[40], millis[8];
    struct tm utc;

    gmtime_r(&seconds, &utc);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(millis, sizeof(millis), ".%03dZ", (int)(ms % 1000));
    return json_string(strcat(text, millis));
}

static json_t *show_part(const struct glossary_part *part)
{
    return json_pack("{s:s, s:s, s:I}", "source_lang", part->source, "target_lang", part->target,
                     "entry_count", (json_int_t)dictionary_entries(part->dictionary));
}

static json_t *show_v3(const struct glossary *glossary)
{
    json_t *list = json_array();

    for (size_t i = 0; i < glossary->n_parts; i++)
        list = json_list_append(list, show_part(&glossary->parts[i]));
    return json_pack("{s:s, s:s, s:o, s:o}", "glossary_id", glossary->id, "name", glossary->name,
                     "dictionaries", list, "creation_time", render_time(glossary->created_ms));
}

static json_t *show_v2(const struct glossary *glossary)
{
    json_t *object = show_part(&glossary->parts[0]);

    if (object && json_object_update_new(object, json_pack("{s:s, s:s, s:b, s:o}", "glossary_id",
                                                           glossary->id, "name", glossary->name,
                                                           "ready", 1, "creation_time",
                                                           render_time(glossary->created_ms))) == 0)
        return object;
    json_decref(object);
    return NULL;
}

/* ---- Replies of what changes nothing --------------------------------------------------------- */

/* Of showing a glossary, or a dictionary, beside reading an entry: objects are made and printed. */
enum { SHOWN_BYTES = 1024 };

static size_t cost_of_one(const struct glossary_call *call)
{
    return (1 + call->base->n_parts) * SHOWN_BYTES;
}

static size_t cost_of_list(const struct glossary_call *call)
{
    size_t n = 0;

    for (size_t i = 0; i < call->n_listed; i++)
        n += 1 + call->listed[i]->n_parts;
    return n * SHOWN_BYTES;
}

static size_t cost_of_entries(const struct glossary_call *call)
{
    size_t bytes = 0, entries;

    for (size_t i = 0; i < call->base->n_parts; i++) {
        dictionary_text(call->base->parts[i].dictionary, &entries);
        bytes += entries;
    }
    return bytes;
}

/* Takes `object`. */
static int take_json(struct glossary_call *call, json_t *object, struct srv_error *error)
{
    call->body = json_line(object, &call->body_bytes);
    call->type = "application/json";
    return call->body ? 0 : error_no_memory(error);
}

/* Each is printed by itself: as a tree a long list would take fifty times its text. */
static bool put_list(const struct glossary_call *call, bool is_v2, FILE *out)
{
    const char *comma = "";
    bool is_put = true;

    fputs("{\"glossaries\":[", out);
    for (size_t i = 0; i < call->n_listed && is_put; i++) {
        const struct glossary *glossary = call->listed[i];

        if (is_v2 && glossary->n_parts != 1)
            continue;
        fputs(comma, out);
        comma = ",";
        is_put = json_put(out, is_v2 ? show_v2(glossary) : show_v3(glossary));
    }
    fputs("]}\n", out);
    return is_put;
}

static int read_list(struct glossary_call *call, bool is_v2, struct srv_error *error)
{
    FILE *out = open_memstream(&call->body, &call->body_bytes);
    const bool is_put = out && put_list(call, is_v2, out);

    call->type = "application/json";
    if (out && fclose(out) == 0 && is_put)
        return 0;
    return error_no_memory(error);
}

static int read_list_v2(struct glossary_call *call, struct srv_error *error)
{
    return read_list(call, true, error);
}

static int read_list_v3(struct glossary_call *call, struct srv_error *error)
{
    return read_list(call, false, error);
}

static int refuse_several(struct srv_error *error)
{
    return error_http(error, 404, "glossary_not_found",
                      "Glossary not found: it has several dictionaries, which version 3 shows");
}

static int read_one_v2(struct glossary_call *call, struct srv_error *error)
{
    return call->base->n_parts == 1 ? take_json(call, show_v2(call->base), error)
                                    : refuse_several(error);
}

static int read_one_v3(struct glossary_call *call, struct srv_error *error)
{
    return take_json(call, show_v3(call->base), error);
}

/* ---- Making and changing --------------------------------------------------------------------- */

static int check_pair(const struct glossary_part *part, struct srv_error *error)
{
    if (!languages_known(part->source) || !languages_known(part->target) ||
        language_is_same(part->source, part->target))
        return error_http(error, 400, "glossary_pair_not_supported",
                          "Unsupported glossary source and target language pair: %s to %s",
                          part->source, part->target);
    return 0;
}

static int check_pairs(const struct glossary_draft *draft, struct srv_error *error)
{
    for (size_t i = 0; i < draft->n_parts; i++)
        if (check_pair(&draft->parts[i], error) != 0)
            return -1;
    return 0;
}

static int read_v2(struct glossary_call *call, struct srv_error *error)
{
    if (glossary_draft_name(&call->fields, true, &call->draft, error) != 0 ||
        glossary_draft_part(&call->fields, &call->draft, error) != 0)
        return -1;
    return check_pairs(&call->draft, error);
}

static int read_v3(struct glossary_call *call, struct srv_error *error)
{
    if (glossary_draft_name(&call->fields, true, &call->draft, error) != 0 ||
        glossary_draft_parts(&call->fields, true, GLOSSARY_MAX_PARTS, &call->draft, error) != 0)
        return -1;
    return check_pairs(&call->draft, error);
}

static int make(struct glossary_call *call, const struct glossary *glossary,
                struct glossary **after, struct srv_error *error)
{
    bool is_done;

    (void)glossary;
    *after = glossary_new(call->draft.name, call->owner);
    is_done = *after;
    for (size_t i = 0; i < call->draft.n_parts && is_done; i++)
        is_done = glossary_add(*after, &call->draft.parts[i]);
    if (is_done)
        return 0;
    glossary_drop(*after);
    return error_no_memory(error);
}

/* A pair's entries are added to those that it has. */
static int read_patch(struct glossary_call *call, struct srv_error *error)
{
    struct glossary_draft *draft = &call->draft;
    const struct glossary_part *before;

    if (glossary_draft_name(&call->fields, false, draft, error) != 0 ||
        glossary_draft_parts(&call->fields, false, 1, draft, error) != 0 ||
        check_pairs(draft, error) != 0)
        return -1;
    if (!draft->name && draft->n_parts == 0)
        return error_field(error, "missing_parameter", "name",
                           "expected a name or dictionaries, found none");
    before = draft->n_parts > 0
                 ? glossary_find_part(call->base, draft->parts[0].source, draft->parts[0].target)
                 : NULL;
    return before ? glossary_draft_merge(&draft->parts[0], before->dictionary, error) : 0;
}

static int read_put(struct glossary_call *call, struct srv_error *error)
{
    return glossary_draft_part(&call->fields, &call->draft, error) == 0
               ? check_pairs(&call->draft, error)
               : -1;
}

static int put(struct glossary_call *call, const struct glossary *glossary, struct glossary **after,
               struct srv_error *error)
{
    const struct glossary_part *part = call->draft.n_parts > 0 ? call->draft.parts : NULL;

    if (part && glossary->n_parts == GLOSSARY_MAX_PARTS &&
        !glossary_find_part(glossary, part->source, part->target))
        return error_http(error, 400, "too_many_dictionaries",
                          "expected at most %d dictionaries in a glossary", GLOSSARY_MAX_PARTS);
    *after = glossary_with(glossary, call->draft.name, part);
    return *after ? 0 : error_no_memory(error);
}

static json_t *render_v2(const struct glossary_call *call, const struct glossary *glossary)
{
    (void)call;
    return show_v2(glossary);
}

static json_t *render_v3(const struct glossary_call *call, const struct glossary *glossary)
{
    (void)call;
    return show_v3(glossary);
}

static json_t *render_part(const struct glossary_call *call, const struct glossary *glossary)
{
    const struct glossary_part *part = call->draft.parts;

    return show_part(glossary_find_part(glossary, part->source, part->target));
}

/* ---- Deleting -------------------------------------------------------------------------------- */

static int drop(struct glossary_call *call, const struct glossary *glossary,
                struct glossary **after, struct srv_error *error)
{
    (void)call;
    (void)glossary;
    (void)error;
    *after = NULL;
    return 0;
}

static int read_pair(struct glossary_call *call, struct srv_error *error)
{
    return glossary_draft_pair(&call->fields, &call->pair, error);
}

static const struct glossary_part *find_pair(const struct glossary_call *call,
                                             const struct glossary *glossary,
                                             struct srv_error *error)
{
    const struct glossary_part *part =
        glossary_find_part(glossary, call->pair.source, call->pair.target);

    if (!part)
        error_http(error, 404, "dictionary_not_found",
                   "Dictionary not found: the glossary has none from %s to %s", call->pair.source,
                   call->pair.target);
    return part;
}

static int drop_part(struct glossary_call *call, const struct glossary *glossary,
                     struct glossary **after, struct srv_error *error)
{
    const struct glossary_part *part = find_pair(call, glossary, error);

    if (!part)
        return -1;
    *after = glossary_without(glossary, part);
    return *after ? 0 : error_no_memory(error);
}

/* ---- Entries --------------------------------------------------------------------------------- */

static int read_entries_v2(struct glossary_call *call, struct srv_error *error)
{
    const char *text;

    if (call->base->n_parts != 1)
        return refuse_several(error);
    text = dictionary_text(call->base->parts[0].dictionary, &call->body_bytes);
    call->type = "text/tab-separated-values; charset=UTF-8";
    call->body = malloc(call->body_bytes);
    if (!call->body)
        return error_no_memory(error);
    memcpy(call->body, text, call->body_bytes);
    return 0;
}

static int read_entries_v3(struct glossary_call *call, struct srv_error *error)
{
    const struct glossary_part *part;
    const char *text;
    size_t bytes;
    json_t *body;

    if (read_pair(call, error) != 0)
        return -1;
    part = find_pair(call, call->base, error);
    if (!part)
        return -1;
    text = dictionary_text(part->dictionary, &bytes);
    body = json_pack("{s:[{s:s, s:s, s:s#, s:s}]}", "dictionaries", "source_lang", part->source,
                     "target_lang", part->target, "entries", text, (int)bytes, "entries_format",
                     "tsv");
    return take_json(call, body, error);
}

/* ---- The calls ------------------------------------------------------------------------------- */

#define CALL(name, ...)                                                                            \
    void name(struct server *server, struct http_request *request, const char *rest)               \
    {                                                                                              \
        static const struct glossary_verb verb = {__VA_ARGS__};                                    \
                                                                                                   \
        glossary_call_start(server, request, rest, &verb);                                         \
    }

CALL(api_glossaries_v2, .needs_list = true, .cost = cost_of_list, .read = read_list_v2)
CALL(api_glossaries_v3, .needs_list = true, .cost = cost_of_list, .read = read_list_v3)
CALL(api_glossary_v2, .needs_glossary = true, .cost = cost_of_one, .read = read_one_v2)
CALL(api_glossary_v3, .needs_glossary = true, .cost = cost_of_one, .read = read_one_v3)
CALL(api_glossary_make_v2, .status = 201, .read = read_v2, .change = make, .render = render_v2)
CALL(api_glossary_make_v3, .status = 201, .read = read_v3, .change = make, .render = render_v3)
CALL(api_glossary_patch, .needs_glossary = true, .status = 200, .cost = cost_of_entries,
     .read = read_patch, .change = put, .render = render_v3)
CALL(api_glossary_put_part, .needs_glossary = true, .status = 200, .read = read_put, .change = put,
     .render = render_part)
CALL(api_glossary_drop, .needs_glossary = true, .status = 204, .change = drop)
CALL(api_glossary_drop_part, .needs_glossary = true, .status = 204, .read = read_pair,
     .change = drop_part)
CALL(api_glossary_entries_v2, .needs_glossary = true, .cost = cost_of_entries,
     .read = read_entries_v2)
CALL(api_glossary_entries_v3, .needs_glossary = true, .cost = cost_of_entries,
     .read = read_entries_v3)
