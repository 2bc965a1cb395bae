#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Names in files that come from outside end up in messages, and a message is one line. */
static void hide_controls(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F)
            *text = '?';
}

int err_set(struct acre_err *err, int code, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        err->code = code;
        err->retry_after_s = 0;
        vsnprintf(err->text, sizeof(err->text), format, args);
        va_end(args);
        hide_controls(err->text);
    }
    return code;
}

void err_prefix(struct acre_err *err, const char *format, ...)
{
    if (!err)
        return;
    struct acre_err inner = *err;
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof(err->text) - used, "%s", inner.text);
    hide_controls(err->text);
}

const char *acre_status_name(int status)
{
    switch (status) {
#define X(symbol, number, name, http, text)                                                        \
    case symbol:                                                                                   \
        return name;
        ACRE_ERRORS(X)
#undef X
    default:
        return status == 0 ? "ok" : "internal_error";
    }
}

const char *acre_status_text(int status)
{
    switch (status) {
#define X(symbol, number, name, http, text)                                                        \
    case symbol:                                                                                   \
        return text;
        ACRE_ERRORS(X)
#undef X
    default:
        return status == 0 ? "done" : "internal error";
    }
}

int acre_status_http(int status)
{
    switch (status) {
#define X(symbol, number, name, http, text)                                                        \
    case symbol:                                                                                   \
        return http;
        ACRE_ERRORS(X)
#undef X
    default:
        return status == 0 ? 200 : 500;
    }
}
