/* stream.h - a translation as it is made: one object for each sentence, in order.
 *
 * Newline-delimited JSON, or server-sent events for a client whose Accept asks for those. The reply
 * begins with the first sentence, so that what is refused before has its status; an error after
 * that is an object like any other, and the last. A sentence is rendered when the client has taken
 * the ones before: one that reads slowly costs no memory. Where much is there at once and the
 * client takes it all, as of sentences that are known already, streams take turns: all of them
 * together have a millisecond of each turn of the loop. Loop thread.
 */
#ifndef SERVER_API_STREAM_H
#define SERVER_API_STREAM_H

#include "api/server.h"

struct call;

struct stream {
    bool has_begun;       /* the client has its status */
    bool is_event_stream; /* as it asked */
    http_room_fn *go_on;  /* while it waits for its turn; else NULL */
    struct call *next;    /* of server->streams */
};

enum stream_state { STREAM_FAILED = -1, STREAM_WAITS, STREAM_GOES_ON, STREAM_ENDED };

/* Before the first one, and before the loop ends. */
void stream_init(struct server *server);
void stream_fini(struct server *server);

/* Sends the sentences that are there. STREAM_ENDED: the reply is complete, the request gone.
 * STREAM_FAILED: `error` says why. STREAM_WAITS: `room` is called when the client has taken them,
 * or it is the call's turn again. */
enum stream_state stream_go_on(struct call *call, http_room_fn *room, struct srv_error *error);

/* The call ends: it waits for no turn. */
void stream_leave(struct call *call);

/* Ends a stream that has begun. */
void stream_end_with_error(struct call *call, const struct srv_error *error);

#endif
