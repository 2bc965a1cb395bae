/* DeepL's /v2/translate: the fields that clients send, its reply, its words for errors.
 *
 * Happy path: parse() fills the request from DeepL's fields, render() makes the list of
 * translations. Failure modes: what the models here cannot do is refused by the field's name,
 * unless DeepL itself promises no effect: `context`, `prefer_more`, `prefer_less`, and
 * `preserve_formatting`, as formatting is always preserved here. Unknown fields are accepted. */
#include "api/deepl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/call.h"
#include "api/phrase.h"
#include "api/routes.h"
#include "api/texts.h"
#include "common/unicode.h"

static const char *const field_names[] = {
    "text",
    "source_lang",
    "target_lang",
    "show_billed_characters",
    "split_sentences",
    "preserve_formatting",
    "formality",
    "model_type",
    "tag_handling",
    "tag_handling_version",
    "outline_detection",
    "ignore_tags",
    "splitting_tags",
    "glossary_id",
    "glossary_ids",
    "style_id",
    "translation_memory_id",
    "custom_instructions",
    "auth_key",
    NULL,
};

static const char *const repeated[] = {"text", "glossary_ids", NULL};

/* Every tag of a document is compared with all names. */
enum { MAX_TAGS = 100, MAX_TAG_BYTES = 64 };

/* ---- Parsing --------------------------------------------------------------------------------- */

int deepl_refuse_value(struct srv_error *error, const char *field, const char *why)
{
    return error_http(error, 400, "invalid_parameter", "Value for '%s' not supported%s%s", field,
                      why[0] ? ": " : ".", why);
}

/* One of `values`, a list in which each stands between blanks; *value stays NULL if there is none.
 */
static int parse_choice(const struct call *call, const char *field, const char *values,
                        const char **value, struct srv_error *error)
{
    char wanted[40];

    if (fields_text(&call->fields, field, value, error) != 0)
        return -1;
    snprintf(wanted, sizeof(wanted), " %.36s ", *value ? *value : "");
    return !*value || (!strchr(*value, ' ') && strstr(values, wanted))
               ? 0
               : deepl_refuse_value(error, field, "");
}

static int parse_languages(struct call *call, struct srv_error *error)
{
    struct srv_translate *request = &call->request;
    const char *target = NULL;

    if (fields_text(&call->fields, "target_lang", &target, error) != 0 ||
        fields_text(&call->fields, "source_lang", &request->source, error) != 0)
        return -1;
    if (!target)
        return error_field(error, "missing_parameter", "target_lang",
                           "expected a language, found none");
    request->target = deepl_target(&call->pending.server->models, target, call->target);
    if (!request->target)
        return deepl_refuse_value(error, "target_lang", "");
    if (!request->source)
        request->source = "auto";
    return 0;
}

/* The first two are wishes, which DeepL grants where it can. */
static int parse_formality(const struct call *call, struct srv_error *error)
{
    static const char all[] = " default more less prefer_more prefer_less ";
    const char *formality = NULL, *target = NULL;

    if (parse_choice(call, "formality", all, &formality, error) != 0 ||
        fields_text(&call->fields, "target_lang", &target, error) != 0)
        return -1;
    if (formality && (strcmp(formality, "more") == 0 || strcmp(formality, "less") == 0))
        return error_http(error, 400, "not_supported",
                          "Target language '%.20s' doesn't support formality.", target);
    return 0;
}

static int parse_split(struct call *call, struct srv_error *error)
{
    const char *split = NULL;

    if (parse_choice(call, "split_sentences", " 0 1 nonewlines ", &split, error) != 0)
        return -1;
    if (split && strcmp(split, "0") == 0)
        call->request.split = ACRE_SPLIT_NOTHING;
    else if (split && strcmp(split, "nonewlines") == 0)
        call->request.split = ACRE_SPLIT_SENTENCES;
    return 0;
}

/* ---- Markup ---------------------------------------------------------------------------------- */

/* Appends names separated by commas, as forms have them. It ends after `most` and one more, by
 * which they are seen to be too many. */
static json_t *append_names(json_t *list, const char *names, size_t most)
{
    static const char between[] = ", \t\r\n";

    for (names += strspn(names, between); *names && json_array_size(list) <= most;) {
        const size_t all = strcspn(names, ",");
        size_t n = all;

        while (strchr(between, names[n - 1]))
            n--;
        list = json_list_append(list, json_stringn(names, n));
        names += all + strspn(names + all, between);
    }
    return list;
}

/* The array is the fields' own, whichever way it came. NULL: none, or an error in *rc. */
static json_t *find_names(struct call *call, const char *field, size_t most,
                          struct srv_error *error, int *rc)
{
    json_t *found = fields_find(&call->fields, field), *list;

