#include "common/unicode.h"

#include <stdint.h>
#include <string.h>

/* Decodes one character; returns its bytes, 0 if it is not valid. */
static size_t decode(const unsigned char *s, size_t bytes, uint32_t *code)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n;

    if (s[0] < 0x80) {
        *code = s[0];
        return 1;
    }
    n = s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    if (n == 0 || n > bytes)
        return 0;
    *code = s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (s[i] & 0x3fu);
    }
    if (*code < smallest[n] || *code > 0x10ffff || (*code >= 0xd800 && *code <= 0xdfff))
        return 0;
    return n;
}

size_t unicode_valid_bytes(const char *text, size_t bytes)
{
    size_t at = 0, n;
    uint32_t code;

    while (at < bytes) {
        n = decode((const unsigned char *)text + at, bytes - at, &code);
        if (n == 0)
            break;
        at += n;
    }
    return at;
}

uint32_t unicode_next(const char *text, size_t bytes, size_t *at)
{
    uint32_t code;
    const size_t n = decode((const unsigned char *)text + *at, bytes - *at, &code);

    *at += n > 0 ? n : 1;
    return n > 0 ? code : 0xfffd;
}

size_t unicode_mark_bytes(const char *text, size_t bytes)
{
    const size_t n = sizeof(UNICODE_MARK) - 1;

    return bytes >= n && memcmp(text, UNICODE_MARK, n) == 0 ? n : 0;
}

size_t unicode_before(const char *text, size_t at)
{
    size_t begin = at;

    while (begin > 0 && at - begin < 4 && ((unsigned char)text[--begin] & 0xc0) == 0x80)
        continue;
    return begin;
}

size_t unicode_encode(uint32_t code, char utf8[5])
{
    static const unsigned char heads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    const size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

    utf8[n] = '\0';
    for (size_t i = n - 1; i > 0; i--) {
        utf8[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    utf8[0] = (char)(heads[n] | code);
    return n;
}

size_t unicode_chars(const char *text, size_t bytes)
{
    size_t n = 0;

    for (size_t i = 0; i < bytes; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

/* Unicode's White_Space property. */
static bool is_space(uint32_t code)
{
    return (code >= 0x09 && code <= 0x0d) || code == 0x20 || code == 0x85 || code == 0xa0 ||
           code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
           code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool unicode_is_blank(const char *text, size_t bytes)
{
    size_t at = 0, n;
    uint32_t code;

    while (at < bytes) {
        n = decode((const unsigned char *)text + at, bytes - at, &code);
        if (n == 0 || !is_space(code))
            return false;
        at += n;
    }
    return true;
}

void unicode_scrub(char *text)
{
    size_t bytes = strlen(text), at = 0;

    while (at < bytes) {
        at += unicode_valid_bytes(text + at, bytes - at);
        if (at < bytes)
            text[at++] = '?';
    }
}
