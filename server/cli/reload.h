/* reload.h - a running server takes its configuration and models anew, all or nothing.
 *
 * A thread of the pool reads and loads while the loop serves; then the loop puts what is new in the
 * old one's place, between two requests. Models that are no longer listed are closed when the last
 * translation that uses them has ended. All else is the loop thread's.
 */
#ifndef SERVER_CLI_RELOAD_H
#define SERVER_CLI_RELOAD_H

#include "http/tls.h"
#include "api/server.h"

/* Reads the settings as at the start. Pool thread. */
typedef int reload_read_fn(void *user, struct settings *settings, struct acre_err *err);

/* Makes the server follow its settings; takes `tls` unless it fails. Loop thread. */
typedef int reload_apply_fn(void *user, struct tls_context *tls, struct acre_err *err);

struct reload {
    struct server *server;
    struct settings *settings; /* those in use */
    reload_read_fn *read;
    reload_apply_fn *apply;
    void *args;                 /* for `read` */
    void *user;                 /* for `apply` */
    bool is_running, is_wanted; /* one at a time; the last of several signals counts */

    uv_work_t work; /* what the pool's thread has while it runs: */
    uint64_t begun_ns;
    struct settings fresh;
    struct tls_context *tls; /* owned */
    struct models models;
    int rc;
    struct acre_err err;

    uv_timer_t timer;            /* looks after models that are to be closed: */
    struct acre_model **retired; /* owned, [n_retired] */
    size_t n_retired;
    uv_work_t closing;
    struct acre_model *leaving; /* being closed by the pool; or NULL */
};

void reload_init(struct reload *reload);

void reload_begin(struct reload *reload);

/* Whether a thread of the pool is loading. It cannot be told to stop. */
bool reload_is_loading(const struct reload *reload);

/* Runs the loop until no thread of the pool is closing a model; none is loading. Before the engine
 * is closed. */
void reload_settle(struct reload *reload);
void reload_fini(struct reload *reload); /* then run the loop once */

#endif
