#include "content/segment.h"

#include <unicode/uchar.h>

#include "common/unicode.h"
#include "content/word.h"

/* Whether it is one character, to readers, with what is before it. */
static bool extends(UChar32 c)
{
    const int32_t kind = u_getIntPropertyValue(c, UCHAR_GRAPHEME_CLUSTER_BREAK);

    return kind == U_GCB_EXTEND || kind == U_GCB_SPACING_MARK ||
           (U_GET_GC_MASK(c) & U_GC_M_MASK); /* some of Burmese are no more than marks */
}

static enum segment_kind kind_of(UChar32 c)
{
    if (c == '\n' || c == '\r')
        return SEGMENT_BREAK;
    if (u_isUWhiteSpace(c))
        return SEGMENT_BLANK;
    return word_has((uint32_t)c) ? SEGMENT_WORD : SEGMENT_OTHER;
}

struct segment segment_next(const char *text, size_t bytes, size_t *at)
{
    struct segment segment = {.begin = (uint32_t)*at};
    UChar32 c = (UChar32)unicode_next(text, bytes, at);
    const bool is_alone = word_is_unspaced((uint32_t)c);

    segment.kind = kind_of(c);
    if (segment.kind == SEGMENT_BLANK || segment.kind == SEGMENT_WORD)
        for (size_t next = *at; next < bytes; *at = next) {
            c = (UChar32)unicode_next(text, bytes, &next);
            if (kind_of(c) != segment.kind ||
                (is_alone ? !extends(c) : word_is_unspaced((uint32_t)c)))
                break;
        }
    segment.end = (uint32_t)*at;
    return segment;
}
