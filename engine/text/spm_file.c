/* Happy path: walk the fields of ModelProto -> of each piece note what is user-defined, of the
 * normaliser's specification check the character map -> sort the user-defined pieces and see how
 * many begin one another.
 * Failure modes: what is not a protocol buffer to the letter, a table that is unsound, too many
 * nested pieces, or one that is no UTF-8: ACRE_EMODEL; the library never sees such a file. */
#include "text/spm_file.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "text/charsmap.h"
#include "text/utf8.h"

enum { VARINT, FIXED64, BYTES, FIXED32 = 5 }; /* wire types of protocol buffers */
/* Field numbers of ModelProto, of its pieces, and of NormalizerSpec in sentencepiece_model.proto.
 */
enum { PIECES = 1, NORMALIZER = 3, DENORMALIZER = 5 };
enum { PIECE = 1, TYPE = 3, USER_DEFINED = 4 };
enum { PRECOMPILED_CHARSMAP = 2 };

/* In PrefixMatcher::PrefixMatch(): kResultSize. */
enum { MAX_NESTED = 64 };

/* A part of the file that is still to be read. */
struct part {
    const unsigned char *at, *end;
};

struct field {
    uint64_t number, wire_type;
    uint64_t value;       /* of a varint, else 0 */
    struct part contents; /* of bytes, else empty */
};

/* Pieces as C strings: the library gives no lengths to its prefix tree. */
struct symbols {
    struct part *parts; /* owned */
    size_t n, capacity;
};

/* ---- Protocol buffers ------------------------------------------------------------------------ */

static bool take_varint(struct part *part, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && part->at < part->end; shift += 7) {
        unsigned char byte = *part->at++;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool take_bytes(struct part *part, uint64_t bytes, struct part *contents)
{
    if (bytes > (uint64_t)(part->end - part->at))
        return false;
    *contents = (struct part){part->at, part->at + bytes};
    part->at += bytes;
    return true;
}

/* The library drops the upper half of a larger tag, and ends a message at number 0. */
static bool take_tag(struct part *part, struct field *field)
{
    uint64_t tag;
    if (!take_varint(part, &tag) || tag > UINT32_MAX)
        return false;
    *field = (struct field){.number = tag >> 3, .wire_type = tag & 7};
    return field->number > 0;
}

static bool take_field(struct part *part, struct field *field)
{
    struct part skipped;
    uint64_t bytes;
    if (!take_tag(part, field))
        return false;
    switch (field->wire_type) {
    case VARINT:
        return take_varint(part, &field->value);
    case FIXED64:
        return take_bytes(part, 8, &skipped);
    case FIXED32:
        return take_bytes(part, 4, &skipped);
    case BYTES:
        return take_varint(part, &bytes) && take_bytes(part, bytes, &field->contents);
    default: /* groups, which the format has given up */
        return false;
    }
}

static bool is_bytes(const struct field *field, uint64_t number)
{
    return field->number == number && field->wire_type == BYTES;
}

/* ---- User-defined pieces --------------------------------------------------------------------- */

static bool begins(const struct part *short_one, const struct part *long_one)
{
    size_t bytes = (size_t)(short_one->end - short_one->at);
    return bytes <= (size_t)(long_one->end - long_one->at) &&
           memcmp(short_one->at, long_one->at, bytes) == 0;
}

static int by_bytes(const void *left, const void *right)
{
    const struct part *a = left, *b = right;
    size_t a_bytes = (size_t)(a->end - a->at), b_bytes = (size_t)(b->end - b->at);
    int order = memcmp(a->at, b->at, a_bytes < b_bytes ? a_bytes : b_bytes);
    return order ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

/* Sorted, those that begin a piece stand before it, each beginning the next of them. */
static bool are_few_nested(struct symbols *symbols)
{
    const struct part *nested[MAX_NESTED];
    size_t n_nested = 0;
    if (symbols->n > 0)
        qsort(symbols->parts, symbols->n, sizeof(*symbols->parts), by_bytes);
    for (size_t i = 0; i < symbols->n; i++) {
        while (n_nested > 0 && !begins(nested[n_nested - 1], &symbols->parts[i]))
            n_nested--;
        if (n_nested == MAX_NESTED)
            return false;
        nested[n_nested++] = &symbols->parts[i];
    }
    return true;
}

/* ---- The model ------------------------------------------------------------------------------- */

/* The file, and where its mistakes are told. */
struct report {
    const char *name;
    struct acre_err *err;
};

static int refuse(const struct report *report, const char *what)
{
    return err_set(report->err, ACRE_EMODEL, "%s: %s", report->name, what);
}

static int refuse_format(const struct report *report)
{
    return refuse(report, "expected a SentencePiece model, found something else");
}

static int no_memory(const struct report *report)
{
    return err_set(report->err, ACRE_ENOMEM, "%s: out of memory", report->name);
}

/* Adds a piece if any of its types, should there be several, makes it user-defined. */
static int add_piece(const struct report *report, struct symbols *symbols, struct part message)
{
    static const unsigned char empty[1];
    struct part piece = {empty, empty};
    bool is_user_defined = false;
    while (message.at < message.end) {
        struct field field;
        if (!take_field(&message, &field))
            return refuse_format(report);
        if (is_bytes(&field, PIECE))
            piece = field.contents;
        if (field.number == TYPE && (uint32_t)field.value == USER_DEFINED)
            is_user_defined = true;
    }
    size_t bytes = (size_t)(piece.end - piece.at);
    if (utf8_check((const char *)piece.at, bytes) < bytes)
        return refuse(report, "pieces: expected UTF-8, found other bytes");
    if (!is_user_defined)
        return 0;
    if (mem_reserve(&symbols->parts, &symbols->capacity, symbols->n + 1, sizeof(*symbols->parts)))
        return no_memory(report);
    piece.end = piece.at + strnlen((const char *)piece.at, bytes);
    symbols->parts[symbols->n++] = piece;
    return 0;
}

static int check_normalizer(const struct report *report, struct part normalizer)
{
    while (normalizer.at < normalizer.end) {
        struct field field;
        if (!take_field(&normalizer, &field))
            return refuse_format(report);
        if (!is_bytes(&field, PRECOMPILED_CHARSMAP))
            continue;
        struct part map = field.contents;
        int status = charsmap_check(map.at, (size_t)(map.end - map.at));
        if (status)
            return status == ACRE_ENOMEM
                       ? no_memory(report)
                       : refuse(report, "precompiled_charsmap: expected a table of rules that "
                                        "stays within itself, found another");
    }
    return 0;
}

static int check_model(const struct report *report, struct part model, struct symbols *symbols)
{
    while (model.at < model.end) {
        struct field field;
        int status = 0;
        if (!take_field(&model, &field))
            return refuse_format(report);
        if (is_bytes(&field, PIECES))
            status = add_piece(report, symbols, field.contents);
        else if (is_bytes(&field, NORMALIZER) || is_bytes(&field, DENORMALIZER))
            status = check_normalizer(report, field.contents);
        if (status)
            return status;
    }
    return are_few_nested(symbols)
               ? 0
               : refuse(report, "user-defined pieces: expected at most 64 that begin one another, "
                                "found more");
}

int spm_file_check(const char *name, const char *data, size_t bytes, struct acre_err *err)
{
    const struct report report = {name, err};
    const unsigned char *begin = (const unsigned char *)data;
    struct symbols symbols = {0};
    int status = check_model(&report, (struct part){begin, begin + bytes}, &symbols);
    mem_free(symbols.parts);
    return status;
}
