/* Happy path: tls_accept() -> tls_read() shakes hands as far as bytes have come -> tls_read() gives
 * what they hold.
 *
 * Failure modes: a certificate or key that cannot be used is told by file; a broken connection is
 * EPROTO. OpenSSL's queue of errors is emptied before each call: it is the thread's, and one
 * connection's error must not be taken for another's. */
#include "http/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/log.h"

/* A context is an SSL_CTX, a connection is an SSL. */
static SSL_CTX *ctx_of(const struct tls_context *context)
{
    return (SSL_CTX *)(uintptr_t)context;
}

static SSL *ssl_of(const struct tls *tls)
{
    return (SSL *)(uintptr_t)tls;
}

/* ---- Certificates ---------------------------------------------------------------------------- */

/* Nobody is asked for a key's password. */
static int no_password(char *text, int size, int writes, void *user)
{
    (void)text;
    (void)size;
    (void)writes;
    (void)user;
    return 0;
}

/* RFC 7301, 3.2: a client that speaks none of ours is told so. */
static int choose_protocol(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_bytes,
                           const unsigned char *offered, unsigned offered_bytes, void *user)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *found;

    (void)ssl;
    (void)user;
    if (SSL_select_next_proto(&found, chosen_bytes, ours, sizeof(ours) - 1, offered,
                              offered_bytes) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *chosen = found;
    return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *make_context(void)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

    if (!ctx)
        return NULL;
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20");
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY); /* one record at a time, whatever it holds */
    SSL_CTX_set_default_passwd_cb(ctx, no_password);
    SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
    return ctx;
}

static int refuse_file(const char *setting, const char *path, const char *expected,
                       struct acre_err *err)
{
    const unsigned long first = ERR_peek_error();
    const char *why = ERR_GET_LIB(first) == ERR_LIB_SYS ? strerror(ERR_GET_REASON(first))
                                                        : ERR_reason_error_string(first);

    return error_set(err, ACRE_EIO, "%s: %s: expected %s, found: %s", setting, path, expected,
                     why ? why : "something else");
}

static void warn_of_end(SSL_CTX *ctx, const char *path)
{
    const X509 *certificate = SSL_CTX_get0_certificate(ctx);

    if (certificate && X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0)
        log_warning("tls_certificate: %s: is valid no more", path);
}

static int load(SSL_CTX *ctx, const char *certificate, const char *key, struct acre_err *err)
{
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(ctx, certificate) != 1)
        return refuse_file("tls_certificate", certificate, "certificates in PEM", err);
    if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ctx) != 1) /* one of another kind passes for a second pair */
        return refuse_file("tls_key", key, "the certificate's key in PEM, without a password", err);
    warn_of_end(ctx, certificate);
    return 0;
}

int tls_context_open(const char *certificate, const char *key, struct tls_context **context,
                     struct acre_err *err)
{
    SSL_CTX *ctx;
    int rc;

    *context = NULL;
    if (!certificate[0] && !key[0])
        return 0;
    if (!certificate[0] || !key[0])
        return error_set(err, ACRE_EOPTION, "%s: expected a file, as %s is given, found none",
                         key[0] ? "tls_certificate" : "tls_key",
                         key[0] ? "tls_key" : "tls_certificate");
    ctx = make_context();
    if (!ctx)
        return error_set(err, ACRE_ENOMEM, "TLS: out of memory");
    rc = load(ctx, certificate, key, err);
    ERR_clear_error();
    if (rc == 0)
        *context = (struct tls_context *)ctx;
    else
        SSL_CTX_free(ctx);
    return rc;
}

void tls_context_close(struct tls_context *context)
{
    SSL_CTX_free(ctx_of(context));
}

/* ---- Connections ----------------------------------------------------------------------------- */

static SSL *make_ssl(SSL_CTX *ctx, int fd)
{
    SSL *ssl = SSL_new(ctx);

    if (ssl && SSL_set_fd(ssl, fd) == 1)
        return ssl;
    SSL_free(ssl);
    return NULL;
}

struct tls *tls_accept(const struct tls_context *context, int fd)
{
    SSL *ssl = make_ssl(ctx_of(context), fd);

    if (ssl)
        SSL_set_accept_state(ssl);
    return (struct tls *)ssl;
}

int tls_connect(int fd, struct tls **tls, struct acre_err *err)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = ctx ? make_ssl(ctx, fd) : NULL;

    SSL_CTX_free(ctx);
    *tls = (struct tls *)ssl;
    if (!ssl)
        return error_set(err, ACRE_ENOMEM, "TLS: out of memory");
    if (SSL_connect(ssl) == 1)
        return 0;
    SSL_free(ssl);
    *tls = NULL;
    return error_set(err, ACRE_EIO, "expected a TLS server, found another one");
}

void tls_close(struct tls *tls)
{
    SSL_free(ssl_of(tls));
}

bool tls_is_established(const struct tls *tls)
{
    return SSL_is_init_finished(ssl_of(tls));
}

bool tls_wants_write(const struct tls *tls)
{
    return SSL_want_write(ssl_of(tls));
}

static ssize_t result_of(const SSL *ssl, int rc, size_t done)
{
    if (rc == 1)
        return (ssize_t)done;
    switch (SSL_get_error(ssl, rc)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return -1;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    default:
        errno = EPROTO;
        return -1;
    }
}

ssize_t tls_read(struct tls *tls, void *data, size_t bytes)
{
    size_t done = 0;
    int rc;

    ERR_clear_error();
    rc = SSL_read_ex(ssl_of(tls), data, bytes, &done);
    return result_of(ssl_of(tls), rc, done);
}

ssize_t tls_write(struct tls *tls, const void *data, size_t bytes)
{
    size_t done = 0;
    int rc;

    ERR_clear_error();
    rc = SSL_write_ex(ssl_of(tls), data, bytes, &done);
    return result_of(ssl_of(tls), rc, done);
}

void tls_shutdown(struct tls *tls)
{
    ERR_clear_error();
    if (tls_is_established(tls))
        SSL_shutdown(ssl_of(tls));
}
