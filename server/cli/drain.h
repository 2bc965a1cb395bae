/* drain.h - how a server stops: not ready, then closed to new clients, then done.
 *
 * For drain_grace_s it still serves, says that it is not ready and asks clients to disconnect, so
 * that load balancers have gone elsewhere before it closes. Then it finishes what it has accepted,
 * for drain_timeout_s. Loop thread only.
 */
#ifndef SERVER_CLI_DRAIN_H
#define SERVER_CLI_DRAIN_H

#include "api/server.h"

struct drain {
    struct server *server;
    uv_timer_t timer;
    uint64_t grace_until_ms, drain_until_ms;
    unsigned quiet_ticks; /* in a row, without unfinished requests */
    unsigned flush_ticks; /* since unfinished requests were cancelled */
    bool is_begun, is_cancelled;
};

void drain_init(struct drain *drain, struct server *server);
void drain_fini(struct drain *drain); /* then run the loop once */

/* Begins, for the signal of this name; the second time it ends at once. Stops the loop at the end.
 */
void drain_begin(struct drain *drain, const char *name);

#endif
