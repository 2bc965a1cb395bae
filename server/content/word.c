#include "content/word.h"

#include <unicode/uchar.h>
#include <unicode/uscript.h>

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

bool word_is_unspaced(uint32_t character)
{
    const UChar32 c = (UChar32)character;
    int32_t script;

    if (c < 0x2E80)
        return is_complex(c);
    script = u_getIntPropertyValue(c, UCHAR_SCRIPT);
    return script == USCRIPT_HAN || script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA ||
           is_complex(c);
}

bool word_is_spaced(uint32_t character)
{
    return word_has(character) && !word_is_unspaced(character) &&
           u_getIntPropertyValue((UChar32)character, UCHAR_SCRIPT) != USCRIPT_HANGUL;
}
