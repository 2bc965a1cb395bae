/* identity.h - what a request is called in logs, here and elsewhere.
 *
 * X-Request-ID is taken from the client if it is a plain word, else made here; every reply has it.
 * A W3C traceparent goes on with the client's trace: the reply's has this request's own span. Loop
 * thread only.
 */
#ifndef SERVER_HTTP_IDENTITY_H
#define SERVER_HTTP_IDENTITY_H

enum { IDENTITY_ID_BYTES = 129, IDENTITY_TRACE_BYTES = 56 };

struct identity {
    char id[IDENTITY_ID_BYTES];
    const char *second_name;                /* static: of another header with the id; or NULL */
    char traceparent[IDENTITY_TRACE_BYTES]; /* "" if the client has sent no good one */
};

/* From the values of those headers, or NULL. */
void identity_take(struct identity *identity, const char *request_id, const char *traceparent);

/* The trace's id in `text`, "" if there is none. */
void identity_trace_id(const struct identity *identity, char text[33]);

#endif
