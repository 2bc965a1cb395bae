#include "common/language.h"

#include <string.h>
#include <strings.h>

size_t language_bytes(const char *tag)
{
    return strcspn(tag, "-_");
}

bool language_is_same(const char *tag, const char *other)
{
    const size_t n = language_bytes(tag);

    return n == language_bytes(other) && strncasecmp(tag, other, n) == 0;
}