    *rc = 0;
    if (!found || (json_is_array(found) && call->fields.is_json))
        return found;
    if (!json_is_string(found) && !json_is_array(found)) {
        *rc = fields_refuse(error, field, "an array of strings", found);
        return NULL;
    }
    list = json_array();
    if (json_is_string(found))
        list = append_names(list, json_string_value(found), most);
    for (size_t i = 0; i < json_array_size(found); i++)
        list = append_names(list, json_string_value(json_array_get(found, i)), most);
    if (json_object_set_new(call->fields.object, field, list) == 0)
        return list;
    *rc = error_no_memory(error);
    return NULL;
}

static int take_ignored(const json_t *names, struct srv_text *ignored, struct srv_error *error)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        const json_t *name = json_array_get(names, i);

        if (!json_is_string(name))
            return fields_refuse(error, "ignore_tags", "an array of strings", names);
        ignored[i] = (struct srv_text){json_string_value(name), json_string_length(name)};
        if (ignored[i].bytes > MAX_TAG_BYTES)
            return deepl_refuse_value(error, "ignore_tags", "expected names of at most 64 bytes");
    }
    return 0;
}

static int parse_ignored(struct call *call, struct srv_error *error)
{
    int rc;
    const json_t *names = find_names(call, "ignore_tags", MAX_TAGS, error, &rc);
    const size_t n = json_array_size(names);

    if (rc != 0 || n == 0)
        return rc;
    if (n > MAX_TAGS)
        return deepl_refuse_value(error, "ignore_tags", "expected at most 100 names");
    call->ignored = calloc(n, sizeof(call->ignored[0]));
    if (!call->ignored)
        return error_no_memory(error);
    if (take_ignored(names, call->ignored, error) != 0)
        return -1;
    call->request.ignored = call->ignored;
    call->request.n_ignored = n;
    return 0;
}

static int parse_markup(struct call *call, struct srv_error *error)
{
    const char *kind = NULL;

    if (parse_choice(call, "tag_handling", " html xml ", &kind, error) != 0 ||
        parse_choice(call, "tag_handling_version", " v1 v2 ", &call->deepl.tag_version, error) != 0)
        return -1;
    if (!kind) {
        call->deepl.tag_version = NULL;
        return 0;
    }
    call->deepl.tag_version = call->deepl.tag_version ? call->deepl.tag_version : "v2";
    call->request.format = strcmp(kind, "html") == 0 ? SRV_HTML : SRV_XML;
    return parse_ignored(call, error);
}

/* ---- Glossaries ------------------------------------------------------------------------------ */

/* glossary_id, or up to five glossary_ids, of which the first that has a term counts. */
static int parse_glossaries(struct call *call, struct srv_error *error)
{
    const char *one = NULL, *source = NULL;
    json_t *ids;
    int rc;

    if (fields_text(&call->fields, "glossary_id", &one, error) != 0 ||
        fields_text(&call->fields, "source_lang", &source, error) != 0)
        return -1;
    ids = find_names(call, "glossary_ids", CALL_MAX_GLOSSARIES, error, &rc);
    if (rc != 0)
        return -1;
    if (one && json_array_size(ids) > 0)
        return deepl_refuse_value(error, "glossary_ids", "expected no glossary_id beside it");
    if (json_array_size(ids) > CALL_MAX_GLOSSARIES)
        return deepl_refuse_value(error, "glossary_ids", "expected at most 5");
    if (one)
        call->glossary_ids[call->n_glossary_ids++] = one;
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const char *id = json_string_value(json_array_get(ids, i));

        if (!id)
            return fields_refuse(error, "glossary_ids", "an array of strings", ids);
        call->glossary_ids[call->n_glossary_ids++] = id;
    }
    if (call->n_glossary_ids > 0 && !source)
        return error_http(error, 400, "source_not_given",
                          "Use of a glossary requires the source_lang parameter to be specified");
    return 0;
}

/* ---- Options --------------------------------------------------------------------------------- */

/* What there is a field for, and nothing here that could do it. */
static int refuse_unsupported(const struct call *call, struct srv_error *error)
{
    static const struct {
        const char *field, *why;
    } refused[] = {
        {"splitting_tags", "elements of XML split no sentence here"},
        {"style_id", "this server has no style rules"},
        {"translation_memory_id", "this server has no translation memories"},
        {"custom_instructions", "the models of this server take no instructions"},
    };

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        const json_t *found = fields_find(&call->fields, refused[i].field);

        if (found && !(json_is_array(found) && json_array_size(found) == 0))
            return deepl_refuse_value(error, refused[i].field, refused[i].why);
    }
    return 0;
}

int deepl_parse_options(struct call *call, struct srv_error *error)
{
    return parse_languages(call, error) != 0 || parse_formality(call, error) != 0 ||
                   parse_glossaries(call, error) != 0
               ? -1
               : refuse_unsupported(call, error);
}

static int parse_flags(struct call *call, struct srv_error *error)
{
    static const char types[] = " quality_optimized latency_optimized prefer_quality_optimized ";
    bool ignored = false;

    call->deepl.shows_characters = true;
    if (fields_flag(&call->fields, "show_billed_characters", &call->deepl.shows_characters,
                    error) ||
        fields_flag(&call->fields, "preserve_formatting", &ignored, error) ||
        fields_flag(&call->fields, "outline_detection", &ignored, error) ||
        parse_choice(call, "model_type", types, &call->deepl.model_type, error))
        return -1;
    return 0;
}

