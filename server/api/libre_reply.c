/* What a reply of LibreTranslate's call has: a member of every text, or of the only one. Members
 * that were not asked for are left out; "truncated" appears where a sentence was cut.
 *
 * Failure modes: no memory, which json_object_end() tells. */
#include <stdio.h>
#include <string.h>

#include "api/libre.h"
#include "common/json.h"
#include "serve/sentences.h"

/* ---- Texts ----------------------------------------------------------------------------------- */

static json_t *render_text(const struct call *call, size_t i)
{
    const char *text = translate_text(call->translate, i, 0);

    if (text)
        return json_string(text);
    return json_stringn(call->request.texts[i].data, call->request.texts[i].bytes);
}

/* Whether hypothesis h says what none before it says. */
static bool is_other(const struct call *call, size_t i, size_t h)
{
    const char *text = translate_text(call->translate, i, h);

    for (size_t k = 0; k < h; k++)
        if (strcmp(translate_text(call->translate, i, k), text) == 0)
            return false;
    return text[0] != '\0';
}

/* Hypotheses are other tokens, but maybe the same text. As in LibreTranslate, each stands there
 * once. */
static json_t *render_alternatives(const struct call *call, size_t i)
{
    json_t *list = json_array();
    const char *text;

    for (size_t h = 1; (text = translate_text(call->translate, i, h)); h++)
        if (is_other(call, i, h))
            list = json_list_append(list, json_string(text));
    return list;
}

/* A blank text is certainly itself: the logarithm of its probability is 0. */
static json_t *render_score(const struct call *call, size_t i)
{
    const struct acre_result *result = translate_result(call->translate, i);

    return json_real(result ? result->hypotheses[0].normalized_score : 0);
}

static json_t *render_detected(const struct call *call, size_t i)
{
    return json_pack("{s:i, s:s}", "confidence", call->found[i].confidence, "language",
                     call->found[i].code);
}

static bool is_truncated(const struct call *call, size_t i)
{
    const struct acre_result *result = translate_result(call->translate, i);

    return result && result->hypotheses[0].is_truncated;
}

static json_t *render_truncated(const struct call *call, size_t i)
{
    return json_boolean(is_truncated(call, i));
}

static bool is_any_truncated(const struct call *call)
{
    for (size_t i = 0; i < call->request.n_texts; i++)
        if (is_truncated(call, i))
            return true;
    return false;
}

typedef json_t *render_fn(const struct call *call, size_t i);

/* One member: of every text as an array, or of the only text. */
static void put_each(const struct call *call, struct json_object *body, const char *key,
                     render_fn *render, bool as_array)
{
    json_t *list = as_array ? json_array() : render(call, 0);

    for (size_t i = 0; as_array && i < call->request.n_texts; i++)
        list = json_list_append(list, render(call, i));
    json_object_member(body, key, list);
}

/* ---- Where it stands ------------------------------------------------------------------------- */

/* Ranges are [first, end), of bytes. */
static void put_ranges(FILE *out, const struct acre_alignment *where)
{
    fprintf(out, "\"source\":[%zu,%zu],\"target\":[%zu,%zu]", where->source.first,
            where->source.first + where->source.n_bytes, where->target.first,
            where->target.first + where->target.n_bytes);
}

/* Tokens without a text of their own are left out. */
static void put_alignments(FILE *out, const struct acre_alignment *items, size_t n)
{
    bool is_first = true;

    putc('[', out);
    for (size_t i = 0; i < n; i++) {
        if (items[i].target.n_bytes == 0)
            continue;
        fputs(is_first ? "{" : ",{", out);
        put_ranges(out, &items[i]);
        putc('}', out);
        is_first = false;
    }
    putc(']', out);
}

static void put_text_alignments(const struct call *call, size_t i, FILE *out)
{
    const struct srv_alignments found = translate_alignments(call->translate, i);

    put_alignments(out, found.items, found.n);
}

static void put_text_sentences(const struct call *call, size_t i, FILE *out)
{
    const struct acre_result *result = translate_result(call->translate, i);
    struct acre_alignment where;

    putc('[', out);
    for (size_t s = 0; translate_sentence(call->translate, i, s, &where); s++) {
        const struct acre_part *part = &result->hypotheses[0].parts[s];

        fprintf(out, "%s{\"score\":%.9g,", s > 0 ? "," : "", part->normalized_score);
        put_ranges(out, &where);
        fprintf(out, ",\"truncated\":%s}", part->is_truncated ? "true" : "false");
    }
    putc(']', out);
}

typedef void put_fn(const struct call *call, size_t i, FILE *out);

/* Of every text, always as an array. */
static void put_list(const struct call *call, struct json_object *body, const char *key,
                     put_fn *put)
{
    json_object_key(body, key);
    putc('[', body->out);
    for (size_t i = 0; i < call->request.n_texts; i++) {
        if (i > 0)
            putc(',', body->out);
        put(call, i, body->out);
    }
    putc(']', body->out);
}

/* ---- The reply ------------------------------------------------------------------------------- */

bool libre_write_reply(const struct call *call, FILE *out, struct acre_err *err)
{
    struct json_object body;

    (void)err;
    json_object_begin(&body, out);
    if (call->libre.wants_alignments)
        put_list(call, &body, "alignments", put_text_alignments);
    if (call->libre.n_alternatives > 0)
        put_each(call, &body, "alternatives", render_alternatives, call->is_array);
    if (call->is_detected)
        put_each(call, &body, "detectedLanguage", render_detected, call->is_array);
    if (call->libre.wants_scores)
        put_each(call, &body, "scores", render_score, true);
    if (call->libre.wants_sentences)
        put_list(call, &body, "sentences", put_text_sentences);
    put_each(call, &body, "translatedText", render_text, call->is_array);
    if (is_any_truncated(call))
        put_each(call, &body, "truncated", render_truncated, call->is_array);
    return json_object_end(&body);
}

static void put_words(struct json_object *body, const char *key, struct srv_text text)
{
    if (text.bytes > 0)
        json_object_member(body, key, json_stringn(text.data, text.bytes));
}

bool libre_write_sentence(const struct call *call, size_t index,
                          const struct srv_sentence *sentence, FILE *out)
{
    const bool has_ranges = sentence->target.n_bytes > 0;
    struct json_object body;

    json_object_begin(&body, out);
    put_words(&body, "after", sentence->after);
    if (call->libre.wants_alignments) {
        json_object_key(&body, "alignments");
        put_alignments(out, sentence->alignments, sentence->n_alignments);
    }
    put_words(&body, "before", sentence->before);
    if (call->is_detected && sentence->number == 0)
        json_object_member(&body, "detectedLanguage", render_detected(call, index));
    json_object_member(&body, "index", json_integer((json_int_t)index));
    if (call->libre.wants_scores || call->libre.wants_sentences)
        json_object_member(&body, "score", json_real(sentence->part.normalized_score));
    json_object_member(&body, "sentence", json_integer((json_int_t)sentence->number));
    if (call->libre.wants_sentences && has_ranges) {
        const struct acre_alignment where = {sentence->source, sentence->target};

        putc(',', out);
        put_ranges(out, &where);
    }
    json_object_member(&body, "translatedText",
                       sentence->text.data ? json_stringn(sentence->text.data, sentence->text.bytes)
                                           : render_text(call, index));
    if (call->libre.wants_sentences || sentence->part.is_truncated)
        json_object_member(&body, "truncated", json_boolean(sentence->part.is_truncated));
    return json_object_end(&body);
}
