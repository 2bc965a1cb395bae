/* pending.h - a request that is replied to later: what all calls that wait have in common.
 *
 * It is awaited; admitted by the limits, which may ask other replicas; and may be told to give up.
 * While somebody works for it, a thread of the pool or those who are asked, giving up waits until
 * he is through: who then goes on looks first. It is the first member of a call, so that what is
 * given a pending is given the call. Loop thread, but that any may look at is_given_up.
 */
#ifndef SERVER_API_PENDING_H
#define SERVER_API_PENDING_H

#include <stdatomic.h>

#include "api/server.h"

/* Of a body that the loop reads itself, in a tenth of a millisecond. */
enum { PENDING_SMALL_BODY_BYTES = 16384 };

struct pending {
    struct server *server;
    struct http_request *http; /* NULL once its client has its reply */
    struct grant grant;        /* settled when the call ends: */
    bool is_charged;           /* there is a reply to pay for */
    struct turn turn;          /* in the pool, among those of others */
    bool is_working;           /* in the pool, out of turn; or other replicas are asked */
    http_give_up_fn *give_up;  /* ends the call, while nobody works for it */
    void (*admitted)(void *call);
    atomic_bool is_given_up; /* and why: */
    enum http_give_up why;
    int rc; /* of the last step, and what was wrong: */
    struct srv_error error;
};

/* Begins, as http_await() does. -1: so many wait that this one must be refused now, as `error`
 * says. */
int pending_await(struct pending *pending, struct server *server, struct http_request *request,
                  uint64_t timeout_ms, http_give_up_fn *give_up);

/* Unless `rc` tells of an error, asks whether it may go on. admitted() then finds that in `rc`,
 * before this returns or later; or give_up() comes in its place. */
void pending_admit(struct pending *pending, int64_t characters, void (*admitted)(void *call));

/* Whether it was told to give up meanwhile; then it has, and is gone. */
bool pending_gives_up(struct pending *pending);

/* Before it is freed; nobody works for it. */
void pending_fini(struct pending *pending);

#endif
