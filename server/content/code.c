/* Each kind has a function that says how long a code of it is at a place, 0: it is none. */
#include "content/code.h"

#include "content/span.h"

enum {
    CODE_BYTES = 128,
    MANY_DIGITS = 7,  /* more than prose has without a comma or a full stop between them */
    YEARS_DIGITS = 8, /* 1914-1918, which models can do */
    MANY_COLONS = 3,  /* more than a time of day has */
    GROUP_BYTES = 4,  /* of numbers of accounts and cards, in groups: */
    MANY_GROUPS = 3
};

static size_t skip_hex(struct span s, size_t i)
{
    while (isxdigit((unsigned char)peek(s, i)))
        i++;
    return i;
}

/* 0x80070005, #FF00AA */
static size_t of_hex(struct span s)
{
    const size_t first = s.at[0] == '#' ? 1 : 2;
    size_t n;

    if (first == 2 && !begins(s, 0, "0x"))
        return 0;
    n = skip_hex(s, first);
    if (is_word(peek(s, n)) || n < first + 2)
        return 0;
    return first == 2 || n == 7 || n == 9 ? n : 0;
}

/* max_connections */
static size_t of_name(struct span s)
{
    size_t n = 0;
    bool is_joined = false;

    while (n < CODE_BYTES && (isalnum((unsigned char)peek(s, n)) || peek(s, n) == '_')) {
        is_joined = is_joined || (s.at[n] == '_' && isalnum((unsigned char)peek(s, n + 1)));
        n++;
    }
    return is_joined && s.at[n - 1] != '_' && !is_word(peek(s, n)) ? n : 0;
}

/* Whether a star stands where names have one, and no Markdown: before a dot or a dash, or behind a
 * dash. What is behind a full stop may be a note: "Not for children.*" */
static bool is_wildcard(struct span s, size_t i)
{
    const char before = i > 0 ? s.at[i - 1] : '\0', next = peek(s, i + 1);

    if (next == '*' || is_word(next))
        return false;
    return is_one_of(before, "-_/") ||
           (is_one_of(next, ".-_") && isalnum((unsigned char)peek(s, i + 2)));
}

/* *.dsc, --force-*, lib*-java */
static size_t of_pattern(struct span s)
{
    size_t n = 0, end = 0;
    bool has_star = false, has_word = false;

    for (; n < CODE_BYTES && (isalnum((unsigned char)peek(s, n)) || is_one_of(peek(s, n), "-_./*"));
         n++) {
        if (s.at[n] == '*' && !is_wildcard(s, n))
            return 0;
        has_star |= s.at[n] == '*';
        has_word |= isalnum((unsigned char)s.at[n]) != 0;
        if (!is_one_of(s.at[n], "-_./"))
            end = n + 1;
    }
    return has_star && has_word && !is_word(peek(s, n)) ? end : 0;
}

/* Whether a number goes on with a sign, as dates and addresses do, and times of the day. */
static bool goes_on(struct span s, size_t i, bool is_time)
{
    const unsigned char next = (unsigned char)peek(s, i + 1);

    switch (peek(s, i)) {
    case '-':
        return isalnum(next);
    case ':':
        return isalnum(next) || next == ':';
    case '.':
    case '+':
        return is_time && isdigit(next);
    default:
        return false;
    }
}

/* 12345678, 2024-02-29T12:34:56Z, 2001:db8:0:1::1 */
static size_t of_number(struct span s)
{
    size_t n = 0, n_digits = 0, n_colons = 0, n_others = 0;

    for (; n < CODE_BYTES && (isalnum((unsigned char)peek(s, n)) || goes_on(s, n, n_colons > 0));
         n++) {
        n_digits += isdigit((unsigned char)s.at[n]) != 0;
        n_colons += s.at[n] == ':';
        n_others += !isdigit((unsigned char)s.at[n]);
    }
    if (is_word(peek(s, n)) || n_digits == 0)
        return 0;
    if (n_digits == YEARS_DIGITS && n_others == 1 && s.at[YEARS_DIGITS / 2] == '-')
        return 0;
    return n_digits >= MANY_DIGITS || n_colons >= MANY_COLONS ? n : 0;
}

/* With a digit, so that no word is one. */
static size_t skip_group(struct span s, size_t i)
{
    const size_t begin = i;
    bool has_digit = false;

    while (i < begin + GROUP_BYTES &&
           (isdigit((unsigned char)peek(s, i)) || isupper((unsigned char)peek(s, i))))
        has_digit |= isdigit((unsigned char)s.at[i++]) != 0;
    return has_digit && !is_word(peek(s, i)) ? i : begin;
}

/* 4111 1111 1111 1111, DE89 3704 0044 0532 0130 00 */
static size_t of_groups(struct span s)
{
    size_t n = skip_group(s, 0), n_groups = n == GROUP_BYTES, next;

    while (n_groups > 0 && n < CODE_BYTES && peek(s, n) == ' ') {
        next = skip_group(s, n + 1);
        if (next == n + 1)
            break;
        n_groups += next == n + 1 + GROUP_BYTES;
        if (next < n + 1 + GROUP_BYTES) /* the last one may be shorter */
            return n_groups >= MANY_GROUPS ? next : 0;
        n = next;
    }
    return n_groups >= MANY_GROUPS ? n : 0;
}

size_t code_bytes(const char *text, size_t bytes, size_t at)
{
    static size_t (*const kinds[])(struct span) = {of_pattern, of_hex, of_name, of_groups,
                                                   of_number};
    const struct span s = {text + at, bytes - at};
    size_t n = 0;

    if (s.at[0] == '#')
        return of_hex(s);
    if (s.at[0] == '*' || s.at[0] == '-')
        return of_pattern(s);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && n == 0; i++)
        n = kinds[i](s);
    return n;
}
