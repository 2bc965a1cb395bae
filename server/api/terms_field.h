/* terms_field.h - the entries that a request brings, as a dictionary: `entries` of DeepL's calls,
 * and `glossary` of /translate. Any thread, as reading takes long for many entries.
 */
#ifndef SERVER_API_TERMS_FIELD_H
#define SERVER_API_TERMS_FIELD_H

#include <jansson.h>

#include "common/error.h"
#include "content/dictionary.h"

/* Text in a format, "tsv" or "csv". *dictionary is the caller's; left alone if refused. */
int terms_field_entries(const char *format, const char *entries, size_t bytes, const char *source,
                        const char *target, struct dictionary **dictionary,
                        struct srv_error *error);

/* An object of terms and translations; or an array of pairs, and of texts that stay as they are; or
 * a text in TSV, as forms have it; 64 KiB at most. An empty one is none: *dictionary stays NULL. */
int terms_field_glossary(const json_t *value, struct dictionary **dictionary,
                         struct srv_error *error);

/* Seals a dictionary, and puts what is wrong with it into words; drops it then. */
int terms_field_seal(struct dictionary *filled, struct dictionary **dictionary, int status,
                     struct acre_err *err, struct srv_error *error);

#endif
