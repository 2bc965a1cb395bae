/* wrap.h - one line as several, as even as can be. No state. */
#ifndef SERVER_CONTENT_WRAP_H
#define SERVER_CONTENT_WRAP_H

#include <stddef.h>

/* Puts up to `n_breaks` line ends where the line has single blanks, except within tags, codes and
 * placeholders, before its first word, and where a sign goes with the word beside it: "Ça va ?". */
void wrap_line(char *line, size_t bytes, size_t n_breaks);

#endif
