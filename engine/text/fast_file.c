/* Happy path: the pieces by number and their scores -> what stands in the text before them
 * (normaliser, pre-tokeniser) -> a protocol buffer. SentencePiece joins the pair whose piece has
 * the best score, `tokenizers` the pair that is first in a list: the first merge that makes a piece
 * is its score. Failure modes: what a SentencePiece model has no way to say is refused with its
 * field. Whether the tables are sound is for spm_file_check() to say, as of any model. */
#include "text/fast_file.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/utf8.h"

#define FILE_NAME "tokenizer.json"

enum { MAX_PIECES = 1 << 20, FIRST_PIECES = 4 };
enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED }; /* types of pieces, as SentencePiece's */
enum { UNIGRAM = 1, BPE };                           /* and of models */

struct piece {
    const char *text; /* borrowed; NULL: no piece has the number */
    float score;
    int type;
};

struct fast {
    struct json_object root, model;
    int kind;
    struct piece *pieces; /* owned, [n] */
    size_t n, capacity;
    bool has_charsmap;
    const char *charsmap; /* base64; NULL: it is no string */
    bool has_prefix;      /* a space is put before the text */
};

/* ---- Pieces ---------------------------------------------------------------------------------- */

static int no_memory(struct acre_err *err)
{
    return err_set(err, ACRE_ENOMEM, FILE_NAME ": out of memory");
}

static int put_piece(struct fast *fast, const struct json_object *object, const char *text,
                     json_int_t number, struct piece piece, struct acre_err *err)
{
    if (number < 0 || number >= MAX_PIECES)
        return err_set(err, ACRE_EMODEL,
                       FILE_NAME ": %s%.40s: expected a number from 0 to %d, found %lld",
                       object->path, text, MAX_PIECES - 1, (long long)number);
    size_t wanted = (size_t)number + 1;
    if (mem_reserve(&fast->pieces, &fast->capacity, wanted, sizeof(*fast->pieces)))
        return no_memory(err);
    for (; fast->n < wanted; fast->n++)
        fast->pieces[fast->n] = (struct piece){.text = NULL};
    if (fast->pieces[number].text)
        return err_set(err, ACRE_EMODEL,
                       FILE_NAME ": %s%.40s: expected a number of its own, found %lld of %.40s",
                       object->path, text, (long long)number, fast->pieces[number].text);
    fast->pieces[number] = piece;
    fast->pieces[number].text = text;
    return 0;
}

/* A merge is "a b", or ["a", "b"] in newer files. Returns false if it is neither, or too long. */
static bool join_merge(const json_t *merge, char *joined, size_t room)
{
    const char *pair = json_string_value(merge);
    if (pair) {
        const char *space = strchr(pair, ' ');
        return space &&
               snprintf(joined, room, "%.*s%s", (int)(space - pair), pair, space + 1) < (int)room;
    }
    const char *left = json_string_value(json_array_get(merge, 0));
    const char *right = json_string_value(json_array_get(merge, 1));
    return left && right && snprintf(joined, room, "%s%s", left, right) < (int)room;
}

static int read_merges(struct fast *fast, const json_t *vocab, struct acre_err *err)
{
    const json_t *merges = json_find(&fast->model, "merges");
    if (!json_is_array(merges))
        return json_fail(&fast->model, "merges", "a list of pairs of pieces", merges, err);
    for (size_t i = 0; i < json_array_size(merges); i++) {
        char joined[1024];
        const json_t *merge = json_array_get(merges, i);
        const json_t *number =
            join_merge(merge, joined, sizeof(joined)) ? json_object_get(vocab, joined) : NULL;
        if (!number)
            return json_fail(&fast->model, "merges", "pairs of pieces that are a piece", merge,
                             err);
        struct piece *piece = &fast->pieces[json_integer_value(number)];
        if (piece->score == 0.0f)
            piece->score = -(float)(i + 1);
    }
    return 0;
}

static bool is_character(const char *text)
{
    size_t bytes = strlen(text), at = 0;
    return bytes > 0 && utf8_next(text, bytes, &at) >= 0 && at == bytes;
}

