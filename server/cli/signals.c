#include "cli/signals.h"

#include <signal.h>
#include <unistd.h>

#include "cli/args.h"
#include "cli/notify.h"
#include "common/log.h"

/* Whatever else would end the process without draining. */
enum signal_does { STOPS, RELOADS, NOTHING };
static const struct {
    int number;
    const char *name;
    enum signal_does does;
} table[N_SIGNALS] = {
    {SIGTERM, "SIGTERM", STOPS}, {SIGINT, "SIGINT", STOPS},     {SIGQUIT, "SIGQUIT", STOPS},
    {SIGHUP, "SIGHUP", RELOADS}, {SIGUSR1, "SIGUSR1", NOTHING}, {SIGUSR2, "SIGUSR2", NOTHING},
};

static void on_signal(uv_signal_t *handle, int number)
{
    struct signals *signals = handle->data;

    for (size_t i = 0; i < N_SIGNALS; i++) {
        if (table[i].number != number)
            continue;
        if (table[i].does == STOPS) {
            notify_stopping();
            drain_begin(signals->drain, table[i].name);
        } else if (table[i].does == RELOADS && !signals->drain->is_begun) {
            reload_begin(signals->reload);
        } else {
            log_warning("%s: ignored", table[i].name);
        }
    }
}

static void leave(int number)
{
    (void)number;
    _exit(EXIT_DONE);
}

/* Process 1 of a container would not hear of a signal without a handler. */
void signals_before_start(void)
{
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < N_SIGNALS; i++)
        signal(table[i].number, table[i].does == STOPS ? leave : SIG_IGN);
}

void signals_init(struct signals *signals, uv_loop_t *loop, struct drain *drain,
                  struct reload *reload)
{
    signals->drain = drain;
    signals->reload = reload;
    for (size_t i = 0; i < N_SIGNALS; i++) {
        uv_signal_init(loop, &signals->handles[i]);
        signals->handles[i].data = signals;
    }
}

void signals_start(struct signals *signals)
{
    for (size_t i = 0; i < N_SIGNALS; i++)
        uv_signal_start(&signals->handles[i], on_signal, table[i].number);
}

void signals_fini(struct signals *signals)
{
    for (size_t i = 0; i < N_SIGNALS; i++) {
        uv_close((uv_handle_t *)&signals->handles[i], NULL);
        signal(table[i].number, SIG_IGN); /* now that stopping is nearly done */
    }
}
