#include "common/grow.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ITEMS = 64 };

bool grow(void *items, size_t item_bytes, size_t wanted, size_t *n_allocated)
{
    size_t n = *n_allocated > 0 ? *n_allocated : FIRST_ITEMS;
    void *block, *larger;

    if (wanted <= *n_allocated)
        return true;
    if (wanted > SIZE_MAX / 2 / item_bytes) /* n gets to be less than twice that */
        return false;
    while (n < wanted)
        n *= 2;
    memcpy(&block, items, sizeof(block)); /* a pointer of any type */
    larger = realloc(block, n * item_bytes);
    if (!larger)
        return false;
    memcpy(items, &larger, sizeof(larger));
    *n_allocated = n;
    return true;
}
