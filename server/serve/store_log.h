/* store_log.h - what the log says of a task of the store that is done again and again: when it
 * begins to fail, and when that is over. Loop thread only.
 */
#ifndef SERVER_SERVE_STORE_LOG_H
#define SERVER_SERVE_STORE_LOG_H

#include <stdbool.h>

#include "store/store.h"

void store_log(const struct store_task *task, const char *what, bool *is_failing);

#endif
