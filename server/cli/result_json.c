#include "cli/result_json.h"

#include <math.h>

#include "common/error.h"
#include "common/json.h"
#include "attention/json.h"

static json_t *hypothesis_json(const struct acre_hypothesis *h)
{
    json_t *object = json_pack("{s:s, s:o, s:f, s:f}", "text", h->text, "tokens",
                               attention_json_tokens(h->tokens, h->n_tokens), "score", h->score,
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

static int put_attention(const struct acre_job *job, FILE *out, struct acre_err *err)
{
    const size_t n = job ? acre_job_result(job)->n_sentences : 0;

    putc('[', out);
    for (size_t i = 0; i < n; i++) {
        struct acre_attention *attention;
        bool is_whole;

        if (acre_attention_open(job, i, ATTENTION_JSON_LEAST, &attention, err) != 0)
            return err->code;
        if (i > 0)
            putc(',', out);
        is_whole = attention_json_write(attention, out);
        acre_attention_close(attention);
        if (!is_whole)
            return error_set(err, ACRE_ENOMEM, "no memory for the result as JSON");
    }
    putc(']', out);
    return 0;
}

int result_json_write(const struct acre_job *job, bool has_attention, FILE *out,
                      struct acre_err *err)
{
    struct json_object root;

    json_object_begin(&root, out);
    if (has_attention) {
        json_object_key(&root, "attention");
        if (put_attention(job, out, err) != 0)
            return err->code;
    }
    json_object_member(&root, "hypotheses", hypotheses_json(job ? acre_job_result(job) : NULL));
    if (!json_object_end(&root))
        return error_set(err, ACRE_EIO, "the result cannot be written as JSON");
    putc('\n', out);
    return 0;
}

/* JSON has no infinity. */
static json_t *number_json(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

int score_json_write(const struct acre_job *job, FILE *out, struct acre_err *err)
{
    const struct acre_hypothesis *h = acre_job_result(job)->hypotheses;
    struct json_object root;

    json_object_begin(&root, out);
    json_object_member(&root, "score", number_json(h->score));
    json_object_member(&root, "normalized_score", number_json(h->normalized_score));
    json_object_member(&root, "tokens", attention_json_tokens(h->tokens, h->n_tokens));
    if (!json_object_end(&root))
        return error_set(err, ACRE_EIO, "the result cannot be written as JSON");
    putc('\n', out);
    return 0;
}
