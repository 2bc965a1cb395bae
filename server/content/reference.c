/* Happy path: a number or a name, and the semicolon. Browsers forgive a missing semicolon after
 * numbers and the names of Latin-1; so does this, but for names in XML. */
#include "content/reference.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/unicode.h"

enum { NAME_BYTES = 32 };

static const struct name {
    const char *text;
    unsigned code;
    bool is_latin1; /* needs no semicolon */
} names[] = {
    {"AElig", 0xc6, 1},     {"AMP", 0x26, 1},      {"Aacute", 0xc1, 1},    {"Acirc", 0xc2, 1},
    {"Agrave", 0xc0, 1},    {"Alpha", 0x391, 0},   {"Aring", 0xc5, 1},     {"Atilde", 0xc3, 1},
    {"Auml", 0xc4, 1},      {"Beta", 0x392, 0},    {"COPY", 0xa9, 1},      {"Ccedil", 0xc7, 1},
    {"Chi", 0x3a7, 0},      {"Dagger", 0x2021, 0}, {"Delta", 0x394, 0},    {"ETH", 0xd0, 1},
    {"Eacute", 0xc9, 1},    {"Ecirc", 0xca, 1},    {"Egrave", 0xc8, 1},    {"Epsilon", 0x395, 0},
    {"Eta", 0x397, 0},      {"Euml", 0xcb, 1},     {"GT", 0x3e, 1},        {"Gamma", 0x393, 0},
    {"Iacute", 0xcd, 1},    {"Icirc", 0xce, 1},    {"Igrave", 0xcc, 1},    {"Iota", 0x399, 0},
    {"Iuml", 0xcf, 1},      {"Kappa", 0x39a, 0},   {"LT", 0x3c, 1},        {"Lambda", 0x39b, 0},
    {"Mu", 0x39c, 0},       {"Ntilde", 0xd1, 1},   {"Nu", 0x39d, 0},       {"OElig", 0x152, 0},
    {"Oacute", 0xd3, 1},    {"Ocirc", 0xd4, 1},    {"Ograve", 0xd2, 1},    {"Omega", 0x3a9, 0},
    {"Omicron", 0x39f, 0},  {"Oslash", 0xd8, 1},   {"Otilde", 0xd5, 1},    {"Ouml", 0xd6, 1},
    {"Phi", 0x3a6, 0},      {"Pi", 0x3a0, 0},      {"Prime", 0x2033, 0},   {"Psi", 0x3a8, 0},
    {"QUOT", 0x22, 1},      {"REG", 0xae, 1},      {"Rho", 0x3a1, 0},      {"Scaron", 0x160, 0},
    {"Sigma", 0x3a3, 0},    {"THORN", 0xde, 1},    {"Tau", 0x3a4, 0},      {"Theta", 0x398, 0},
    {"Uacute", 0xda, 1},    {"Ucirc", 0xdb, 1},    {"Ugrave", 0xd9, 1},    {"Upsilon", 0x3a5, 0},
    {"Uuml", 0xdc, 1},      {"Xi", 0x39e, 0},      {"Yacute", 0xdd, 1},    {"Yuml", 0x178, 0},
    {"Zeta", 0x396, 0},     {"aacute", 0xe1, 1},   {"acirc", 0xe2, 1},     {"acute", 0xb4, 1},
    {"aelig", 0xe6, 1},     {"agrave", 0xe0, 1},   {"alefsym", 0x2135, 0}, {"alpha", 0x3b1, 0},
    {"amp", 0x26, 1},       {"and", 0x2227, 0},    {"ang", 0x2220, 0},     {"apos", 0x27, 0},
    {"aring", 0xe5, 1},     {"asymp", 0x2248, 0},  {"atilde", 0xe3, 1},    {"auml", 0xe4, 1},
    {"bdquo", 0x201e, 0},   {"beta", 0x3b2, 0},    {"brvbar", 0xa6, 1},    {"bull", 0x2022, 0},
    {"cap", 0x2229, 0},     {"ccedil", 0xe7, 1},   {"cedil", 0xb8, 1},     {"cent", 0xa2, 1},
    {"chi", 0x3c7, 0},      {"circ", 0x2c6, 0},    {"clubs", 0x2663, 0},   {"cong", 0x2245, 0},
    {"copy", 0xa9, 1},      {"crarr", 0x21b5, 0},  {"cup", 0x222a, 0},     {"curren", 0xa4, 1},
    {"dArr", 0x21d3, 0},    {"dagger", 0x2020, 0}, {"darr", 0x2193, 0},    {"deg", 0xb0, 1},
    {"delta", 0x3b4, 0},    {"diams", 0x2666, 0},  {"divide", 0xf7, 1},    {"eacute", 0xe9, 1},
    {"ecirc", 0xea, 1},     {"egrave", 0xe8, 1},   {"empty", 0x2205, 0},   {"emsp", 0x2003, 0},
    {"ensp", 0x2002, 0},    {"epsilon", 0x3b5, 0}, {"equiv", 0x2261, 0},   {"eta", 0x3b7, 0},
    {"eth", 0xf0, 1},       {"euml", 0xeb, 1},     {"euro", 0x20ac, 0},    {"exist", 0x2203, 0},
    {"fnof", 0x192, 0},     {"forall", 0x2200, 0}, {"frac12", 0xbd, 1},    {"frac14", 0xbc, 1},
    {"frac34", 0xbe, 1},    {"frasl", 0x2044, 0},  {"gamma", 0x3b3, 0},    {"ge", 0x2265, 0},
    {"gt", 0x3e, 1},        {"hArr", 0x21d4, 0},   {"harr", 0x2194, 0},    {"hearts", 0x2665, 0},
    {"hellip", 0x2026, 0},  {"iacute", 0xed, 1},   {"icirc", 0xee, 1},     {"iexcl", 0xa1, 1},
    {"igrave", 0xec, 1},    {"image", 0x2111, 0},  {"infin", 0x221e, 0},   {"int", 0x222b, 0},
    {"iota", 0x3b9, 0},     {"iquest", 0xbf, 1},   {"isin", 0x2208, 0},    {"iuml", 0xef, 1},
    {"kappa", 0x3ba, 0},    {"lArr", 0x21d0, 0},   {"lambda", 0x3bb, 0},   {"lang", 0x2329, 0},
    {"laquo", 0xab, 1},     {"larr", 0x2190, 0},   {"lceil", 0x2308, 0},   {"ldquo", 0x201c, 0},
    {"le", 0x2264, 0},      {"lfloor", 0x230a, 0}, {"lowast", 0x2217, 0},  {"loz", 0x25ca, 0},
    {"lrm", 0x200e, 0},     {"lsaquo", 0x2039, 0}, {"lsquo", 0x2018, 0},   {"lt", 0x3c, 1},
    {"macr", 0xaf, 1},      {"mdash", 0x2014, 0},  {"micro", 0xb5, 1},     {"middot", 0xb7, 1},
    {"minus", 0x2212, 0},   {"mu", 0x3bc, 0},      {"nabla", 0x2207, 0},   {"nbsp", 0xa0, 1},
    {"ndash", 0x2013, 0},   {"ne", 0x2260, 0},     {"ni", 0x220b, 0},      {"not", 0xac, 1},
    {"notin", 0x2209, 0},   {"nsub", 0x2284, 0},   {"ntilde", 0xf1, 1},    {"nu", 0x3bd, 0},
    {"oacute", 0xf3, 1},    {"ocirc", 0xf4, 1},    {"oelig", 0x153, 0},    {"ograve", 0xf2, 1},
    {"oline", 0x203e, 0},   {"omega", 0x3c9, 0},   {"omicron", 0x3bf, 0},  {"oplus", 0x2295, 0},
    {"or", 0x2228, 0},      {"ordf", 0xaa, 1},     {"ordm", 0xba, 1},      {"oslash", 0xf8, 1},
    {"otilde", 0xf5, 1},    {"otimes", 0x2297, 0}, {"ouml", 0xf6, 1},      {"para", 0xb6, 1},
    {"part", 0x2202, 0},    {"permil", 0x2030, 0}, {"perp", 0x22a5, 0},    {"phi", 0x3c6, 0},
    {"pi", 0x3c0, 0},       {"piv", 0x3d6, 0},     {"plusmn", 0xb1, 1},    {"pound", 0xa3, 1},
    {"prime", 0x2032, 0},   {"prod", 0x220f, 0},   {"prop", 0x221d, 0},    {"psi", 0x3c8, 0},
    {"quot", 0x22, 1},      {"rArr", 0x21d2, 0},   {"radic", 0x221a, 0},   {"rang", 0x232a, 0},
    {"raquo", 0xbb, 1},     {"rarr", 0x2192, 0},   {"rceil", 0x2309, 0},   {"rdquo", 0x201d, 0},
    {"real", 0x211c, 0},    {"reg", 0xae, 1},      {"rfloor", 0x230b, 0},  {"rho", 0x3c1, 0},
    {"rlm", 0x200f, 0},     {"rsaquo", 0x203a, 0}, {"rsquo", 0x2019, 0},   {"sbquo", 0x201a, 0},
    {"scaron", 0x161, 0},   {"sdot", 0x22c5, 0},   {"sect", 0xa7, 1},      {"shy", 0xad, 1},
    {"sigma", 0x3c3, 0},    {"sigmaf", 0x3c2, 0},  {"sim", 0x223c, 0},     {"spades", 0x2660, 0},
    {"sub", 0x2282, 0},     {"sube", 0x2286, 0},   {"sum", 0x2211, 0},     {"sup", 0x2283, 0},
    {"sup1", 0xb9, 1},      {"sup2", 0xb2, 1},     {"sup3", 0xb3, 1},      {"supe", 0x2287, 0},
    {"szlig", 0xdf, 1},     {"tau", 0x3c4, 0},     {"there4", 0x2234, 0},  {"theta", 0x3b8, 0},
    {"thetasym", 0x3d1, 0}, {"thinsp", 0x2009, 0}, {"thorn", 0xfe, 1},     {"tilde", 0x2dc, 0},
    {"times", 0xd7, 1},     {"trade", 0x2122, 0},  {"uArr", 0x21d1, 0},    {"uacute", 0xfa, 1},
    {"uarr", 0x2191, 0},    {"ucirc", 0xfb, 1},    {"ugrave", 0xf9, 1},    {"uml", 0xa8, 1},
    {"upsih", 0x3d2, 0},    {"upsilon", 0x3c5, 0}, {"uuml", 0xfc, 1},      {"weierp", 0x2118, 0},
    {"xi", 0x3be, 0},       {"yacute", 0xfd, 1},   {"yen", 0xa5, 1},       {"yuml", 0xff, 1},
    {"zeta", 0x3b6, 0},     {"zwj", 0x200d, 0},    {"zwnj", 0x200c, 0},
};

