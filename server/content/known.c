#include "content/known.h"

#include "common/unicode.h"
#include "content/segment.h"

bool known_reads(const struct known *known, uint32_t character)
{
    char utf8[5];

    return !known || character < 0x80 ||
           acre_model_reads(known->model, utf8, unicode_encode(character, utf8));
}

bool known_has_term(const struct known *known, const char *text, size_t bytes)
{
    for (size_t at = 0; known && known->n_dictionaries > 0 && at < bytes;) {
        const struct segment segment = segment_next(text, bytes, &at);

        for (size_t i = 0; i < known->n_dictionaries && segment.kind == SEGMENT_WORD; i++)
            if (dictionary_word(known->dictionaries[i], text + segment.begin,
                                segment.end - segment.begin, false) != DICTIONARY_NONE)
                return true;
    }
    return false;
}
