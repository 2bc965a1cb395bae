#include "api/phrase.h"

#include <stdio.h>
#include <string.h>

static bool is_for(const struct phrase *phrase, const struct srv_error *error)
{
    return (!phrase->code || strcmp(phrase->code, error->code) == 0) &&
           (!phrase->of_field || error->field[0]);
}

static void expand(const char *form, struct srv_error *error)
{
    char text[sizeof(error->text)] = "";

    for (; *form; form++) {
        const size_t used = strlen(text);

        if (*form != '@')
            snprintf(text + used, sizeof(text) - used, "%c", *form);
        else
            snprintf(text + used, sizeof(text) - used, "%.400s",
                     *++form == 'f' ? error->field : error->text);
    }
    memcpy(error->text, text, sizeof(text));
}

void phrase_error(const struct phrase *phrases, struct srv_error *error)
{
    while (!is_for(phrases, error))
        phrases++;
    if (phrases->text)
        expand(phrases->text, error);
    if (phrases->status)
        error->status = phrases->status;
}
