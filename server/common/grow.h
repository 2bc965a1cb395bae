/* grow.h - arrays that grow as they are filled.
 *
 * No state, any thread.
 */
#ifndef SERVER_COMMON_GROW_H
#define SERVER_COMMON_GROW_H

#include <stdbool.h>
#include <stddef.h>

/* Makes room for `wanted` items in the array that the pointer at `items` owns, NULL at first; of
 * *n_allocated there is room already. Doubles, so that to append one by one takes linear time.
 * False: no memory, and all is as it was. */
bool grow(void *items, size_t item_bytes, size_t wanted, size_t *n_allocated);

#endif
