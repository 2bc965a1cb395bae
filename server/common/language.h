/* language.h - tags of languages, "pt" and "pt-BR" or "pt_BR". No state, any thread. */
#ifndef SERVER_COMMON_LANGUAGE_H
#define SERVER_COMMON_LANGUAGE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How many bytes of a tag are its language, before script and region. */
size_t language_bytes(const char *tag);

/* Whether two tags are of one language; scripts and regions do not count, and Norwegian is "nb" or
 * "no". */
bool language_is_same(const char *tag, const char *other);

#ifdef __cplusplus
}
#endif

#endif
