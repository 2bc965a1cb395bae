/* Happy path: the mark says UTF-16, which ICU converts; anything else must be UTF-8.
 *
 * Failure modes: bytes that are neither, half a character at the end, no memory: `why` says where.
 */
#include "content/charset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unicode/ustring.h>

#include "common/unicode.h"

static const char mark[] = "\xEF\xBB\xBF";

/* Where in a text a byte is, for people. */
static void describe(const char *data, size_t at, char why[CHARSET_WHY_BYTES])
{
    const char *line = data, *newline;
    size_t n_lines = 1;

    while ((newline = memchr(line, '\n', (size_t)(data + at - line)))) {
        line = newline + 1;
        n_lines++;
    }
    snprintf(why, CHARSET_WHY_BYTES,
             "expected text in UTF-8, or in UTF-16 with a byte order mark, found byte 0x%02X in "
             "line %zu, column %zu",
             (unsigned char)data[at], n_lines, (size_t)(data + at - line) + 1);
}

/* ---- UTF-16 ---------------------------------------------------------------------------------- */

static UChar *read_units(const char *data, size_t n, bool is_big)
{
    UChar *units = malloc((n ? n : 1) * sizeof(*units));

    for (size_t i = 0; units && i < n; i++) {
        const unsigned first = (unsigned char)data[2 * i], second = (unsigned char)data[2 * i + 1];

        units[i] = (UChar)(is_big ? first << 8 | second : second << 8 | first);
    }
    return units;
}

static int decode_utf16(const char *data, size_t bytes, bool is_big, struct charset_text *text,
                        char why[CHARSET_WHY_BYTES])
{
    const size_t n = bytes / 2;
    UErrorCode status = U_ZERO_ERROR;
    UChar *units;
    int32_t used = 0;

    if (bytes % 2 != 0 || n > INT32_MAX / 3) {
        snprintf(why, CHARSET_WHY_BYTES,
                 "expected text in UTF-16, as its mark says, found %zu bytes", bytes);
        return -1;
    }
    units = read_units(data, n, is_big);
    text->data = malloc(3 * n + 1);
    if (units && text->data)
        u_strToUTF8(text->data, (int32_t)(3 * n + 1), &used, units, (int32_t)n, &status);
    free(units);
    text->bytes = (size_t)used;
    text->has_mark = true;
    if (units && text->data && status == U_ZERO_ERROR)
        return 0;
    if (units && text->data)
        snprintf(why, CHARSET_WHY_BYTES,
                 "expected text in UTF-16, as its mark says, found half a character");
    free(text->data);
    text->data = NULL;
    return -1;
}

/* ---- All ------------------------------------------------------------------------------------- */

static int decode_utf8(const char *data, size_t bytes, struct charset_text *text,
                       char why[CHARSET_WHY_BYTES])
{
    const size_t valid = unicode_valid_bytes(data, bytes);

    if (valid < bytes) {
        describe(data, valid, why);
        return -1;
    }
    text->data = malloc(bytes + 1);
    if (!text->data)
        return -1;
    memcpy(text->data, data, bytes);
    text->data[bytes] = '\0';
    text->bytes = bytes;
    return 0;
}

int charset_decode(const char *data, size_t bytes, struct charset_text *text,
                   char why[CHARSET_WHY_BYTES])
{
    const char *nul;
    int rc;

    *text = (struct charset_text){.has_mark = bytes >= 3 && memcmp(data, mark, 3) == 0};
    why[0] = '\0';
    if (bytes >= 2 && memcmp(data, "\xFF\xFE", 2) == 0)
        rc = decode_utf16(data + 2, bytes - 2, false, text, why);
    else if (bytes >= 2 && memcmp(data, "\xFE\xFF", 2) == 0)
        rc = decode_utf16(data + 2, bytes - 2, true, text, why);
    else
        rc = decode_utf8(data + (text->has_mark ? 3 : 0), bytes - (text->has_mark ? 3 : 0), text,
                         why);
    nul = rc == 0 ? memchr(text->data, '\0', text->bytes) : NULL;
    if (!nul)
        return rc;
    describe(text->data, (size_t)(nul - text->data), why);
    free(text->data);
    text->data = NULL;
    return -1;
}

/* ---- Pages in other encodings ---------------------------------------------------------------- */

bool charset_keeps_ascii(const char *text, size_t bytes)
{
    static const char *const says[] = {"charset=", "encoding="};
    const size_t head_bytes = bytes < 1024 ? bytes : 1024; /* where browsers look for it */
    bool is_other = false;

    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] >= 0x80)
            return false;
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0, n = strlen(says[k]); i + n + 6 <= head_bytes && !is_other; i++) {
            const char *value = text + i + n;

            if (strncasecmp(text + i, says[k], n) != 0)
                continue;
            value += *value == '"' || *value == '\'';
            is_other = strncasecmp(value, "utf-8", 5) != 0 && strncasecmp(value, "utf8", 4) != 0;
        }
    return is_other;
}

char *charset_to_references(const char *text, size_t bytes, size_t *out_bytes)
{
    size_t n_others = 0, n = 0;
    char *out;

    for (size_t i = 0; i < bytes; i++)
        n_others += (unsigned char)text[i] >= 0x80;
    out = malloc(bytes + 10 * n_others + 1);
    for (size_t at = 0; out && at < bytes;) {
        if ((unsigned char)text[at] < 0x80)
            out[n++] = text[at++];
        else
            n += (size_t)sprintf(out + n, "&#%u;", (unsigned)unicode_next(text, bytes, &at));
    }
    if (out)
        out[n] = '\0';
    *out_bytes = n;
    return out;
}
