/* Each kind has a function that says how long a placeholder of it is at a place, 0: it is none.
 * What prose has, too, is none: "100% sure", "$5", "50%discount". */
#include "content/placeholder.h"

#include <unicode/uchar.h>

#include "common/unicode.h"
#include "content/address.h"
#include "content/code.h"
#include "content/span.h"
#include "content/unread.h"
#include "content/word.h"

enum {
    NAME_BYTES = 64,
    TAG_BYTES = 256,
    MESSAGE_BYTES = 2048,
    ARROW_BYTES = 8 /* rules are as long as they like */
};

/* Behind `end` where it closes, on one line, what opens before i; else 0. */
static size_t find_end(struct span s, size_t i, const char *end)
{
    const size_t n = strlen(end);

    for (size_t most = i + NAME_BYTES; i < most && i + n <= s.n; i++) {
        if (memcmp(s.at + i, end, n) == 0)
            return i + n;
        if (is_one_of(s.at[i], "\n{<"))
            return 0;
    }
    return 0;
}

/* ---- % --------------------------------------------------------------------------------------- */

/* Whether what stands behind a conversion is glued to it, as in "%dpx", "%sMB", and not the rest of
 * a word of prose: "%discount". */
static bool is_unit_of(struct span s, size_t i)
{
    size_t n = 0;

    if (!is_one_of(peek(s, i - 1), "disuf@"))
        return false;
    while (n < 3 && is_word(peek(s, i + n)))
        n++;
    return n < 3 || !islower((unsigned char)peek(s, i));
}

/* %[n$][flags][width][.precision][length]conversion; a blank is a flag that prose has more often.
 */
static size_t conversion(struct span s)
{
    static const char digits[] = "0123456789";
    size_t i = skip(s, 1, digits), explicit_from;
    bool is_explicit;

    if (i > 1 && peek(s, i) == '$')
        i++;
    else if (i > 1 && !is_word(peek(s, i)) && peek(s, i) != '.')
        return i <= 3 ? i : 0; /* %1, %12 of Qt */
    is_explicit = i > 1 && peek(s, i - 1) == '$';
    explicit_from = i;
    i = skip(s, i, "-+0#'*");
    is_explicit = is_explicit || i > explicit_from;
    i = skip(s, i, digits);
    if (peek(s, i) == '.') {
        i = skip(s, i + 1, "0123456789*");
        is_explicit = true;
    }
    i = skip(s, i, "hlLqjzt");
    if (!is_one_of(peek(s, i), "diouxXeEfFgGaAcspn@"))
        return 0;
    return !is_word(peek(s, i + 1)) || is_explicit || is_unit_of(s, i + 1) ? i + 1 : 0;
}

