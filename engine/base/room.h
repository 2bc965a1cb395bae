/* room.h - how much more memory this process may take.
 *
 * Pages are not reserved when they are mapped, and who writes more of them than there are is killed
 * by the kernel, with all that it was serving. So that whoever is about to fill a large block asks
 * first. Any thread.
 */
#ifndef BASE_ROOM_H
#define BASE_ROOM_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes until the machine, or a control group that this process is in, has no more; what caches of
 * files hold is free. SIZE_MAX if nothing tells. `root` stands in front of /proc and /sys. */
size_t room_bytes(const char *root);

enum { ROOM_SPARE_BYTES = 32 << 20 /* for all that nobody asks about */ };

/* Whether there is room for a block and what is spared. Of small ones it is not asked. */
bool room_has(size_t bytes);

#endif
