/* signals.h - how a server is told to stop, or to reload.
 *
 * SIGTERM, SIGINT and SIGQUIT drain it, SIGHUP reloads it, and what else would end the process is
 * ignored. Loop thread only.
 */
#ifndef SERVER_CLI_SIGNALS_H
#define SERVER_CLI_SIGNALS_H

#include "cli/drain.h"
#include "cli/reload.h"

enum { N_SIGNALS = 6 };

struct signals {
    struct drain *drain;
    struct reload *reload;
    uv_signal_t handles[N_SIGNALS];
};

/* Until signals_start() nothing is accepted, and models may take long to load: who stops the server
 * then need not wait, the process ends at once. */
void signals_before_start(void);

void signals_init(struct signals *signals, uv_loop_t *loop, struct drain *drain,
                  struct reload *reload);
void signals_start(struct signals *signals);
void signals_fini(struct signals *signals); /* then run the loop once */

#endif
