#include "common/json.h"

#include <string.h>

json_t *json_list_append(json_t *list, json_t *item)
{
    if (json_array_append_new(list, item) == 0)
        return list;
    json_decref(list);
    return NULL;
}

bool json_put(FILE *out, json_t *value)
{
    const bool is_put = value && json_dumpf(value, out, JSON_FLAGS | JSON_ENCODE_ANY) == 0;

    json_decref(value);
    return is_put;
}

char *json_text(json_t *value)
{
    char *text = value ? json_dumps(value, JSON_FLAGS) : NULL;

    json_decref(value);
    return text;
}

char *json_line(json_t *value, size_t *bytes)
{
    char *text = json_text(value);

    *bytes = text ? strlen(text) + 1 : 0;
    if (text)
        text[*bytes - 1] = '\n';
    return text;
}

void json_object_begin(struct json_object *object, FILE *out)
{
    *object = (struct json_object){.out = out};
    putc('{', out);
}

void json_object_key(struct json_object *object, const char *key)
{
    fprintf(object->out, "%s\"%s\":", object->has_members ? "," : "", key);
    object->has_members = true;
}

void json_object_member(struct json_object *object, const char *key, json_t *value)
{
    json_object_key(object, key);
    if (object->has_failed || !json_put(object->out, value))
        object->has_failed = true;
}

bool json_object_end(struct json_object *object)
{
    putc('}', object->out);
    return !object->has_failed && !ferror(object->out);
}