static int read_bpe(struct fast *fast, struct acre_err *err)
{
    const json_t *vocab = json_find(&fast->model, "vocab");
    const char *text;
    json_t *number;
    if (!json_is_object(vocab))
        return json_fail(&fast->model, "vocab", "an object of pieces and numbers", vocab, err);
    json_object_foreach((json_t *)(uintptr_t)vocab, text, number)
    {
        if (!json_is_integer(number))
            return json_fail(&fast->model, "vocab", "numbers of pieces", number, err);
        int status = put_piece(fast, &fast->model, text, json_integer_value(number),
                               (struct piece){.type = NORMAL}, err);
        if (status)
            return status;
    }
    int status = read_merges(fast, vocab, err);
    for (size_t i = 0; i < fast->n; i++) {
        struct piece *piece = &fast->pieces[i];
        if (piece->text && piece->score == 0.0f && !is_character(piece->text))
            piece->type = CONTROL; /* no merge makes it */
    }
    return status;
}

static int read_unigram(struct fast *fast, struct acre_err *err)
{
    const json_t *vocab = json_find(&fast->model, "vocab");
    if (!json_is_array(vocab))
        return json_fail(&fast->model, "vocab", "a list of pieces and scores", vocab, err);
    for (size_t i = 0; i < json_array_size(vocab); i++) {
        const json_t *item = json_array_get(vocab, i), *score = json_array_get(item, 1);
        const char *text = json_string_value(json_array_get(item, 0));
        if (!text || !json_is_number(score))
            return json_fail(&fast->model, "vocab", "pieces with scores", item, err);
        const struct piece piece = {.type = NORMAL, .score = (float)json_number_value(score)};
        int status = put_piece(fast, &fast->model, text, (json_int_t)i, piece, err);
        if (status)
            return status;
    }
    return 0;
}

/* Some are among the pieces, others stand behind them. Special ones never come of a text. */
static int read_added(struct fast *fast, struct acre_err *err)
{
    const json_t *list = json_find(&fast->root, "added_tokens");
    if (list && !json_is_array(list))
        return json_fail(&fast->root, "added_tokens", "a list", list, err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *token = json_array_get(list, i), *id = json_object_get(token, "id");
        const char *text = json_string_value(json_object_get(token, "content"));
        json_int_t number = json_is_integer(id) ? json_integer_value(id) : -1;
        if (!text || number < 0)
            return json_fail(&fast->root, "added_tokens", "tokens with id and content", token, err);
        struct piece piece = {
            .type = json_is_true(json_object_get(token, "special")) ? CONTROL : USER_DEFINED};
        bool is_there = (size_t)number < fast->n && fast->pieces[number].text &&
                        strcmp(fast->pieces[number].text, text) == 0;
        if (is_there) {
            fast->pieces[number].type = piece.type;
            continue;
        }
        int status = put_piece(fast, &fast->root, text, number, piece, err);
        if (status)
            return status;
    }
    return 0;
}

static int check_pieces(struct fast *fast, struct acre_err *err)
{
    static const char *const first[FIRST_PIECES] = {"<s>", "<pad>", "</s>", "<unk>"};
    for (size_t i = 0; i < FIRST_PIECES; i++) {
        const char *text = i < fast->n ? fast->pieces[i].text : NULL;
        if (!text || strcmp(text, first[i]) != 0)
            return err_set(err, ACRE_EMODEL,
                           FILE_NAME ": model.vocab: expected %s with the number %zu, found %.40s",
                           first[i], i, text ? text : "nothing");
        fast->pieces[i].type = i + 1 == FIRST_PIECES ? UNKNOWN : CONTROL;
    }
    for (size_t i = 0; i < fast->n; i++)
        if (!fast->pieces[i].text)
            return err_set(err, ACRE_EMODEL,
                           FILE_NAME ": model.vocab: expected a piece with the number %zu, found "
                                     "nothing",
                           i);
    return 0;
}

