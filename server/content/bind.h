/* bind.h - which units of a translation surely come from where, whatever alignments say: what is
 * the same on both sides, what terms are called already, and articles. Any thread.
 */
#ifndef SERVER_CONTENT_BIND_H
#define SERVER_CONTENT_BIND_H

#include "content/prose.h"
#include "content/unit.h"

/* Sets `bound`, `term` and `n_units` of a translation's units. False: no memory. */
bool bind_units(struct units *units, const struct prose_sentence *source);

#endif