static int parse(struct call *call, struct srv_error *error)
{
    if (texts_parse(call, "text", error) != 0 || deepl_parse_options(call, error) != 0 ||
        parse_split(call, error) != 0 || parse_markup(call, error) != 0)
        return -1;
    return parse_flags(call, error);
}

/* ---- Rendering ------------------------------------------------------------------------------- */

/* There is one kind of model here: it is what was asked for. */
static const char *model_type_used(const struct call *call)
{
    return strcmp(call->deepl.model_type, "latency_optimized") == 0 ? call->deepl.model_type
                                                                    : "quality_optimized";
}

static json_t *render_text(const struct call *call, size_t i, size_t n_chars)
{
    const char *translation = translate_text(call->translate, i, 0);
    const struct srv_text *text = &call->request.texts[i];
    char source[DEEPL_CODE_BYTES];
    json_t *object = json_pack(
        "{s:s, s:o}", "detected_source_language",
        deepl_code(call->is_detected ? call->found[i].code : call->request.source, source), "text",
        translation ? json_string(translation) : json_stringn(text->data, text->bytes));
    int rc = object ? 0 : -1;

    if (rc == 0 && call->deepl.shows_characters)
        rc = json_object_set_new(object, "billed_characters", json_integer((json_int_t)n_chars));
    if (rc == 0 && call->deepl.model_type)
        rc = json_object_set_new(object, "model_type_used", json_string(model_type_used(call)));
    if (rc == 0 && call->deepl.tag_version)
        rc = json_object_set_new(object, "tag_handling_version",
                                 json_string(call->deepl.tag_version));
    if (rc == 0)
        return object;
    json_decref(object);
    return NULL;
}

static size_t count_characters(const struct call *call, size_t i)
{
    return unicode_chars(call->request.texts[i].data, call->request.texts[i].bytes);
}

static json_t *render(const struct call *call)
{
    json_t *list = json_array();

    for (size_t i = 0; i < call->request.n_texts; i++)
        list = json_list_append(list, render_text(call, i, count_characters(call, i)));
    return json_pack("{s:o}", "translations", list);
}

static void count(const struct call *call)
{
    for (size_t i = 0; i < call->request.n_texts; i++)
        call->pending.server->n_characters += count_characters(call, i);
}

/* ---- Its words ------------------------------------------------------------------------------- */

static const struct phrase phrases[] = {
    {"invalid_key", false, "Authorization failure, check auth_key", 0},
    {"key_required", false, "Authorization failure, check auth_key", 0},
    {"too_many_requests", false, "Too many requests: @t", 0},
    {"quota_exceeded", false, "Quota for this billing period has been exceeded.", 456},
    {"text_too_long", false, NULL, 413},
    {"missing_parameter", false, "Parameter '@f' not specified", 0},
    {"language_not_supported", true, "Value for '@f' not supported.", 0},
    {"language_not_detected", false, "Parameter 'source_lang' not specified: @t", 0},
    {"pair_not_available", false, "Value for 'target_lang' not supported: @t", 0},
    {NULL, true, "Value for '@f' not supported: @t", 0},
    {NULL},
};

void deepl_phrase(struct srv_error *error)
{
    static const struct {
        const char *ours, *theirs;
    } names[] = {{"source", "source_lang"}, {"target", "target_lang"}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(error->field, names[i].ours) == 0)
            snprintf(error->field, sizeof(error->field), "%s", names[i].theirs);
    phrase_error(phrases, error);
    if (strcmp(error->code, "quota_exceeded") == 0)
        error->retry_after_s = 0; /* as DeepL: nobody is to come again by himself */
}

static void phrase(const struct call *call, struct srv_error *error)
{
    (void)call;
    deepl_phrase(error);
}

/* ---- Other calls ----------------------------------------------------------------------------- */

int deepl_read_field(struct server *server, struct http_request *request, struct fields *fields,
                     const char *name, const char **value, struct key **key,
                     struct srv_error *error)
{
    const char *const names[] = {"auth_key", name, NULL};
    size_t bytes;

    http_body(request, &bytes);
    *fields = (struct fields){.object = NULL};
    if (bytes > 4096)
        return error_http(error, 413, "body_too_large", "expected a body of at most 4096 bytes");
    if (fields_read(fields, request, names, NULL, error) != 0)
        return -1;
    if (access_check_key(server, request, fields, "auth_key", key, error) != 0) {
        deepl_phrase(error);
        return -1;
    }
    return name ? fields_text(fields, name, value, error) : 0;
}

/* ---- The call -------------------------------------------------------------------------------- */

static const struct dialect dialect = {
    .fields = field_names,
    .key_field = "auth_key",
    .form.repeated = repeated,
    .parse = parse,
    .render = render,
    .count = count,
    .phrase = phrase,
};

void api_deepl_translate(struct server *server, struct http_request *request, const char *rest)
{
    call_start(server, request, rest, &dialect);
}
