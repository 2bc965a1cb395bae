#include "content/unread.h"

#include <unicode/uchar.h>

#include "common/unicode.h"
#include "content/span.h"
#include "content/word.h"

enum {
    APOSTROPHE = 0x2BC,  /* a letter, as in "Kʼicheʼ", and typed for the sign in "donʼt" */
    WORD_BYTES = 64,     /* on each side of an apostrophe, of a word looked up among terms */
    UNIT_LETTERS = 3,    /* "km²" is a unit, and a word with a sign behind it if it has more */
    NOTE_FORMS = 4,      /* numbers of notes are not longer */
    ISOTOPE_LETTERS = 2, /* "¹⁴C", and a note before a word if it has more: "¹This" */
    SIGNS = 0x2100 /* before are those that clauses have, which models do well without reading:
                    * dashes, quotes, bullets, currencies */
};

/* A digit or sign that becomes another when a text is normalised: ², ₂, ½, ㎡, ①, ™, №. Of letters
 * it is but the form: "XIXᵉ". */
static bool is_form(uint32_t character)
{
    const UChar32 c = (UChar32)character;

    if (c < 0x80 || u_isalpha(c) || (U_GET_GC_MASK(c) & U_GC_M_MASK))
        return false;
    switch (u_getIntPropertyValue(c, UCHAR_DECOMPOSITION_TYPE)) {
    case U_DT_SUPER:
    case U_DT_SUB:
    case U_DT_FRACTION:
    case U_DT_SQUARE:
    case U_DT_CIRCLE:
        return true;
    case U_DT_COMPAT: /* №, ℃ */
        return c >= 0x2100 && c < 0x2150;
    default:
        return false;
    }
}

static bool is_unread_letter(uint32_t c, const struct known *known)
{
    return u_isalnum((UChar32)c) && !known_reads(known, c);
}

/* Behind the forms at a place, as many as a note has. */
static size_t skip_forms(const char *text, size_t bytes, size_t at)
{
    size_t next = at;

    for (size_t n = 0; n < NOTE_FORMS && at < bytes; n++, at = next)
        if (!is_form(unicode_next(text, bytes, &next)))
            break;
    return at;
}

/* Whether forms begin at a place that are the number of a note, and no word: "¹This", "good.¹" */
static bool begins_note(const char *text, size_t bytes, size_t at)
{
    const size_t end = skip_forms(text, bytes, at);
    size_t before = unicode_before(text, at), n_letters = 0;
    const uint32_t c = at > 0 ? unicode_next(text, at, &before) : 0;

    if (end == at || word_has(c) || is_form(c))
        return false;
    for (size_t next = end; n_letters <= ISOTOPE_LETTERS && next < bytes; n_letters++)
        if (!u_isalpha((UChar32)unicode_next(text, bytes, &next)))
            break;
    return n_letters > ISOTOPE_LETTERS ||
           (n_letters == 0 && c < 0x80 && is_one_of((char)c, ".,;:!?\"'"));
}

/* Whether such a note ends there. Of more forms than one has the first is not looked for. */
static bool is_behind_note(const char *text, size_t bytes, size_t at)
{
    size_t begin = at, before;

    for (size_t n = 0; begin > 0 && n < NOTE_FORMS; n++, begin = before) {
        size_t next = before = unicode_before(text, begin);

        if (!is_form(unicode_next(text, at, &next)))
            break;
    }
    return begin < at && begins_note(text, bytes, begin);
}

/* Whether an apostrophe ends before `at` that letters touch on both sides: "Qur'ān". */
static bool is_behind_apostrophe(const char *text, size_t at)
{
    size_t begin = unicode_before(text, at), before;
    size_t after = begin;
    uint32_t c = at > 0 ? unicode_next(text, at, &after) : 0;

    if ((c != '\'' && c != 0x2019) || begin == 0)
        return false;
    before = unicode_before(text, begin);
    c = unicode_next(text, begin, &before);
    return word_has(c) || is_form(c);
}

struct word {
    size_t end, n_letters; /* letters before the first form */
    bool is_unread, has_form, has_digit;
};

static bool is_apostrophe(uint32_t c, const struct known *known)
{
    return c == '\'' || c == 0x2019 || (c == APOSTROPHE && !known_reads(known, c));
}

/* "'s" is no part of the name before it, and goes into other words: "der Bericht von Őry". */
static bool is_possessive(struct span s, size_t at)
{
    return peek(s, at) == 's' && !is_word(peek(s, at + 1));
}

static struct word read_word(struct span s, size_t at, const struct known *known)
{
    struct word word = {.end = at};

