/* languages.h - English names of language codes, for lists and messages. Static data. */
#ifndef SERVER_SERVE_LANGUAGES_H
#define SERVER_SERVE_LANGUAGES_H

#include <stdbool.h>

/* "German" for "de" or "DE"; the code itself if it is not known. */
const char *languages_name(const char *code);

bool languages_known(const char *code);

#endif
