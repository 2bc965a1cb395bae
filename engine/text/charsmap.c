#include "text/charsmap.h"

#include <stdint.h>

/* A part of the file that is still to be read. */
struct part {
    const unsigned char *at, *end;
};

enum { VARINT, FIXED64, BYTES, FIXED32 = 5 }; /* wire types of protocol buffers */
/* Field numbers of ModelProto and NormalizerSpec in sentencepiece_model.proto. */
enum { NORMALIZER = 3, DENORMALIZER = 5, PRECOMPILED_CHARSMAP = 2 };

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

/* The next field: its number, and its contents if it is of bytes, else nothing. */
static bool take_field(struct part *part, uint64_t *number, struct part *contents)
{
    uint64_t tag, bytes = 0;
    if (!take_varint(part, &tag))
        return false;
    *number = tag >> 3;
    switch (tag & 7) {
    case VARINT:
        *contents = (struct part){0};
        return take_varint(part, &bytes);
    case FIXED64:
        bytes = 8;
        break;
    case FIXED32:
        bytes = 4;
        break;
    case BYTES:
        if (!take_varint(part, &bytes))
            return false;
        break;
    default:
        return false;
    }
    if (bytes > (uint64_t)(part->end - part->at))
        return false;
    *contents = (struct part){part->at, part->at + bytes};
    part->at += bytes;
    return true;
}

static uint32_t read_u32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Darts-clone's trie: unit i leads to unit i ^ offset ^ next byte, and if it ends a key, its value
 * stands in unit i ^ offset. Units with the highest bit are such values. */
static bool is_sound_trie(const unsigned char *units, size_t n_units, size_t strings_bytes)
{
    for (size_t i = 0; i < n_units; i++) {
        uint32_t unit = read_u32(units + 4 * i);
        if (unit >> 31)
            continue;
        size_t base = i ^ (size_t)(unit >> 10) << ((unit >> 6) & 8);
        if ((base | 0xFF) >= n_units)
            return false;
        bool has_value = unit >> 8 & 1;
        if (has_value && (read_u32(units + 4 * base) & 0x7FFFFFFF) >= strings_bytes)
            return false;
    }
    return true;
}

/* Length of the trie, the trie, strings that end with NUL. */
static bool is_sound_map(struct part map)
{
    size_t bytes = (size_t)(map.end - map.at);
    if (bytes == 0)
        return true;
    if (bytes < 4)
        return false;
    size_t trie_bytes = read_u32(map.at);
    if (trie_bytes % 4 || trie_bytes == 0 || trie_bytes >= bytes - 4)
        return false;
    return map.end[-1] == '\0' && is_sound_trie(map.at + 4, trie_bytes / 4, bytes - 4 - trie_bytes);
}

static bool is_sound_normalizer(struct part normalizer)
{
    while (normalizer.at < normalizer.end) {
        uint64_t number;
        struct part contents;
        if (!take_field(&normalizer, &number, &contents) ||
            (number == PRECOMPILED_CHARSMAP && !is_sound_map(contents)))
            return false;
    }
    return true;
}

bool charsmap_is_sound(const char *data, size_t bytes)
{
    struct part model = {(const unsigned char *)data, (const unsigned char *)data + bytes};
    while (model.at < model.end) {
        uint64_t number;
        struct part contents;
        if (!take_field(&model, &number, &contents) ||
            ((number == NORMALIZER || number == DENORMALIZER) && !is_sound_normalizer(contents)))
            return false;
    }
    return true;
}
