/* log.h - one-line messages for operators, on stderr.
 *
 * A line is "2026-01-31T12:00:00.123Z info listening on ...". Each line is one write(), so lines of
 * different threads do not mix; any thread may log. The text of requests is never logged.
 */
#ifndef SERVER_COMMON_LOG_H
#define SERVER_COMMON_LOG_H

#include "acre.h"

void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The engine's log callback. */
void log_engine(void *user, enum acre_log_level level, const char *line);

#endif
