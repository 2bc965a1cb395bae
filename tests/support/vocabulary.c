#include "vocabulary.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

static void add(struct vocabulary *vocabulary, const char *token)
{
    vocabulary->tokens[vocabulary->n++] = strdup(token);
}

static void add_bytes(struct vocabulary *vocabulary)
{
    char token[8];
    vocabulary->tokens = calloc(256, sizeof(*vocabulary->tokens));
    for (int byte = 1; byte < 256; byte++) {
        snprintf(token, sizeof(token), byte > ' ' && byte < 0x7F ? "%c" : "<0x%02X>", byte);
        add(vocabulary, token);
    }
}

void vocabulary_init(struct vocabulary *vocabulary, const char *directory)
{
    char path[512];
    const char *token;
    json_t *id, *file;
    *vocabulary = (struct vocabulary){.n = 0};
    snprintf(path, sizeof(path), "%s/tokenizer_config.json", directory);
    file = json_load_file(path, 0, NULL);
    const char *class = json_string_value(json_object_get(file, "tokenizer_class"));
    if (class && strcmp(class, "ByteTokenizer") == 0) {
        add_bytes(vocabulary);
        json_decref(file);
        return;
    }
    json_decref(file);
    snprintf(path, sizeof(path), "%s/vocab.json", directory);
    file = json_load_file(path, 0, NULL);
    if (!file) {
        fprintf(stderr, "%s: cannot be read\n", path);
        abort();
    }
    vocabulary->tokens = calloc(json_object_size(file), sizeof(*vocabulary->tokens));
    json_object_foreach(file, token, id) if (token[0] != '<') add(vocabulary, token);
    json_decref(file);
}

void vocabulary_fini(struct vocabulary *vocabulary)
{
    for (size_t i = 0; i < vocabulary->n; i++)
        free(vocabulary->tokens[i]);
    free(vocabulary->tokens);
}

char *vocabulary_line(const struct vocabulary *vocabulary, size_t n_tokens)
{
    size_t bytes = 1, used = 0;
    const char **chosen = malloc((n_tokens + 1) * sizeof(*chosen));
    for (size_t i = 0; i < n_tokens; i++) {
        chosen[i] = vocabulary->tokens[random_pick(0, vocabulary->n - 1)];
        bytes += strlen(chosen[i]) + 1;
    }
    char *line = calloc(bytes, 1);
    for (size_t i = 0; i < n_tokens; i++)
        used += (size_t)snprintf(line + used, bytes - used, "%s%s", i ? " " : "", chosen[i]);
    free(chosen);
    return line;
}
