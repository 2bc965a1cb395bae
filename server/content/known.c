#include "content/known.h"

#include "common/unicode.h"
#include "content/segment.h"

bool known_reads(const struct known *known, uint32_t character)
{
    char utf8[5];

    return !known || character < 0x80 ||
           acre_model_reads(known->model, utf8, unicode_encode(character, utf8));
}

static bool has(const struct known *known, const char *text, struct segment segment)
{
    for (size_t i = 0; i < known->n_dictionaries; i++)
        if (dictionary_word(known->dictionaries[i], text + segment.begin,
                            segment.end - segment.begin,
                            segment.kind == SEGMENT_BLANK) != DICTIONARY_NONE)
            return true;
    return false;
}

bool known_has_word(const struct known *known, const char *text, size_t bytes)
{
    for (size_t at = 0; known && known->n_dictionaries > 0 && at < bytes;) {
        const struct segment segment = segment_next(text, bytes, &at);

        if (segment.kind == SEGMENT_WORD && has(known, text, segment))
            return true;
    }
    return false;
}

bool known_is_term(const struct known *known, const char *text, size_t bytes)
{
    if (!known || known->n_dictionaries == 0 || bytes > DICTIONARY_TERM_BYTES)
        return false;
    for (size_t at = 0; at < bytes;)
        if (!has(known, text, segment_next(text, bytes, &at)))
            return false;
    return bytes > 0;
}
