#include "common/markup.h"

#include <stdbool.h>
#include <string.h>

#include "common/unicode.h"

#define NO_CHARACTER "\xef\xbf\xbd" /* U+FFFD */

size_t markup_character(const char *text, uint32_t *code)
{
    const unsigned char *s = (const unsigned char *)text;
    const size_t n = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

    *code = n == 1 ? s[0] : s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++)
        *code = *code << 6 | (s[i] & 0x3fu);
    return n;
}

/* https://www.w3.org/TR/xml/#NT-Char */
static bool is_in_xml(uint32_t code)
{
    return (code >= 0x20 && code != 0xfffe && code != 0xffff) || code == '\t' || code == '\n' ||
           code == '\r';
}

static const char *entity(uint32_t code)
{
    switch (code) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return is_in_xml(code) ? NULL : NO_CHARACTER;
    }
}

void markup_text(FILE *out, const char *text, size_t bytes)
{
    for (size_t at = 0, n; at < bytes; at += n) {
        const size_t rest = bytes - at;
        const char *replacement = NO_CHARACTER;
        uint32_t code;

        n = 1;
        if (unicode_valid_bytes(text + at, rest < 4 ? rest : 4) > 0) {
            n = markup_character(text + at, &code);
            replacement = entity(code);
        }
        if (replacement)
            fputs(replacement, out);
        else
            fwrite(text + at, 1, n, out);
    }
}

void markup_attribute(FILE *out, const char *name, const char *value)
{
    if (!value[0])
        return;
    fprintf(out, " %s=\"", name);
    markup_text(out, value, strlen(value));
    putc('"', out);
}

/* ---- Width ----------------------------------------------------------------------------------- */

/* From U+0020 on, as in Adobe's metrics of Helvetica. */
static const short ascii_widths[] = {
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333,  278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667,  611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278,  556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500,  500, 334, 260, 334, 584};

struct range {
    uint32_t first, last;
    int width;
};

/* Marks that stand on the character before them, and what fills a square; about, as Unicode's own
 * tables are long and the fonts differ anyway. */
static const struct range ranges[] = {
    {0x0300, 0x036f, 0},      {0x0590, 0x05bd, 0},    {0x064b, 0x065f, 0},
    {0x0900, 0x0902, 0},      {0x1100, 0x115f, 1000}, {0x1ab0, 0x1aff, 0},
    {0x1dc0, 0x1dff, 0},      {0x200b, 0x200f, 0},    {0x20d0, 0x20ff, 0},
    {0x2190, 0x2bff, 1000},   {0x2e80, 0xa4cf, 1000}, {0xac00, 0xd7a3, 1000},
    {0xf900, 0xfaff, 1000},   {0xfe00, 0xfe0f, 0},    {0xfe20, 0xfe2f, 0},
    {0xfe30, 0xfe6f, 1000},   {0xff00, 0xff60, 1000}, {0x1f000, 0x1faff, 1300},
    {0x20000, 0x3ffff, 1000},
};

static int character_width(uint32_t code)
{
    const size_t n_ascii = sizeof(ascii_widths) / sizeof(ascii_widths[0]);

    if (code >= 0x20 && code - 0x20 < n_ascii)
        return ascii_widths[code - 0x20];
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return ranges[i].width;
    return 600;
}

int markup_width(const char *text, size_t bytes)
{
    int width = 0;
    uint32_t code;

    for (size_t at = 0; at < bytes;) {
        at += markup_character(text + at, &code);
        width += character_width(code);
    }
    return width;
}
