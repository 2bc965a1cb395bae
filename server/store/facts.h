/* facts.h - numbers and words of a store by name, in its table `facts`.
 *
 * Some grow with each change of what they are called by, so that servers which share the store see
 * at one glance whether anything has changed. Any thread that has the database.
 */
#ifndef SERVER_STORE_FACTS_H
#define SERVER_STORE_FACTS_H

#include "store/store.h"

int facts_number(sqlite3 *db, const char *name, int64_t *value, struct acre_err *err);

/* Cut where it is longer than `bytes`. */
int facts_word(sqlite3 *db, const char *name, char *word, size_t bytes, struct acre_err *err);

/* One more; *value is what it is then. */
int facts_count(sqlite3 *db, const char *name, int64_t *value, struct acre_err *err);

#endif