static int read_model(struct fast *fast, struct acre_err *err)
{
    int status = json_opt_object(&fast->root, "model", &fast->model, err);
    if (status || !fast->model.value)
        return status ? status : json_fail(&fast->root, "model", "an object", NULL, err);
    const json_t *type = json_find(&fast->model, "type");
    const char *name = type ? json_string_value(type) : "BPE";
    if (!name || (strcmp(name, "BPE") != 0 && strcmp(name, "Unigram") != 0))
        return json_fail(&fast->model, "type", "BPE or Unigram", type, err);
    fast->kind = strcmp(name, "BPE") == 0 ? BPE : UNIGRAM;
    if (json_is_true(json_find(&fast->model, "byte_fallback")))
        return json_fail(&fast->model, "byte_fallback", "false",
                         json_find(&fast->model, "byte_fallback"), err);
    status = fast->kind == BPE ? read_bpe(fast, err) : read_unigram(fast, err);
    if (!status)
        status = read_added(fast, err);
    return status ? status : check_pieces(fast, err);
}

/* ---- What comes before the pieces ------------------------------------------------------------ */

typedef bool step_fn(struct fast *fast, const char *type, const json_t *step);

/* One step, or a sequence of them, or null. */
static int read_steps(struct fast *fast, const char *field, const char *list, step_fn *read,
                      const char *expected, struct acre_err *err)
{
    const json_t *only = json_find(&fast->root, field);
    const json_t *steps = json_object_get(only, list);
    size_t n = json_is_array(steps) ? json_array_size(steps) : only ? 1 : 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *step = json_is_array(steps) ? json_array_get(steps, i) : only;
        const char *type = json_string_value(json_object_get(step, "type"));
        if (!type || !read(fast, type, step))
            return json_fail(&fast->root, field, expected, step, err);
    }
    return 0;
}

/* SentencePiece makes one space of several, and drops those at the ends. */
static bool read_normalizer(struct fast *fast, const char *type, const json_t *step)
{
    if (strcmp(type, "Precompiled") == 0) {
        fast->has_charsmap = true;
        fast->charsmap = json_string_value(json_object_get(step, "precompiled_charsmap"));
    }
    return !strcmp(type, "Precompiled") || !strcmp(type, "Replace") || !strcmp(type, "Strip");
}

static bool read_splitter(struct fast *fast, const char *type, const json_t *step)
{
    const char *scheme = json_string_value(json_object_get(step, "prepend_scheme"));
    if (strcmp(type, "Metaspace") == 0)
        fast->has_prefix = scheme ? strcmp(scheme, "never") != 0
                                  : !json_is_false(json_object_get(step, "add_prefix_space"));
    return !strcmp(type, "Metaspace") || !strcmp(type, "WhitespaceSplit");
}

/* ---- The protocol buffer --------------------------------------------------------------------- */

struct buffer {
    char *bytes; /* owned */
    size_t n, capacity;
    bool has_failed;
};

static void put(struct buffer *buffer, const void *bytes, size_t n)
{
    if (buffer->has_failed ||
        mem_reserve(&buffer->bytes, &buffer->capacity, buffer->n + n + 1, 1)) {
        buffer->has_failed = true;
        return;
    }
    memcpy(buffer->bytes + buffer->n, bytes, n);
    buffer->n += n;
}

static void put_varint(struct buffer *buffer, uint64_t value)
{
    unsigned char bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[n++] = (unsigned char)(value | 0x80);
    bytes[n++] = (unsigned char)value;
    put(buffer, bytes, n);
}

static void put_number(struct buffer *buffer, unsigned field, uint64_t value)
{
    put_varint(buffer, field << 3);
    put_varint(buffer, value);
}

static void put_bytes(struct buffer *buffer, unsigned field, const void *bytes, size_t n)
{
    put_varint(buffer, field << 3 | 2);
    put_varint(buffer, n);
    put(buffer, bytes, n);
}

