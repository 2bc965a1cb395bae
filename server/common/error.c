#include "common/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int error_set(struct acre_err *err, int code, const char *format, ...)
{
    va_list args;

    if (!err)
        return code;
    err->code = code;
    err->retry_after_s = 0;
    va_start(args, format);
    vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    return code;
}

int error_set_no_memory(struct acre_err *err)
{
    return error_set(err, ACRE_ENOMEM, "out of memory");
}

int error_prefix(struct acre_err *err, const char *format, ...)
{
    char text[sizeof(err->text)];
    size_t used, rest;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    used = strlen(text);
    rest = strnlen(err->text, sizeof(err->text) - 1 - used);
    memmove(err->text + used, err->text, rest);
    err->text[used + rest] = '\0';
    memcpy(err->text, text, used);
    return err->code;
}

int error_http(struct srv_error *error, int status, const char *code, const char *format, ...)
{
    va_list args;

    *error = (struct srv_error){.status = status, .code = code};
    va_start(args, format);
    vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    return -1;
}

int error_field(struct srv_error *error, const char *code, const char *field, const char *format,
                ...)
{
    va_list args;

    *error = (struct srv_error){.status = 400, .code = code};
    snprintf(error->field, sizeof(error->field), "%s", field);
    va_start(args, format);
    vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    return -1;
}

/* Clients that were refused together shall not come back together. */
static int spread_retry(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1 + (int)(now.tv_nsec / 1000 % 3);
}

int error_from_engine(struct srv_error *error, int status, const struct acre_err *err)
{
    const char *text = err && err->text[0] ? err->text : acre_status_text(status);

    error_http(error, acre_status_http(status), acre_status_name(status), "%s", text);
    if (error->status == 429 || error->status == 503)
        error->retry_after_s = spread_retry();
    if (err && err->retry_after_s > 0 && status == ACRE_ELATE)
        error->retry_after_s += err->retry_after_s - 1;
    return -1;
}

int error_no_memory(struct srv_error *error)
{
    return error_from_engine(error, ACRE_ENOMEM, NULL);
}

int error_deadline(struct srv_error *error, uint64_t timeout_ms)
{
    return error_http(error, 504, acre_status_name(ACRE_ETIMEOUT),
                      "The translation was not finished within %llu ms",
                      (unsigned long long)timeout_ms);
}
