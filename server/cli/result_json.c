#include "cli/result_json.h"

#include <math.h>

#include "common/error.h"
#include "common/json.h"

static json_t *tokens_json(const char *const *tokens, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        json_t *token = json_string(tokens[i]);

        /* a byte token may be a part of a character */
        list = json_list_append(list, token ? token : json_string("\xef\xbf\xbd"));
    }
    return list;
}

static json_t *hypothesis_json(const struct acre_hypothesis *h)
{
    json_t *object = json_pack("{s:s, s:o, s:f, s:f}", "text", h->text, "tokens",
                               tokens_json(h->tokens, h->n_tokens), "score", h->score,
                               "normalized_score", h->normalized_score);

    if (object && h->is_truncated && json_object_set_new(object, "truncated", json_true()) != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *hypotheses_json(const struct acre_result *result)
{
    const struct acre_hypothesis none = {.text = ""};
    json_t *list = json_array();

    for (size_t i = 0; result && i < result->n_hypotheses; i++)
        list = json_list_append(list, hypothesis_json(&result->hypotheses[i]));
    return result ? list : json_list_append(list, hypothesis_json(&none));
}

/* ---- Attention ------------------------------------------------------------------------------- */

static json_t *area_json(const struct acre_area *area)
{
    /* more digits than that say nothing, and would double the size */
    const double weight = round((double)area->weight * 1e6) / 1e6;
    json_t *object =
        json_pack("{s:i, s:i, s:f}", "first", area->first, "width", area->width, "weight", weight);

    if (object && area->height > 1 &&
        json_object_set_new(object, "height", json_integer(area->height)) != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *areas_json(const struct acre_attention *attention, size_t place)
{
    json_t *list = json_array();

    for (size_t i = attention->first[place]; i < attention->first[place + 1]; i++)
        list = json_list_append(list, area_json(&attention->areas[i]));
    return list;
}

static json_t *head_json(const struct acre_attention *attention, size_t layer, size_t head)
{
    const size_t first = (layer * attention->n_heads + head) * attention->n_target;
    json_t *list = json_array();

    for (size_t t = 0; t < attention->n_target; t++)
        list = json_list_append(list, areas_json(attention, first + t));
    return json_pack("{s:o}", "tokens", list);
}

static json_t *layers_json(const struct acre_attention *attention)
{
    json_t *layers = json_array();

    for (size_t layer = 0; layer < attention->n_layers; layer++) {
        json_t *heads = json_array();

        for (size_t head = 0; head < attention->n_heads; head++)
            heads = json_list_append(heads, head_json(attention, layer, head));
        layers = json_list_append(layers, json_pack("{s:o}", "heads", heads));
    }
    return layers;
}

static json_t *sentence_json(const struct acre_attention *attention)
{
    json_t *object = json_pack(
        "{s:o, s:o, s:o}", "source", tokens_json(attention->source, attention->n_source), "target",
        tokens_json(attention->target, attention->n_target), "layers", layers_json(attention));

    if (object && attention->n_columns < attention->n_source &&
        json_object_set_new(object, "columns", json_integer((json_int_t)attention->n_columns))) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* *list is owned by the caller, NULL without memory. */
static int sentences_json(const struct acre_job *job, json_t **list, struct acre_err *err)
{
    const size_t n = job ? acre_job_result(job)->n_sentences : 0;

    *list = json_array();
    for (size_t i = 0; i < n; i++) {
        struct acre_attention *attention;

        if (acre_attention_open(job, i, RESULT_JSON_LEAST, &attention, err) != 0) {
            json_decref(*list);
            return err->code;
        }
        *list = json_list_append(*list, sentence_json(attention));
        acre_attention_close(attention);
    }
    return 0;
}

json_t *result_json(const struct acre_job *job, bool has_attention, struct acre_err *err)
{
    json_t *root =
        json_pack("{s:o}", "hypotheses", hypotheses_json(job ? acre_job_result(job) : NULL));
    json_t *sentences = NULL;

    if (has_attention && sentences_json(job, &sentences, err) != 0) {
        json_decref(root);
        return NULL;
    }
    if (has_attention && json_object_set_new(root, "attention", sentences) != 0) {
        json_decref(root);
        root = NULL;
    }
    if (!root)
        error_set(err, ACRE_ENOMEM, "no memory for the result as JSON");
    return root;
}
