/* spool.h - lines for a file that may be slow, full or gone, from threads that must not wait for
 * it.
 *
 * A thread of its own writes what has been added. Adding takes a lock that is never held while
 * anything is written; lines that find no room are dropped and counted, and so are those that the
 * file refuses. A file that cannot be opened is tried again each second or two. Any thread may add.
 */
#ifndef SERVER_COMMON_SPOOL_H
#define SERVER_COMMON_SPOOL_H

#include <stdbool.h>
#include <stddef.h>

struct spool;

/* Appends to the file at `path`, or to `fd`, which is borrowed, if `path` is NULL. NULL: no memory
 * or thread. */
struct spool *spool_open(const char *path, int fd);

/* Opens its path anew before the next line: somebody may have moved the file away. */
void spool_reopen(struct spool *spool);

void spool_add(struct spool *spool, const char *line, size_t bytes);

/* Lines lost since the last call. */
size_t spool_take_lost(struct spool *spool);

/* Its thread writes what is left and frees it. */
void spool_leave(struct spool *spool);

/* Waits a second at most for what is left to be written; what is added later is lost. False: its
 * file does not take it. */
bool spool_finish(struct spool *spool);

/* Likewise, and frees it. NULL is allowed. */
void spool_close(struct spool *spool);

#endif
