/* The parsed vocab.json is the map from piece to id and owns the pieces' text; SentencePiece models
 * have a map of their own. Either way `pieces` is the inverse, in which added tokens stand, too. */
#include "text/vocab.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#define UNKNOWN "<unk>"

enum {
    MAX_VOCAB_BYTES = 64 << 20,
    FAIRSEQ_START = 0,
    FAIRSEQ_PAD = 1,
    FAIRSEQ_END = 2,
    FAIRSEQ_UNKNOWN = 3,
    FAIRSEQ_TOKENS = 4, /* of which a SentencePiece model has three: <unk>, <s>, </s> */
};

/* ---- Tables ---------------------------------------------------------------------------------- */

static int32_t find_in_table(const struct vocab *vocab, const char *piece, size_t bytes)
{
    const json_t *id = json_object_getn(vocab->ids, piece, bytes);
    return id ? (int32_t)json_integer_value(id) : -1;
}

static int open_pieces(struct vocab *vocab, int size, const char *file, struct acre_err *err)
{
    vocab->size = size;
    vocab->pieces = mem_calloc((size_t)size, sizeof(*vocab->pieces));
    vocab->is_special = mem_calloc((size_t)size, sizeof(*vocab->is_special));
    bool is_there = vocab->pieces && vocab->is_special;
    return is_there ? 0 : err_set(err, ACRE_ENOMEM, "%s: out of memory", file);
}

static void note_special(struct vocab *vocab)
{
    const int ids[] = {vocab->unknown, vocab->end, vocab->pad, vocab->start};
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        if (ids[i] >= 0)
            vocab->is_special[ids[i]] = true;
}

static int invert_table(struct vocab *vocab, const struct json_object *file, struct acre_err *err)
{
    const char *piece;
    json_t *id;
    json_object_foreach(vocab->ids, piece, id)
    {
        if (!json_int_in(id, 0, vocab->size - 1)) {
            char expected[64];
            snprintf(expected, sizeof(expected), "an integer from 0 to %d", vocab->size - 1);
            return json_fail(file, piece, expected, id, err);
        }
        const char **place = &vocab->pieces[json_integer_value(id)];
        if (*place)
            return json_fail(file, piece, "an id of its own", id, err);
        *place = piece;
    }
    return 0;
}

static int find_special(struct vocab *vocab, const struct json_object *file, struct acre_err *err)
{
    vocab->unknown = find_in_table(vocab, UNKNOWN, strlen(UNKNOWN));
    vocab->end = find_in_table(vocab, "</s>", 4);
    vocab->pad = find_in_table(vocab, "<pad>", 5);
    vocab->start = find_in_table(vocab, "<s>", 3) == 0 ? 0 : -1;
    if (vocab->unknown < 0)
        return json_fail(file, UNKNOWN, "an id", NULL, err);
    if (vocab->end < 0)
        return json_fail(file, "</s>", "an id", NULL, err);
    note_special(vocab);
    return 0;
}

int vocab_open_table(struct vocab *vocab, const char *directory, const char *name, int size,
                     struct acre_err *err)
{
    struct text text;
    struct json_object file;
    int status = file_read(directory, name, MAX_VOCAB_BYTES, &text, err);
    if (!status)
        status = json_parse(name, text.bytes, text.n, &vocab->ids, &file, err);
    text_fini(&text);
    if (!status)
        status = open_pieces(vocab, size, name, err);
    if (!status)
        status = invert_table(vocab, &file, err);
    return status ? status : find_special(vocab, &file, err);
}

/* ---- SentencePiece's numbers ----------------------------------------------------------------- */

/* The id of number i of the SentencePiece model. */
static int32_t shifted(const struct vocab *vocab, int i)
{
    static const int32_t first[] = {FAIRSEQ_UNKNOWN, FAIRSEQ_START, FAIRSEQ_END};
    if (!vocab->is_shifted)
        return i;
    return i < FAIRSEQ_TOKENS - 1 ? first[i] : i + 1;
}

int vocab_open_spm(struct vocab *vocab, const struct spm *spm, bool is_shifted, int size,
                   const char *file, struct acre_err *err)
{
    int n = spm_size(spm), most = size - (is_shifted ? 1 : 0);
    if (n > most)
        return err_set(err, ACRE_EMODEL,
                       "config.json: vocab_size: expected at least the %d pieces of %s, found %d",
                       n + size - most, file, size);
    if (n < FAIRSEQ_TOKENS)
        return err_set(err, ACRE_EMODEL, "%s: expected at least %d pieces, found %d", file,
                       FAIRSEQ_TOKENS, n);
    int status = open_pieces(vocab, size, file, err);
    if (status)
        return status;
    vocab->spm = spm;
    vocab->is_shifted = is_shifted;
    vocab->start = FAIRSEQ_START;
    vocab->pad = FAIRSEQ_PAD;
    vocab->end = FAIRSEQ_END;
    vocab->unknown = FAIRSEQ_UNKNOWN;
    for (int i = 0; i < n; i++)
        vocab->pieces[shifted(vocab, i)] = spm_piece(spm, i);
    vocab->pieces[FAIRSEQ_PAD] = "<pad>";
    note_special(vocab);
    return 0;
}

/* ---- Both ------------------------------------------------------------------------------------ */

void vocab_close(struct vocab *vocab)
{
    json_decref(vocab->ids);
    mem_free(vocab->pieces);
    mem_free(vocab->is_special);
}

int vocab_end(const struct vocab *vocab)
{
    int end = vocab->size;
    while (end > 0 && !vocab->pieces[end - 1])
        end--;
    return end;
}

static bool is_called(const char *name, const char *piece, size_t bytes)
{
    return name && strlen(name) == bytes && memcmp(name, piece, bytes) == 0;
}

int32_t vocab_piece_id(const struct vocab *vocab, const char *piece, size_t bytes)
{
    if (vocab->ids)
        return find_in_table(vocab, piece, bytes);
    int32_t id = shifted(vocab, spm_find(vocab->spm, piece, bytes));
    return id != vocab->unknown || is_called(vocab->pieces[id], piece, bytes) ? id : -1;
}

int32_t vocab_find(const struct vocab *vocab, const char *piece, size_t bytes)
{
    int32_t id = vocab_piece_id(vocab, piece, bytes);
    if (id >= 0)
        return id;
    for (int i = 0; i < vocab->size; i++)
        if (vocab->is_special[i] && is_called(vocab->pieces[i], piece, bytes))
            return i;
    return -1;
}

const char *vocab_piece(const struct vocab *vocab, int32_t id)
{
    return id >= 0 && id < vocab->size ? vocab->pieces[id] : NULL;
}

bool vocab_is_special(const struct vocab *vocab, int32_t id)
{
    return id >= 0 && id < vocab->size && vocab->is_special[id];
}
