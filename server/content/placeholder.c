/* Each kind has a function that says how long a placeholder of it is at a place, 0: it is none.
 * What prose has, too, is none: "100% sure", "$5", "50%discount". */
#include "content/placeholder.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <unicode/uchar.h>

#include "common/unicode.h"
#include "content/word.h"

enum {
    NAME_BYTES = 64,
    LOCAL_BYTES = 64,
    DOMAIN_BYTES = 253,
    TAG_BYTES = 256,
    MESSAGE_BYTES = 2048,
    ARROW_BYTES = 8 /* rules are as long as they like */
};

/* The text from a place to its end. */
struct span {
    const char *at;
    size_t n;
};

static char peek(struct span s, size_t i)
{
    return i < s.n ? s.at[i] : '\0';
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static bool is_one_of(char c, const char *set)
{
    return c && strchr(set, c);
}

static size_t skip(struct span s, size_t i, const char *set)
{
    while (is_one_of(peek(s, i), set))
        i++;
    return i;
}

static bool begins(struct span s, size_t i, const char *word)
{
    const size_t n = strlen(word);

    return i + n <= s.n && memcmp(s.at + i, word, n) == 0;
}

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

/* ---- Addresses ------------------------------------------------------------------------------- */

/* Whether it joins words: "Michelson–Morley", "Col·legi", "L’Équipe". */
static bool is_joint(UChar32 c)
{
    static const UChar32 signs[] = {'\'', 0xB7, 0x2010, 0x2011, 0x2013, 0x2019, 0x30FB};
    bool is_one = false;

    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
        is_one |= c == signs[i];
    return is_one;
}

bool placeholder_url_has(const char *text, size_t bytes, uint32_t character, size_t after)
{
    const UChar32 c = (UChar32)character;

    if (is_joint(c))
        return after < bytes && u_isalnum((UChar32)unicode_next(text, bytes, &after));
    if (c < 0x80)
        return c > ' ' && !is_one_of((char)c, "<>\"`|^");
    return !u_isspace(c) && !u_ispunct(c);
}

/* Whether a host ends before c: "example.comをご覧". A name that is of such a script from its
 * beginning goes on. */
static bool ends_host(char before, uint32_t c)
{
    return isalnum((unsigned char)before) && word_has(c) && !word_is_spaced(c);
}

static size_t of_url(struct span s)
{
    static const char *const schemes[] = {"https://", "http://", "ftp://", "ftps://",
                                          "file://",  "mailto:", "www."};
    size_t n = 0, after, open = 0, open_braces = 0;
    bool is_host = true;

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]) && n == 0; i++)
        if (s.n > strlen(schemes[i]) && strncasecmp(s.at, schemes[i], strlen(schemes[i])) == 0)
            n = strlen(schemes[i]);
    if (n == 0 || !is_word(peek(s, n)))
        return 0;
    for (after = n; after < s.n; n = after) {
        const uint32_t c = unicode_next(s.at, s.n, &after);

        if (!placeholder_url_has(s.at, s.n, c, after) || (is_host && ends_host(s.at[n - 1], c)))
            break;
        is_host = is_host && !(c < 0x80 && is_one_of((char)c, "/?#"));
        open += c == '(';
        open_braces += c == '{';
    }
    while (n > 0 && is_one_of(s.at[n - 1], ".,;:!?])}*_")) { /* which close the sentence */
        if ((s.at[n - 1] == ')' && open > 0) || (s.at[n - 1] == '}' && open_braces > 0))
            break;
        n--;
    }
    return n;
}

