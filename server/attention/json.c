#include "attention/json.h"

#include "common/json.h"

json_t *attention_json_tokens(const char *const *tokens, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        json_t *token = json_string(tokens[i]);

        list = json_list_append(list, token ? token : json_string("\xef\xbf\xbd"));
    }
    return list;
}

/* More digits say nothing, and would double the size. */
static void put_areas(const struct acre_attention *attention, size_t place, FILE *out)
{
    putc('[', out);
    for (size_t i = attention->first[place]; i < attention->first[place + 1]; i++) {
        const struct acre_area *area = &attention->areas[i];

        fprintf(out, "%s{\"first\":%d,", i > attention->first[place] ? "," : "", area->first);
        if (area->height > 1)
            fprintf(out, "\"height\":%d,", area->height);
        fprintf(out, "\"weight\":%.6g,\"width\":%d}", (double)area->weight, area->width);
    }
    putc(']', out);
}

static void put_head(const struct acre_attention *attention, size_t layer, size_t head, FILE *out)
{
    const size_t first = (layer * attention->n_heads + head) * attention->n_target;

    fputs(head > 0 ? ",{\"tokens\":[" : "{\"tokens\":[", out);
    for (size_t t = 0; t < attention->n_target; t++) {
        if (t > 0)
            putc(',', out);
        put_areas(attention, first + t, out);
    }
    fputs("]}", out);
}

static void put_layers(const struct acre_attention *attention, FILE *out)
{
    putc('[', out);
    for (size_t layer = 0; layer < attention->n_layers; layer++) {
        fputs(layer > 0 ? ",{\"heads\":[" : "{\"heads\":[", out);
        for (size_t head = 0; head < attention->n_heads; head++)
            put_head(attention, layer, head, out);
        fputs("]}", out);
    }
    putc(']', out);
}

static void put_ranges(const struct acre_range *ranges, size_t n, FILE *out)
{
    putc('[', out);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%s[%zu,%zu]", i > 0 ? "," : "", ranges[i].first,
                ranges[i].first + ranges[i].n_bytes);
    putc(']', out);
}

bool attention_json_write(const struct acre_attention *attention, FILE *out)
{
    const size_t n_source = attention->n_source, n_target = attention->n_target;
    struct json_object object;

    json_object_begin(&object, out);
    if (attention->n_columns < n_source)
        json_object_member(&object, "columns", json_integer((json_int_t)attention->n_columns));
    json_object_key(&object, "layers");
    put_layers(attention, out);
    json_object_member(&object, "source", attention_json_tokens(attention->source, n_source));
    json_object_key(&object, "source_ranges");
    put_ranges(attention->source_ranges, n_source, out);
    json_object_member(&object, "target", attention_json_tokens(attention->target, n_target));
    json_object_key(&object, "target_ranges");
    put_ranges(attention->target_ranges, n_target, out);
    return json_object_end(&object);
}
