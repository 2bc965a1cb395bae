/* notify.h - tells systemd how the server is, if systemd asked (sd_notify(3), Type=notify-reload).
 *
 * One datagram each to the socket that NOTIFY_SOCKET names; nothing where it names none. Nothing
 * here waits. Loop thread only.
 */
#ifndef SERVER_CLI_NOTIFY_H
#define SERVER_CLI_NOTIFY_H

#include <stdint.h>

void notify_ready(void);
void notify_reloading(void);
void notify_stopping(void);
void notify_watchdog(void);

/* How often systemd wants to hear of the watchdog, at least; 0: it does not. */
uint64_t notify_watchdog_ms(void);

#endif
