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
    const size_t mark = unicode_mark_bytes(data, bytes);
    const char *nul;
    int rc;

    *text = (struct charset_text){.has_mark = mark > 0};
    why[0] = '\0';
    if (bytes >= 2 && memcmp(data, "\xFF\xFE", 2) == 0)
        rc = decode_utf16(data + 2, bytes - 2, false, text, why);
    else if (bytes >= 2 && memcmp(data, "\xFE\xFF", 2) == 0)
        rc = decode_utf16(data + 2, bytes - 2, true, text, why);
    else
        rc = decode_utf8(data + mark, bytes - mark, text, why);
    nul = rc == 0 ? memchr(text->data, '\0', text->bytes) : NULL;
    if (!nul)
        return rc;
    describe(text->data, (size_t)(nul - text->data), why);
    free(text->data);
    text->data = NULL;
    return -1;
}

/* ---- What pages say of themselves ------------------------------------------------------------ */

/* Where a page says its encoding: encoding="UTF-8" */
struct said {
    size_t begin, end; /* all of it */
    size_t value;
};

static size_t skip_blanks(const char *text, size_t at)
{
    return at + strspn(text + at, " \t\r\n");
}

/* Whether `name` stands at a place, and has a value. */
static bool read_value(const char *text, size_t at, const char *name, struct said *said)
{
    char quote;

    if (strncasecmp(text + at, name, strlen(name)) != 0)
        return false;
    said->begin = at;
    at = skip_blanks(text, at + strlen(name));
    if (text[at] != '=')
        return false;
    at = skip_blanks(text, at + 1);
    quote = text[at] == '"' || text[at] == '\'' ? text[at++] : '\0';
    said->value = at;
    at += strcspn(text + at, quote == '"' ? "\"" : quote ? "'" : " \t\r\n\"'>;?");
    said->end = at + (quote && text[at] == quote);
    return true;
}

/* In a tag that begins with `tag`, of the bytes that browsers look at. */
static bool find_said(const char *text, size_t bytes, const char *tag, const char *name,
                      struct said *said)
{
    for (size_t i = 0; i < bytes && i < 1024; i++) {
        const char *begin = memrchr(text, '<', i);

        if (read_value(text, i, name, said) && begin && strncasecmp(begin, tag, strlen(tag)) == 0)
            return true;
    }
    return false;
}

static bool is_utf8(const char *name)
{
    return strncasecmp(name, "utf-8", 5) == 0 || strncasecmp(name, "utf8", 4) == 0;
}

bool charset_keeps_ascii(const char *text, size_t bytes, bool is_xml)
{
    struct said by_xml, by_meta;
    bool is_declared, is_meta;

    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] >= 0x80)
            return false;
    is_declared = find_said(text, bytes, "<?xml", "encoding", &by_xml);
    is_meta = find_said(text, bytes, "<meta", "charset", &by_meta);
    if ((is_declared && !is_utf8(text + by_xml.value)) ||
        (is_meta && !is_utf8(text + by_meta.value)))
        return true;
    return !is_declared && !is_meta && !is_xml;
}

void charset_drop_declared(struct charset_text *text)
{
    struct said said;
    size_t begin;

    if (strncmp(text->data, "<?xml", 5) != 0 ||
        !find_said(text->data, text->bytes, "<?xml", "encoding", &said) ||
        is_utf8(text->data + said.value))
        return;
    for (begin = said.begin; strchr(" \t\r\n", text->data[begin - 1]);)
        begin--;
    memmove(text->data + begin, text->data + said.end, text->bytes - said.end + 1);
    text->bytes -= said.end - begin;
}

/* What begins and ends parts of XML in which no reference is read. */
static const struct section {
    const char *begin, *end;
} sections[] = {{"<![CDATA[", "]]>"}, {"<!--", "-->"}, {"<?", "?>"}};
static const struct section *const cdata = &sections[0];

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The section at the place behind `at`, where `section`, or NULL, is that at `at`. */
static const struct section *follow(const struct section *section, const char *at)
{
    if (section)
        return begins(at, section->end) ? NULL : section;
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
        if (begins(at, sections[i].begin))
            return &sections[i];
    return NULL;
}

/* The characters in a row that are not ASCII. Returns how many bytes it wrote. */
static size_t write_references(char *out, const char *text, size_t bytes, size_t *at, bool is_cdata)
{
    size_t n = is_cdata ? (size_t)sprintf(out, "%s", cdata->end) : 0;

    while (*at < bytes && (unsigned char)text[*at] >= 0x80)
        n += (size_t)sprintf(out + n, "&#%u;", (unsigned)unicode_next(text, bytes, at));
    return n + (is_cdata ? (size_t)sprintf(out + n, "%s", cdata->begin) : 0);
}

char *charset_to_references(const char *text, size_t bytes, bool is_xml, size_t *out_bytes)
{
    const struct section *section = NULL;
    size_t n_others = 0, n = 0;
    char *out;

    for (size_t i = 0; i < bytes; i++)
        n_others += (unsigned char)text[i] >= 0x80;
    out = malloc(bytes + 16 * n_others + 1);
    for (size_t at = 0; out && at < bytes;) {
        if ((unsigned char)text[at] >= 0x80) {
            n += write_references(out + n, text, bytes, &at, section == cdata);
            continue;
        }
        section = is_xml ? follow(section, text + at) : NULL;
        out[n++] = text[at++];
    }
    if (out)
        out[n] = '\0';
    *out_bytes = n;
    return out;
}
