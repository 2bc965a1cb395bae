/* tls.h - TLS on a socket: certificates, handshakes, and reading and writing that looks like recv()
 * and send().
 *
 * TLS 1.2 and 1.3 of OpenSSL on the socket itself: what has come and is not read stays in the
 * kernel, where uv_poll sees it. One record is read at a time, so nothing hides in OpenSSL if
 * TLS_RECORD_BYTES are asked for. No renegotiation, no compression, no stored sessions. A context
 * may be opened by any thread; all else is the loop's, or a client's.
 */
#ifndef SERVER_HTTP_TLS_H
#define SERVER_HTTP_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "acre.h"

enum { TLS_RECORD_BYTES = 16384 };

struct tls_context;
struct tls;

/* From files in PEM; `certificate` may have a chain after its own. Both "": *context is NULL, and
 * connections are plain. */
int tls_context_open(const char *certificate, const char *key, struct tls_context **context,
                     struct acre_err *err);
void tls_context_close(struct tls_context *context); /* connections keep what they need */

/* A client's connection on `fd`, which is borrowed. NULL: no memory. */
struct tls *tls_accept(const struct tls_context *context, int fd);

/* The other side, on a socket that blocks. The certificate is not checked. */
int tls_connect(int fd, struct tls **tls, struct acre_err *err);

void tls_close(struct tls *tls); /* NULL is allowed */

bool tls_is_established(const struct tls *tls);

/* Whether a handshake waits for the socket to take more. */
bool tls_wants_write(const struct tls *tls);

/* As recv() and send(): -1 with EAGAIN where the socket has or takes nothing now, also in the
 * middle of a handshake; with EPROTO where what came is no TLS, or none that is taken here. */
ssize_t tls_read(struct tls *tls, void *data, size_t bytes);
ssize_t tls_write(struct tls *tls, const void *data, size_t bytes);

/* Says that nothing follows; does not wait. */
void tls_shutdown(struct tls *tls);

#endif
