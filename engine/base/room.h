/* room.h - how much more memory this process may take.
 *
 * Pages are not reserved when they are mapped, and who writes more of them than there are is killed
 * by the kernel, with all that it was serving. So that whoever is about to fill a large block asks
 * first, and what others were promised and have not filled yet is not free. Any thread; a forked
 * child begins with no promises.
 */
#ifndef BASE_ROOM_H
#define BASE_ROOM_H

#include <stddef.h>

#include "acre.h"

/* Bytes until the machine, or a control group that this process is in, has no more; what caches of
 * files hold is free. SIZE_MAX if nothing tells. `root` stands in front of /proc and /sys. */
size_t room_bytes(const char *root);

enum { ROOM_SPARE_BYTES = 32 << 20 /* for all that nobody asks about */ };

/* Promises room for a block, besides what is spared, until room_filled() of as many bytes. Of small
 * blocks it is not asked. ACRE_ENOMEM: there is none; `what` names the block. */
int room_take(const char *what, size_t bytes, struct acre_err *err);
/* The block is filled, or never will be. While it is being filled, it counts twice. */
void room_filled(size_t bytes);

#endif
