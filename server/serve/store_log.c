#include "serve/store_log.h"

#include "common/log.h"

void store_log(const struct store_task *task, const char *what, bool *is_failing)
{
    if (task->rc != 0 && !*is_failing)
        log_error("%s: %s", what, task->err.text);
    if (task->rc == 0 && *is_failing)
        log_info("%s: no longer", what);
    *is_failing = task->rc != 0;
}
