/* log.h - one-line messages for operators on stderr, and one line for each reply if they want it.
 *
 * A line is "2026-01-31T12:00:00.123Z info listening on ...", or a JSON object with time, level and
 * message. Once log_start() has been called a thread writes them, and nobody waits for the file or
 * pipe behind; what cannot be written is lost, and counted. Any thread may log. The text of
 * requests is never logged.
 */
#ifndef SERVER_COMMON_LOG_H
#define SERVER_COMMON_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "acre.h"

void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether the log may tell again of what happens often: once in ten seconds. *told_ms is when it
 * last did, 0 before, and is `now_ms` then. */
bool log_is_due(uint64_t *told_ms, uint64_t now_ms);

/* The engine's log callback. */
void log_engine(void *user, enum acre_log_level level, const char *line);

/* From then on a thread writes. */
int log_start(struct acre_err *err);

/* Lines as JSON or as text. Replies go to the file `access`, "-" is stdout, "" is nowhere. Loop
 * thread. */
int log_configure(bool as_json, const char *access, struct acre_err *err);

/* Opens the file of replies anew: somebody may have moved it away. Loop thread. */
void log_reopen(void);

/* Waits a second at most for what is left to be written. */
void log_stop(void);

/* Likewise, before _exit(), where other threads may still log: what they do is lost. */
void log_finish(void);

/* What is told of a reply. Strings may be anything; "" is left out. Loop thread. */
struct log_reply {
    const char *client, *method, *path;
    int status;
    size_t bytes; /* of its body */
    double seconds;
    const char *request_id, *trace_id, *code;
};
void log_reply(const struct log_reply *reply);

#endif
