#include "text/utf8.h"

#include <unicode/utf8.h>

/* ICU's macro narrows ints, which is no concern of ours. */
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"

int32_t utf8_next(const char *text, size_t bytes, size_t *at)
{
    const uint8_t *octets = (const uint8_t *)text;
    int32_t character;
    size_t i = *at;
    U8_NEXT(octets, i, bytes, character);
    *at = i;
    return character;
}

size_t utf8_begin(const char *text, size_t at)
{
    while (at > 0 && U8_IS_TRAIL(text[at]))
        at--;
    return at;
}

size_t utf8_check(const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        size_t begin = at;
        if (utf8_next(text, bytes, &at) < 0)
            return begin;
    }
    return bytes;
}