static int compare(const void *key, const void *name)
{
    return strcmp(key, ((const struct name *)name)->text);
}

static const struct name *find(const char *text, size_t n)
{
    char key[NAME_BYTES];

    if (n == 0 || n >= sizeof(key))
        return NULL;
    memcpy(key, text, n);
    key[n] = '\0';
    return bsearch(key, names, sizeof(names) / sizeof(names[0]), sizeof(names[0]), compare);
}

/* As the standard replaces what is no character, and what Windows meant. */
static unsigned repair(unsigned code)
{
    static const unsigned short windows[32] = {
        0x20AC, 0x81,   0x201A, 0x192,  0x201E, 0x2026, 0x2020, 0x2021, 0x2C6,  0x2030, 0x160,
        0x2039, 0x152,  0x8D,   0x17D,  0x8F,   0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
        0x2013, 0x2014, 0x2DC,  0x2122, 0x161,  0x203A, 0x153,  0x9D,   0x17E,  0x178};

    if (code >= 0x80 && code < 0xA0)
        return windows[code - 0x80];
    return code == 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000) ? 0xFFFD : code;
}

static enum reference read_number(const char *text, size_t bytes, size_t *n, char utf8[5])
{
    const bool is_hex = bytes > 2 && (text[2] == 'x' || text[2] == 'X');
    size_t i = is_hex ? 3 : 2, begin = i;
    unsigned code = 0;

