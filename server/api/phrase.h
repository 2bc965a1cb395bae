/* phrase.h - errors in a dialect's own words, from a table of what it says instead. No state. */
#ifndef SERVER_API_PHRASE_H
#define SERVER_API_PHRASE_H

#include <stdbool.h>

#include "common/error.h"

struct phrase {
    const char *code; /* of the errors that it is for; NULL: of any */
    bool of_field;    /* it is for those alone that are about a field */
    const char *text; /* with @f for the field, @t for the text that there was; NULL: that stays */
    int status;       /* 0: that stays */
};

/* The first that is for the error counts; the last one is all 0, and leaves it as it is. */
void phrase_error(const struct phrase *phrases, struct srv_error *error);

#endif