static void put_message(struct buffer *buffer, unsigned field, struct buffer *message)
{
    buffer->has_failed |= message->has_failed;
    put_bytes(buffer, field, message->n > 0 ? message->bytes : "", message->n);
    message->n = 0;
}

static void put_pieces(struct buffer *model, const struct fast *fast, struct buffer *message)
{
    for (size_t i = 0; i < fast->n; i++) {
        const struct piece *piece = &fast->pieces[i];
        float score = piece->score;
        put_bytes(message, 1, piece->text, strlen(piece->text));
        put_varint(message, 2 << 3 | 5);
        put(message, &score, sizeof(score));
        put_number(message, 3, (uint64_t)piece->type);
        put_message(model, 1, message);
    }
}

static int digit_of(char character)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *place = character ? strchr(digits, character) : NULL;
    return place ? (int)(place - digits) : -1;
}

/* Base64 with padding. False if it is not. */
static bool put_charsmap(struct buffer *out, const char *text)
{
    size_t n = strlen(text);
    if (n % 4 != 0)
        return false;
    for (size_t i = 0; i < n; i += 4) {
        int padding = i + 4 == n ? (text[n - 1] == '=') + (text[n - 2] == '=') : 0;
        uint32_t word = 0;
        for (int k = 0; k < 4; k++) {
            int digit = k < 4 - padding ? digit_of(text[i + (size_t)k]) : 0;
            if (digit < 0)
                return false;
            word = word << 6 | (uint32_t)digit;
        }
        const char bytes[3] = {(char)(word >> 16), (char)(word >> 8), (char)word};
        put(out, bytes, (size_t)(3 - padding));
    }
    return true;
}

static int put_normalizer(struct buffer *model, const struct fast *fast, struct buffer *message,
                          struct acre_err *err)
{
    struct buffer charsmap = {.bytes = NULL};
    bool is_sound =
        !fast->has_charsmap || (fast->charsmap && put_charsmap(&charsmap, fast->charsmap));
    if (charsmap.n > 0)
        put_bytes(message, 2, charsmap.bytes, charsmap.n);
    message->has_failed |= charsmap.has_failed;
    put_number(message, 3, fast->has_prefix);
    put_number(message, 4, 1); /* remove_extra_whitespaces */
    put_number(message, 5, 1); /* escape_whitespaces */
    put_message(model, 3, message);
    mem_free(charsmap.bytes);
    return is_sound ? 0
                    : err_set(err, ACRE_EMODEL,
                              FILE_NAME ": normalizer: expected a precompiled_charsmap in base64, "
                                        "found something else");
}

static int put_model(const struct fast *fast, struct text *out, struct acre_err *err)
{
    struct buffer model = {.bytes = NULL}, message = {.bytes = NULL};
    put_pieces(&model, fast, &message);
    put_number(&message, 3, (uint64_t)fast->kind);
    put_message(&model, 2, &message);
    int status = put_normalizer(&model, fast, &message, err);
    if (!status && model.has_failed)
        status = no_memory(err);
    mem_free(message.bytes);
    if (status) {
        mem_free(model.bytes);
        return status;
    }
    model.bytes[model.n] = '\0';
    *out = (struct text){model.bytes, model.n};
    return 0;
}

/* ---- Reading --------------------------------------------------------------------------------- */

int fast_file_read(const struct text *json, struct text *model, struct acre_err *err)
{
    struct fast fast = {.has_prefix = true};
    json_t *root = NULL;
    *model = (struct text){.bytes = NULL};
    int status = json_parse(FILE_NAME, json->bytes, json->n, &root, &fast.root, err);
    if (!status)
        status = read_model(&fast, err);
    if (!status)
        status = read_steps(&fast, "normalizer", "normalizers", read_normalizer,
                            "Precompiled, Replace and Strip only", err);
    if (!status)
        status = read_steps(&fast, "pre_tokenizer", "pretokenizers", read_splitter,
                            "Metaspace and WhitespaceSplit only", err);
    if (!status)
        status = put_model(&fast, model, err);
    mem_free(fast.pieces);
    json_decref(root);
    return status;
}
