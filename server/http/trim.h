/* trim.h - gives back the memory that large requests took.
 *
 * The allocator keeps what a burst of them took, fifty times their bodies. It is told to give that
 * back when the burst is over, and some times more, as what was made of the bodies goes later than
 * they. Loop thread.
 */
#ifndef SERVER_HTTP_TRIM_H
#define SERVER_HTTP_TRIM_H

#include <stddef.h>

struct trim {
    size_t peak_bytes; /* of all bodies, since memory was last given back */
    unsigned n_left;   /* how often it is still to be given back */
};

/* For the whole process: how much the allocator may keep. */
void trim_bound_heaps(void);

void trim_note(struct trim *trim, size_t bodies_bytes);  /* they have grown to this */
void trim_sweep(struct trim *trim, size_t bodies_bytes); /* each second */

#endif
