/* decoding.h - what a caller says of decoding; the model says the rest.
 *
 * Plain values; whoever owns them may use them on any thread.
 */
#ifndef SERVER_SERVE_DECODING_H
#define SERVER_SERVE_DECODING_H

#include <stdint.h>

#include "acre.h"

/* One field per option of ACRE_DECODING_OPTIONS. Nothing said: DECODING_UNSET, or NAN. */
struct decoding_wish {
#define WISH_INT(name, min, max, help) int64_t name;
#define WISH_REAL(name, min, max, help) double name;
    ACRE_DECODING_OPTIONS(WISH_INT, WISH_REAL)
#undef WISH_INT
#undef WISH_REAL
};

enum { DECODING_UNSET = -1 }; /* less than any value that an option takes */

/* Says nothing. */
void decoding_init(struct decoding_wish *wish);
/* The name of the first option that something was said of, or NULL. */
const char *decoding_said(const struct decoding_wish *wish);

/* Puts what was said over `decoding`. */
void decoding_apply(const struct decoding_wish *wish, struct acre_decoding *decoding);

#endif