    for (;
         i < bytes && (is_hex ? isxdigit((unsigned char)text[i]) : isdigit((unsigned char)text[i]));
         i++) {
        const char c = text[i];
        const unsigned digit =
            (unsigned)(isdigit((unsigned char)c) ? c - '0' : (c | 0x20) - 'a' + 10);

        code = code > 0x10FFFF ? code : code * (is_hex ? 16 : 10) + digit;
    }
    if (i == begin)
        return REFERENCE_NONE;
    *n = i + (i < bytes && text[i] == ';');
    unicode_encode(repair(code), utf8);
    return REFERENCE_KNOWN;
}

static bool is_of_name(char c, bool is_xml)
{
    return isalnum((unsigned char)c) ||
           (is_xml && c && (strchr("-._:", c) || (unsigned char)c >= 0x80));
}

/* Behind the name that begins at text[1]. In XML it has any length: none is looked at twice, as it
 * has no "&". */
static size_t end_of_name(const char *text, size_t bytes, bool is_xml)
{
    const size_t most = is_xml || bytes < NAME_BYTES ? bytes : NAME_BYTES;
    size_t end = 1;

    while (end < most && is_of_name(text[end], is_xml))
        end++;
    return end;
}

enum reference reference_read(const char *text, size_t bytes, bool is_xml, size_t *n, char utf8[5])
{
    const struct name *name;
    size_t end;

    if (bytes > 2 && text[1] == '#')
        return read_number(text, bytes, n, utf8);
    end = end_of_name(text, bytes, is_xml);
    if (end < bytes && end > 1 && text[end] == ';') {
        name = find(text + 1, end - 1);
        *n = end + 1;
        if (name)
            unicode_encode(name->code, utf8);
        return name ? REFERENCE_KNOWN : REFERENCE_UNKNOWN;
    }
    for (; end > 2 && !is_xml; end--) { /* "&copy2026" */
        name = find(text + 1, end - 1);
        if (name && name->is_latin1) {
            *n = end;
            unicode_encode(name->code, utf8);
            return REFERENCE_KNOWN;
        }
    }
    return REFERENCE_NONE;
}
