#include "common/language.h"

#include <string.h>
#include <strings.h>

size_t language_bytes(const char *tag)
{
    return strcspn(tag, "-_");
}

static bool is_norwegian(const char *tag, size_t n)
{
    return n == 2 && (strncasecmp(tag, "nb", n) == 0 || strncasecmp(tag, "no", n) == 0);
}

bool language_is_same(const char *tag, const char *other)
{
    const size_t n = language_bytes(tag);

    return n == language_bytes(other) &&
           (strncasecmp(tag, other, n) == 0 || (is_norwegian(tag, n) && is_norwegian(other, n)));
}