static size_t of_percent(struct span s, char before)
{
    size_t end;

    if (peek(s, 1) == '%')
        return 2;
    if (peek(s, 1) == '{')
        return find_end(s, 2, "}");
    if (peek(s, 1) == '(') {
        end = find_end(s, 2, ")");
        return end && isalpha((unsigned char)peek(s, end)) ? end + 1 : 0;
    }
    if (peek(s, 1) >= 'A' && peek(s, 1) <= 'Z') {
        end = skip(s, 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
        if (peek(s, end) == '%')
            return end + 1;
    }
    return isdigit((unsigned char)before) ? 0 : conversion(s);
}

/* ---- { and $ --------------------------------------------------------------------------------- */

/* {n, plural, one {# item} other {# items}}: what programs choose by, as a whole. */
static size_t of_message(struct span s)
{
    static const char *const kinds[] = {"plural,", "select,", "selectordinal,"};
    size_t i = 1, depth = 1;
    bool is_message = false;

    while (i < NAME_BYTES && (isalnum((unsigned char)peek(s, i)) || peek(s, i) == '_'))
        i++;
    if (i == 1 || peek(s, i) != ',')
        return 0;
    i = skip(s, i + 1, " ");
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        is_message = is_message || begins(s, i, kinds[k]);
    for (; is_message && i < s.n && i < MESSAGE_BYTES; i++) {
        depth += s.at[i] == '{';
        depth -= s.at[i] == '}';
        if (depth == 0)
            return i + 1;
    }
    return 0;
}

/* {name}, {0}, {price:.2f}, {user.name}, { name }: what a program would put there; no prose. */
static size_t of_brace(struct span s)
{
    size_t i = 1;

    if (peek(s, 1) == '{')
        return find_end(s, 2, peek(s, 2) == '{' ? "}}}" : "}}");
    while (i < NAME_BYTES &&
           (isalnum((unsigned char)peek(s, i)) || is_one_of(peek(s, i), "_.:-$#@!%[] ,'\"")))
        i++;
    return peek(s, i) == '}' ? i + 1 : 0;
}

static size_t of_dollar(struct span s)
{
    size_t i = 1;

    if (peek(s, 1) == '{')
        return find_end(s, 2, "}");
    if (!isalpha((unsigned char)peek(s, 1)) && peek(s, 1) != '_')
        return 0;
    while (i < NAME_BYTES && (isalnum((unsigned char)peek(s, i)) || peek(s, i) == '_'))
        i++;
    return i;
}

/* ---- Emoji ----------------------------------------------------------------------------------- */

static bool joins(UChar32 c)
{
    return c == 0x200D || c == 0xFE0F || c == 0x20E3 || (c >= 0xE0020 && c <= 0xE007F) ||
           u_hasBinaryProperty(c, UCHAR_EMOJI_MODIFIER);
}

/* One emoji with what belongs to it, and those next to it. */
static size_t of_emoji(struct span s)
{
    size_t i = 0, end = 0;
    UChar32 c, next = 0;
    bool is_joined = false;

    while (i < s.n) {
        size_t after;

        c = (UChar32)unicode_next(s.at, s.n, &i);
        after = i;
        next = after < s.n ? (UChar32)unicode_next(s.at, s.n, &after) : 0;
        if (!(u_hasBinaryProperty(c, UCHAR_EMOJI_PRESENTATION) ||
              (next == 0xFE0F && u_hasBinaryProperty(c, UCHAR_EMOJI)) || (end > 0 && joins(c)) ||
              (is_joined && u_hasBinaryProperty(c, UCHAR_EMOJI))))
            break;
        is_joined = c == 0x200D;
        end = i;
    }
    return end;
}

/* ---- Signs ----------------------------------------------------------------------------------- */

bool placeholder_is_sign(char c)
{
    return is_one_of(c, "<>|\\~^`{}");
}

/* A tag in what is no markup: <b>, </a>, <Enter>, <img src="x"/>; or that is none of HTML's: <1>,
 * which stands for an element in texts of programs. */
static size_t of_tag(struct span s)
{
    const size_t first = peek(s, 1) == '/' ? 2 : 1;
    size_t i = first;

    while (i < NAME_BYTES && isdigit((unsigned char)peek(s, i)))
        i++;
    if (i > first && begins(s, i, "/>"))
        return i + 2;
    if (i > first)
        return peek(s, i) == '>' ? i + 1 : 0;
    while (i < NAME_BYTES && (isalnum((unsigned char)peek(s, i)) || is_one_of(peek(s, i), "-:")))
        i++;
    if (i == first || !isalpha((unsigned char)peek(s, first)) || !is_one_of(peek(s, i), " />"))
        return 0;
    while (i < TAG_BYTES && !is_one_of(peek(s, i), "<>\n") && i < s.n)
        i++;
    return peek(s, i) == '>' ? i + 1 : 0;
}

/* Escapes of line ends and tabs. */
static size_t of_backslash(struct span s)
{
    size_t i = 0;

    while (peek(s, i) == '\\' && is_one_of(peek(s, i + 1), "nrt"))
        i += 2;
    return i > 0 ? i : 1;
}

/* A run of them: ">>", "|~", "->"; what may begin something else ends it. */
static size_t of_signs(struct span s)
{
    size_t dashes = 0;

    while (dashes < ARROW_BYTES && is_one_of(peek(s, dashes), "-="))
        dashes++;
    if (dashes > 0)
        return peek(s, dashes) == '>' ? dashes + 1 : 0;
    return skip(s, 1, ">|~^`}-=");
}

static size_t of_sign(struct span s)
{
    size_t n = 0;

    switch (s.at[0]) {
    case '<':
        n = of_tag(s);
        break;
    case '`':
        n = find_end(s, 1, "`");
        n = n > 2 ? n : 0;
        break;
    case '\\':
        return of_backslash(s);
    default:
        break;
    }
    return n > 0 ? n : of_signs(s);
}

enum placeholder_kind placeholder_sign_kind(const char *signs, size_t n, char before, char after)
{
    const bool is_menu = memchr(signs, '>', n) || memchr(signs, '|', n);
    const bool is_behind = is_word(before) || is_one_of(before, ".,;:!?)");
    bool parts;

    if (!before || !after)
        return PLACEHOLDER_SIGN;
    if (is_blank(before) && is_blank(after))
        parts = is_menu;
    else /* tags may touch it, too */
        parts = is_behind ? is_word(after) || after == '<' : before == '>' && is_word(after);
    return parts ? PLACEHOLDER_SEPARATOR : PLACEHOLDER_SIGN;
}

/* Of menus: "File → Save", "Places ▸ Home". */
static bool is_arrow(struct span s)
{
    size_t after = 0;
    const uint32_t c = unicode_next(s.at, s.n, &after);

    return (c >= 0x2190 && c < 0x2200) || (c >= 0x25B6 && c < 0x25BC); /* ▶▷▸▹►▻ */
}

/* Whether nothing but blanks is before a place on its line. */
static bool begins_line(const char *text, size_t at)
{
    while (at > 0 && is_one_of(text[at - 1], " \t"))
        at--;
    return at == 0 || text[at - 1] == '\n';
}

/* Of a sign beyond ASCII. Between words it stands for one: "x ≥ 5". Without it the model would read
 * its neighbours as one. Where a line begins or ends it is none: "★ Free". */
static enum placeholder_kind wide_sign_kind(const char *text, size_t bytes, size_t at, size_t n)
{
    if (at == 0 || at + n == bytes || !is_blank(text[at - 1]) || !is_blank(text[at + n]))
        return PLACEHOLDER_SIGN;
    if (is_arrow((struct span){text + at, n}))
        return PLACEHOLDER_SEPARATOR;
    return begins_line(text, at) || text[at + n] == '\n' ? PLACEHOLDER_SIGN : PLACEHOLDER_NAME;
}

enum placeholder_kind placeholder_kind(const char *text, size_t bytes, size_t at, size_t n)
{
    const struct span s = {text + at, n};
    const bool is_escape = s.at[0] == '\\' && is_one_of(peek(s, 1), "nrt"),
               is_tag = s.at[0] == '<' && (isalnum((unsigned char)peek(s, 1)) || peek(s, 1) == '/');

    if (is_tag || of_emoji(s) == n)
        return PLACEHOLDER_SIGN;
    if ((unsigned char)s.at[0] >= 0x80 && unread_is_word(text, bytes, at))
        return PLACEHOLDER_NAME;
    if ((unsigned char)s.at[0] >= 0x80)
        return wide_sign_kind(text, bytes, at, n);
    if (!is_escape && skip(s, 0, "<>|\\~^`{}-=*#&") < n)
        return PLACEHOLDER_NAME;
    if (s.at[0] == '*') /* parts nothing, also in “*very* good” */
        return PLACEHOLDER_SIGN;
    return placeholder_sign_kind(s.at, n, at > 0 ? text[at - 1] : '\0',
                                 at + n < bytes ? text[at + n] : '\0');
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* Whether a word has begun before a place, of which what follows is the rest. */
static bool is_in_word(const char *text, size_t at)
{
    size_t begin = unicode_before(text, at);
    uint32_t c;

    if (at == 0 || (unsigned char)text[at - 1] < 0x80)
        return at > 0 && is_word(text[at - 1]);
    c = unicode_next(text, at, &begin);
    return word_is_spaced(c) && !joins((UChar32)c);
}

static bool begins_word(struct span s, size_t i)
{
    return i < s.n && word_is_spaced(unicode_next(s.at, s.n, &i));
}

/* What stands before lines or around words in Markdown, and between conditions: "## A", "**b**",
 * "c && d"; not within a word. */
static size_t of_markdown(const char *text, size_t bytes, size_t at)
{
    const struct span s = {text + at, bytes - at};
    const char before = at > 0 ? text[at - 1] : '\0';
    const char sign[] = {s.at[0], '\0'};
    const size_t n = before == s.at[0] ? 0 : skip(s, 0, sign);

    switch (s.at[0]) {
    case '#':
        return (!before || before == '\n') && n <= 6 && peek(s, n) == ' ' ? n : 0;
    case '&':
        return n == 2 && is_blank(before) && is_blank(peek(s, 2)) ? n : 0;
    default:
        return is_in_word(text, at) && begins_word(s, n) ? 0 : n;
    }
}

static size_t of_hash(const char *text, size_t bytes, size_t at, char before)
{
    const struct span s = {text + at, bytes - at};
    size_t n = peek(s, 1) == '{' ? find_end(s, 2, "}") : 0;

    n = n ? n : of_emoji(s);
    n = n ? n : of_markdown(text, bytes, at);
    return n > 0 || is_word(before) ? n : code_bytes(text, bytes, at);
}

/* What begins with a letter, a digit or a sign beyond ASCII. */
static size_t of_word(const char *text, size_t bytes, size_t at, const struct known *known)
{
    const struct span s = {text + at, bytes - at};
    const unsigned char first = (unsigned char)s.at[0];
    size_t n = 0;

    if ((first & 0xC0) == 0x80) /* within a character */
        return 0;
    if (first >= 0xE2 || (isdigit(first) && (unsigned char)peek(s, 1) == 0xEF))
        n = of_emoji(s);
    if (n == 0 && first >= 0x80) {
        n = unread_word(text, bytes, at, known);
        return n ? n : unread_signs(text, bytes, at, known);
    }
    if (n > 0 || !isalnum(first) || (at > 0 && text[at - 1] == '.') || is_in_word(text, at))
        return n;
    n = address_bytes(text, bytes, at);
    n = n ? n : unread_word(text, bytes, at, known);
    if (n > 0)
        return n;
    n = address_name_bytes(text, bytes, at);
    n = n ? n : code_bytes(text, bytes, at);
    return known_is_term(known, text + at, n) ? 0 : n;
}

/* What begins with a star or a dash. */
static size_t of_pattern(const char *text, size_t bytes, size_t at, const struct known *known)
{
    const bool is_behind = at > 0 && (is_word(text[at - 1]) || is_one_of(text[at - 1], "*-./"));
    const size_t n = is_behind ? 0 : code_bytes(text, bytes, at);

    return known_is_term(known, text + at, n) ? 0 : n;
}

size_t placeholder_bytes(const char *text, size_t bytes, size_t at, const struct known *known)
{
    const struct span s = {text + at, bytes - at};
    const char before = at > 0 ? text[at - 1] : '\0';
    size_t n;

    switch (s.at[0]) {
    case '%':
        return of_percent(s, before);
    case '{':
        n = of_brace(s);
        n = n ? n : of_message(s);
        return n ? n : of_sign(s);
    case '<':
    case '>':
    case '|':
    case '^':
    case '`':
    case '}':
    case '=':
        return of_sign(s);
    case '-':
        n = of_pattern(text, bytes, at, known);
        return n ? n : of_sign(s);
    case '~':
    case '\\':
        n = address_path_bytes(text, bytes, at);
        return n ? n : of_sign(s);
    case '/':
    case '.':
        return address_path_bytes(text, bytes, at);
    case '$':
        return of_dollar(s);
    case '*':
        n = of_emoji(s);
        n = n ? n : of_pattern(text, bytes, at, known);
        return n ? n : of_markdown(text, bytes, at);
    case '&':
        return of_markdown(text, bytes, at);
    case '#':
        return of_hash(text, bytes, at, before);
    default:
        return of_word(text, bytes, at, known);
    }
}
