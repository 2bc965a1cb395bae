#include "serve/decoding.h"

#include <math.h>
#include <stddef.h>

void decoding_init(struct decoding_wish *wish)
{
#define INIT_INT(name, min, max, help) wish->name = DECODING_UNSET;
#define INIT_REAL(name, min, max, help) wish->name = (double)NAN;
    ACRE_DECODING_OPTIONS(INIT_INT, INIT_REAL)
}

const char *decoding_said(const struct decoding_wish *wish)
{
#define SAID_INT(name, min, max, help)                                                             \
    if (wish->name != DECODING_UNSET)                                                              \
        return #name;
#define SAID_REAL(name, min, max, help)                                                            \
    if (!isnan(wish->name))                                                                        \
        return #name;
    ACRE_DECODING_OPTIONS(SAID_INT, SAID_REAL)
    return NULL;
}

void decoding_apply(const struct decoding_wish *wish, struct acre_decoding *decoding)
{
#define APPLY_INT(name, min, max, help)                                                            \
    if (wish->name != DECODING_UNSET)                                                              \
        decoding->name = (int)wish->name;
#define APPLY_REAL(name, min, max, help)                                                           \
    if (!isnan(wish->name))                                                                        \
        decoding->name = (float)wish->name;
    ACRE_DECODING_OPTIONS(APPLY_INT, APPLY_REAL)
}
