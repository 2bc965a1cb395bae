/* Happy path: a line is put together in a buffer of the caller's stack, and handed to the spool's
 * thread; before log_start() and after log_stop() it is written at once.
 *
 * Failure modes: a spool that is full drops the line, and a later line tells how many; a text too
 * long for a line is cut, never a JSON object's end. */
#include "common/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/error.h"
#include "common/spool.h"
#include "common/unicode.h"

enum { OFTEN_MS = 10000 };

/* Constant while several threads log; only as_json changes. */
static struct spool *messages; /* NULL: written at once */
static struct spool *replies;  /* NULL: nobody wants them */
static char *replies_path;     /* owned */
static size_t n_lost_replies;  /* that nobody has been told of; since: */
static uint64_t told_lost_ms;
static atomic_bool as_json;

/* ---- Lines ----------------------------------------------------------------------------------- */

enum { LINE_BYTES = 2048, END_BYTES = 2 }; /* "}" and the newline always have room */

struct line {
    char text[LINE_BYTES];
    size_t used;
};

static void put(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct line *line, const char *format, ...)
{
    const size_t room = LINE_BYTES - END_BYTES - line->used;
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(line->text + line->used, room, format, args);
    va_end(args);
    line->used += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

static void put_time(struct line *line)
{
    struct timespec now;
    struct tm utc;
    char text[32];

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
    put(line, "%s.%03dZ", text, (int)(now.tv_nsec / 1000000));
}

/* As a JSON string; what is not UTF-8 becomes '?'. Text that does not fit is cut. */
static void put_string(struct line *line, const char *value)
{
    char text[1024];

    snprintf(text, sizeof(text), "%s", value);
    unicode_scrub(text);
    put(line, "\"");
    for (const char *c = text; *c && line->used < LINE_BYTES - 16; c++) {
        if (*c == '"' || *c == '\\')
            put(line, "\\%c", *c);
        else if ((unsigned char)*c < 0x20 || *c == 0x7f)
            put(line, "\\u%04x", (unsigned char)*c);
        else
            put(line, "%c", *c);
    }
    put(line, "\"");
}

static void put_member(struct line *line, const char *name, const char *value)
{
    if (!value[0])
        return;
    put(line, ",\"%s\":", name);
    put_string(line, value);
}

/* One word: whatever could be taken for another word or line is '?'. */
static void put_word(struct line *line, const char *value)
{
    put(line, " ");
    for (const char *c = value[0] ? value : "-"; *c && line->used < LINE_BYTES / 2; c++)
        put(line, "%c",
            (unsigned char)*c > 0x20 && (unsigned char)*c < 0x7f && *c != '"' ? *c : '?');
}

static void end_line(struct line *line)
{
    for (size_t i = 0; i < line->used; i++)
        if (line->text[i] == '\n' || line->text[i] == '\r')
            line->text[i] = ' ';
    if (atomic_load(&as_json))
        line->text[line->used++] = '}';
    line->text[line->used++] = '\n';
}

/* ---- Messages -------------------------------------------------------------------------------- */

static void write_message(const char *level, const char *text)
{
    struct line line = {.used = 0};

    if (atomic_load(&as_json)) {
        put(&line, "{\"time\":\"");
        put_time(&line);
        put(&line, "\",\"level\":\"%s\",\"message\":", level);
        put_string(&line, text);
    } else {
        put_time(&line);
        put(&line, " %s %s", level, text);
    }
    end_line(&line);
    if (messages)
        spool_add(messages, line.text, line.used);
    else if (write(STDERR_FILENO, line.text, line.used) < 0)
        return; /* nowhere left to complain */
}

static void tell_of_lost(size_t n, const char *which)
{
    char text[120];

    snprintf(text, sizeof(text), "%zu lines of the %s were lost: they could not be written", n,
             which);
    write_message("warning", text);
}

static void write_line(const char *level, const char *format, va_list args)
{
    const size_t n_lost = messages ? spool_take_lost(messages) : 0;
    char text[1024];

    vsnprintf(text, sizeof(text), format, args);
    if (n_lost > 0)
        tell_of_lost(n_lost, "log");
    write_message(level, text);
}

void log_info(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_line("info", format, args);
    va_end(args);
}

void log_warning(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_line("warning", format, args);
    va_end(args);
}

void log_error(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_line("error", format, args);
    va_end(args);
}

bool log_is_due(uint64_t *told_ms, uint64_t now_ms)
{
    if (*told_ms && now_ms - *told_ms < OFTEN_MS)
        return false;
    *told_ms = now_ms;
    return true;
}

void log_engine(void *user, enum acre_log_level level, const char *line)
{
    (void)user;
    if (level == ACRE_LOG_WARNING)
        log_warning("%s", line);
    else
        log_info("%s", line);
}

/* ---- Replies --------------------------------------------------------------------------------- */

static void put_reply_as_json(struct line *line, const struct log_reply *reply)
{
    put(line, "{\"time\":\"");
    put_time(line);
    put(line, "\",\"status\":%d,\"bytes\":%zu,\"seconds\":%.6f", reply->status, reply->bytes,
        reply->seconds);
    put_member(line, "client", reply->client);
    put_member(line, "method", reply->method);
    put_member(line, "request_id", reply->request_id);
    put_member(line, "trace_id", reply->trace_id);
    put_member(line, "code", reply->code);
    put_member(line, "path", reply->path);
}

static void put_reply_as_text(struct line *line, const struct log_reply *reply)
{
    put_time(line);
    put_word(line, reply->client);
    put_word(line, reply->method);
    put_word(line, reply->path);
    put(line, " %d %zu %.6f", reply->status, reply->bytes, reply->seconds);
    put_word(line, reply->request_id);
    put_word(line, reply->trace_id);
    put_word(line, reply->code);
}

/* Where a disk is full each reply would tell. */
static void tell_of_lost_replies(void)
{
    struct timespec now;

    n_lost_replies += spool_take_lost(replies);
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (n_lost_replies == 0 ||
        !log_is_due(&told_lost_ms, (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000))
        return;
    tell_of_lost(n_lost_replies, "access log");
    n_lost_replies = 0;
}

void log_reply(const struct log_reply *reply)
{
    struct line line = {.used = 0};

    if (!replies)
        return;
    tell_of_lost_replies();
    if (atomic_load(&as_json))
        put_reply_as_json(&line, reply);
    else
        put_reply_as_text(&line, reply);
    end_line(&line);
    spool_add(replies, line.text, line.used);
}

/* ---- Starting and stopping ------------------------------------------------------------------- */

int log_start(struct acre_err *err)
{
    messages = spool_open(NULL, STDERR_FILENO);
    return messages ? 0 : error_set(err, ACRE_ENOMEM, "the log's thread cannot be started");
}

static void forget_replies(void)
{
    if (replies)
        spool_leave(replies);
    free(replies_path);
    replies = NULL;
    replies_path = NULL;
}

int log_configure(bool json, const char *access, struct acre_err *err)
{
    atomic_store(&as_json, json);
    if (replies_path && strcmp(replies_path, access) == 0)
        return 0;
    forget_replies();
    if (!access[0])
        return 0;
    replies_path = strdup(access);
    replies =
        replies_path ? spool_open(strcmp(access, "-") == 0 ? NULL : access, STDOUT_FILENO) : NULL;
    if (replies)
        return 0;
    forget_replies();
    return error_set(err, ACRE_ENOMEM, "access_log: its thread cannot be started");
}

void log_reopen(void)
{
    if (replies)
        spool_reopen(replies);
}

void log_stop(void)
{
    struct spool *last = messages;

    messages = NULL;
    spool_close(replies);
    replies = NULL;
    forget_replies();
    spool_close(last);
}

void log_finish(void)
{
    if (replies)
        spool_finish(replies);
    if (messages)
        spool_finish(messages);
}
