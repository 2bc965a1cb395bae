#include "text/utf8.h"

#include <string.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include "base/error.h"

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

int utf8_check_text(const char *text, size_t bytes, const char *name, struct acre_err *err)
{
    size_t valid = utf8_check(text, bytes);
    const char *zero = bytes ? memchr(text, '\0', bytes) : NULL;
    if (valid < bytes)
        return err_set(err, ACRE_EINPUT, "%sbyte %zu: expected UTF-8, found 0x%02X", name, valid,
                       (unsigned char)text[valid]);
    return zero ? err_set(err, ACRE_EINPUT, "%sbyte %zu: expected text, found U+0000", name,
                          (size_t)(zero - text))
                : 0;
}

int32_t utf8_before(const char *text, size_t at)
{
    size_t begin = utf8_begin(text, at - 1);
    return utf8_next(text, at, &begin);
}

bool utf8_is_blank(int32_t character)
{
    return u_isUWhiteSpace(character) || character == 0xFEFF || character == 0x200B;
}

size_t utf8_skip_blanks(const char *text, size_t begin, size_t end)
{
    for (size_t at = begin; at < end; begin = at)
        if (!utf8_is_blank(utf8_next(text, end, &at)))
            break;
    return begin;
}

size_t utf8_drop_blanks(const char *text, size_t begin, size_t end)
{
    while (end > begin && utf8_is_blank(utf8_before(text, end)))
        end = utf8_begin(text, end - 1);
    return end;
}
