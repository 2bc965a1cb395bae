#include "common/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static void write_line(const char *level, const char *format, va_list args)
{
    char line[1024];
    const size_t room = sizeof(line) - 1; /* for the newline */
    struct timespec now;
    struct tm utc;
    size_t used;
    int n;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    used = strftime(line, room, "%Y-%m-%dT%H:%M:%S", &utc);
    n = snprintf(line + used, room - used, ".%03dZ %s ", (int)(now.tv_nsec / 1000000), level);
    used += (size_t)n;
    n = vsnprintf(line + used, room - used, format, args);
    used += n < 0 ? 0 : (size_t)n;
    if (used > room - 1)
        used = room - 1;
    for (size_t i = 0; i < used; i++)
        if (line[i] == '\n' || line[i] == '\r')
            line[i] = ' ';
    line[used++] = '\n';
    if (write(STDERR_FILENO, line, used) < 0)
        return; /* nowhere left to complain */
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

void log_engine(void *user, enum acre_log_level level, const char *line)
{
    (void)user;
    if (level == ACRE_LOG_WARNING)
        log_warning("%s", line);
    else
        log_info("%s", line);
}