static size_t of_email(struct span s)
{
    size_t at = 0, end, dot = 0;

    while (at < LOCAL_BYTES &&
           (isalnum((unsigned char)peek(s, at)) || is_one_of(peek(s, at), ".!#$&'*+/=?^_`{|}~-")))
        at++;
    if (at == 0 || peek(s, at) != '@')
        return 0;
    for (end = at + 1; end - at < DOMAIN_BYTES &&
                       (isalnum((unsigned char)peek(s, end)) || is_one_of(peek(s, end), ".-"));
         end++)
        if (s.at[end] == '.' && end > at + 1 && isalnum((unsigned char)peek(s, end + 1)))
            dot = end;
    while (end > at && is_one_of(s.at[end - 1], ".-"))
        end--;
    return dot ? end : 0;
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

static size_t skip_path(struct span s, size_t i)
{
    while (i < s.n && !is_one_of(s.at[i], " \t\r\n\"<>|*?"))
        i++;
    while (i > 0 && is_one_of(peek(s, i - 1), ".,;:!)\\"))
        i--;
    return i;
}

/* Escapes of line ends and tabs, and the names of servers: \\host\folder. */
static size_t of_backslash(struct span s)
{
    size_t i = 0;

    if (peek(s, 1) == '\\' && isalnum((unsigned char)peek(s, 2)))
        return skip_path(s, 2);
    while (peek(s, i) == '\\' && is_one_of(peek(s, i + 1), "nrt"))
        i += 2;
    return i > 0 ? i : 1;
}

/* C:\folder\file */
static size_t of_drive(struct span s)
{
    return isalpha((unsigned char)peek(s, 0)) && peek(s, 1) == ':' && peek(s, 2) == '\\' &&
                   is_word(peek(s, 3))
               ? skip_path(s, 3)
               : 0;
}

/* Whether a path goes on with it. Not all that file names may have: prose stands around it. */
static bool is_of_path(uint32_t c)
{
    return c < 0x80 ? isalnum((int)c) || is_one_of((char)c, "/._-+@%~")
                    : word_has(c) && word_is_spaced(c);
}

/* /etc/hosts, /index.html, ~/.profile, ./configure, ../notes; not what parts words or numbers: "his
 * /her", "3 /4/2024". */
static size_t of_path(struct span s)
{
    const size_t first = s.at[0] == '~' ? 1 : skip(s, 0, ".");
    size_t n = first + 1, after;

    if (first > 2 || peek(s, first) != '/' ||
        !(isalnum((unsigned char)peek(s, n)) || is_one_of(peek(s, n), "._-")))
        return 0;
    for (after = n; n < s.n && is_of_path(unicode_next(s.at, s.n, &after));)
        n = after;
    while (s.at[n - 1] == '.')
        n--;
    if (n <= first + 1)
        return 0;
    if (first == 0 && !memchr(s.at + 1, '/', n - 1) && !memchr(s.at + 1, '.', n - 1))
        return 0;
    return skip(s, first, "/.0123456789-") < n ? n : 0;
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

static bool is_blank(char c)
{
    return isspace((unsigned char)c);
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

enum placeholder_kind placeholder_kind(const char *text, size_t bytes, size_t at, size_t n)
{
    const struct span s = {text + at, n};
    const bool is_emoji = (unsigned char)s.at[0] >= 0x80 || (unsigned char)peek(s, 1) >= 0x80,
               is_escape = s.at[0] == '\\' && is_one_of(peek(s, 1), "nrt"),
               is_tag = s.at[0] == '<' && (isalnum((unsigned char)peek(s, 1)) || peek(s, 1) == '/');

    if (is_emoji || is_tag)
        return PLACEHOLDER_SIGN;
    if (!is_escape && skip(s, 0, "<>|\\~^`{}-=") < n)
        return PLACEHOLDER_NAME;
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

/* Whether the tag that ends before a place is an end tag. */
static bool is_behind_end(const char *text, size_t at)
{
    for (size_t i = at; i > 0 && at - i < TAG_BYTES; i--)
        if (text[i - 1] == '<')
            return text[i] == '/';
    return true;
}

/* Not behind a word, or what ends one, an amount or a quotation: "pre-/postnatal", "€/month". */
static bool begins_path(const char *text, size_t at)
{
    size_t begin = unicode_before(text, at);
    const bool is_first = begin == 0 || is_blank(text[begin - 1]);
    UChar32 c;

    if (at == 0)
        return true;
    c = (UChar32)unicode_next(text, at, &begin);
    if (c < 0x80 && is_one_of((char)c, "\"'`"))
        return is_first;
    if (c == '>')
        return !is_behind_end(text, at);
    return c == '=' || u_isUWhiteSpace(c) || u_charType(c) == U_START_PUNCTUATION ||
           u_charType(c) == U_INITIAL_PUNCTUATION ||
           (word_has((uint32_t)c) && !word_is_spaced((uint32_t)c));
}

size_t placeholder_bytes(const char *text, size_t bytes, size_t at)
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
    case '\\':
    case '^':
    case '`':
    case '}':
    case '-':
    case '=':
        return of_sign(s);
    case '~':
    case '/':
    case '.':
        n = begins_path(text, at) ? of_path(s) : 0;
        return n > 0 || s.at[0] != '~' ? n : of_sign(s);
    case '$':
        return of_dollar(s);
    case '#':
        n = peek(s, 1) == '{' ? find_end(s, 2, "}") : 0;
        return n ? n : of_emoji(s);
    default:
        break;
    }
    if ((unsigned char)s.at[0] >= 0x80 ||
        (isdigit((unsigned char)s.at[0]) && s.n > 2 && (unsigned char)s.at[1] == 0xEF))
        return (unsigned char)s.at[0] < 0x80 || (unsigned char)s.at[0] >= 0xE2 ? of_emoji(s) : 0;
    if (!isalnum((unsigned char)s.at[0]) || before == '.' || is_in_word(text, at))
        return 0;
    n = of_url(s);
    n = n ? n : of_drive(s);
    return n ? n : of_email(s);
}