    for (size_t after = at; after < s.n; word.end = after) {
        const uint32_t c = unicode_next(s.at, s.n, &after);
        const bool is_form_here = is_form(c);
        size_t behind = after;

        if (word.end > at && is_apostrophe(c, known)) {
            if (is_possessive(s, after) || after == s.n ||
                !word_has(unicode_next(s.at, s.n, &behind)))
                break;
            continue;
        }
        if (!is_form_here && !word_has(c))
            break;
        if (is_unread_letter(c, known))
            word.is_unread = true;
        else if (u_isalnum((UChar32)c) && word_is_unspaced(c))
            break; /* words go on without a blank */
        word.has_form |= is_form_here;
        word.has_digit |= c < 0x80 && isdigit((int)c);
        word.n_letters += !word.has_form;
    }
    return word;
}

static bool is_kept(const struct word *word)
{
    return word->is_unread ||
           (word->has_form && (word->has_digit || word->n_letters <= UNIT_LETTERS));
}

/* Behind what may stand between words of one name. */
static size_t skip_joint(struct span s, size_t n)
{
    return n + (peek(s, n) == '-' || peek(s, n) == ' ');
}

/* Where there are no blanks, also between what is read and what is not. */
static bool begins_here(const char *text, size_t bytes, size_t at, const struct known *known)
{
    size_t before = unicode_before(text, at), here = at;
    uint32_t c;

    if (at == 0)
        return true;
    if (is_behind_apostrophe(text, at))
        return false;
    c = unicode_next(text, at, &before);
    if (!word_has(c) && (!is_form(c) || is_behind_note(text, bytes, at)))
        return true;
    return word_is_unspaced(c) && known_reads(known, c) &&
           is_unread_letter(unicode_next(text, bytes, &here), known);
}

size_t unread_word(const char *text, size_t bytes, size_t at, const struct known *known)
{
    const struct span s = {text + at, bytes - at};
    struct word word;
    size_t n = 0, next = 0;

    if (!begins_here(text, bytes, at, known) || begins_note(text, bytes, at))
        return 0;
    word = read_word(s, 0, known);
    while (is_kept(&word) && !known_has_word(known, s.at + next, word.end - next)) {
        n = word.end;
        next = skip_joint(s, n);
        if (!word.is_unread || next == n)
            break;
        word = read_word(s, next, known);
        if (!word.is_unread)
            break;
    }
    return n;
}

/* Within a word only forms are signs: what joins letters belongs to them. */
static bool is_sign(const char *text, size_t bytes, size_t at, const struct known *known)
{
    size_t before = unicode_before(text, at), after = at;
    const uint32_t c = unicode_next(text, bytes, &after);

    if (is_form(c))
        return true;
    if (c < SIGNS || word_has(c) || u_isUWhiteSpace((UChar32)c) || known_reads(known, c) ||
        u_hasBinaryProperty((UChar32)c, UCHAR_S_TERM)) /* which ends a sentence */
        return false;
    return at == 0 || after == bytes || !word_has(unicode_next(text, at, &before)) ||
           !word_has(unicode_next(text, bytes, &after));
}

size_t unread_signs(const char *text, size_t bytes, size_t at, const struct known *known)
{
    size_t end = at;

    for (size_t next = at; next < bytes && is_sign(text, bytes, next, known); end = next) {
        unicode_next(text, bytes, &next);
        if (known_is_term(known, text + end, next - end))
            break;
    }
    return end - at;
}

/* The word around a place, or what of it is near. */
static struct span word_around(const char *text, size_t bytes, size_t at)
{
    size_t begin = at, end = at;

    for (size_t before = at; begin > 0 && at - begin < WORD_BYTES; begin = before) {
        size_t next = before = unicode_before(text, begin);

        if (!word_has(unicode_next(text, at, &next)))
            break;
    }
    for (size_t next = at; end < bytes && end - at < WORD_BYTES; end = next)
        if (!word_has(unicode_next(text, bytes, &next)))
            break;
    return (struct span){text + begin, end - begin};
}

size_t unread_apostrophe(const char *text, size_t bytes, size_t at, const struct known *known)
{
    struct span word;

    if (!begins((struct span){text + at, bytes - at}, 0, "ʼ") || known_reads(known, APOSTROPHE))
        return 0;
    word = word_around(text, bytes, at);
    return known_has_word(known, word.at, word.n) ? 0 : strlen("ʼ");
}

bool unread_character(uint32_t c, const struct known *known)
{
    return is_form(c) || is_unread_letter(c, known);
}

bool unread_is_word(const char *text, size_t bytes, size_t at)
{
    size_t after = at;
    const uint32_t c = unicode_next(text, bytes, &after);

    return word_has(c) ||
           (is_form(c) && begins_here(text, bytes, at, NULL) && !begins_note(text, bytes, at));
}
