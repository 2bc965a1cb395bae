#include "content/word.h"

#include <unicode/uchar.h>
#include <unicode/uscript.h>

#include "common/unicode.h"

bool word_has(uint32_t character)
{
    const UChar32 c = (UChar32)character;

    return u_isalnum(c) || (U_GET_GC_MASK(c) & U_GC_M_MASK) || c == '_';
}

/* A character of Thai, Lao, Khmer or Burmese, which have no blanks between words. */
static bool is_complex(UChar32 c)
{
    return c >= 0x0E00 && u_getIntPropertyValue(c, UCHAR_LINE_BREAK) == U_LB_COMPLEX_CONTEXT;
}

/* A word by itself, with the signs that extend it. */
static bool stands_alone(UChar32 c)
{
    int32_t script;

    if (c < 0x2E80)
        return is_complex(c);
    script = u_getIntPropertyValue(c, UCHAR_SCRIPT);
    return script == USCRIPT_HAN || script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA ||
           is_complex(c);
}

/* Whether it is one character, to readers, with what is before it. */
static bool extends(UChar32 c)
{
    const int32_t kind = u_getIntPropertyValue(c, UCHAR_GRAPHEME_CLUSTER_BREAK);

    return kind == U_GCB_EXTEND || kind == U_GCB_SPACING_MARK ||
           (U_GET_GC_MASK(c) & U_GC_M_MASK); /* some of Burmese are no more than marks */
}

bool word_is_spaced(uint32_t character)
{
    const UChar32 c = (UChar32)character;

    return word_has(character) && !stands_alone(c) &&
           u_getIntPropertyValue(c, UCHAR_SCRIPT) != USCRIPT_HANGUL;
}

static enum word_kind kind_of(UChar32 c)
{
    if (c == '\n' || c == '\r')
        return WORD_BREAK;
    if (u_isUWhiteSpace(c))
        return WORD_BLANK;
    return word_has((uint32_t)c) ? WORD_LETTERS : WORD_OTHER;
}

struct word word_next(const char *text, size_t bytes, size_t *at)
{
    struct word word = {.begin = (uint32_t)*at};
    UChar32 c = (UChar32)unicode_next(text, bytes, at);
    const bool is_alone = stands_alone(c);

    word.kind = kind_of(c);
    if (word.kind == WORD_BLANK || word.kind == WORD_LETTERS)
        for (size_t next = *at; next < bytes; *at = next) {
            c = (UChar32)unicode_next(text, bytes, &next);
            if (kind_of(c) != word.kind || (is_alone ? !extends(c) : stands_alone(c)))
                break;
        }
    word.end = (uint32_t)*at;
    return word;
}
