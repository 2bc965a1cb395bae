#include "content/word.h"

#include <unicode/uchar.h>
#include <unicode/uscript.h>

#include "common/unicode.h"

bool word_has(uint32_t character)
{
    const UChar32 c = (UChar32)character;

    return u_isalnum(c) || (U_GET_GC_MASK(c) & U_GC_M_MASK) || c == '_';
}

/* A word by itself. */
static bool stands_alone(UChar32 c)
{
    int32_t script;

    if (c < 0x2E80)
        return false;
    script = u_getIntPropertyValue(c, UCHAR_SCRIPT);
    return script == USCRIPT_HAN || script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA;
}

bool word_is_spaced(uint32_t character)
{
    const UChar32 c = (UChar32)character;

    return word_has(character) && !stands_alone(c) &&
           u_getIntPropertyValue(c, UCHAR_SCRIPT) != USCRIPT_HANGUL &&
           u_getIntPropertyValue(c, UCHAR_LINE_BREAK) != U_LB_COMPLEX_CONTEXT;
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

    word.kind = kind_of(c);
    if (word.kind == WORD_BLANK || (word.kind == WORD_LETTERS && !stands_alone(c)))
        for (size_t next = *at; next < bytes; *at = next) {
            c = (UChar32)unicode_next(text, bytes, &next);
            if (kind_of(c) != word.kind || stands_alone(c))
                break;
        }
    word.end = (uint32_t)*at;
    return word;
}
