#include "content/subtitle.h"

#include <ctype.h>
#include <string.h>

#include "common/unicode.h"

struct line {
    size_t begin, end, next; /* `end` is before the line's end, `next` behind it */
};

static bool is_line_end(char c)
{
    return c == '\n' || c == '\r';
}

/* False at the end of the file. */
static bool find_line(const struct subtitle_reader *reader, size_t at, struct line *line)
{
    size_t end = at;

    while (end < reader->bytes && !is_line_end(reader->text[end]))
        end++;
    line->begin = at;
    line->end = end;
    if (end + 1 < reader->bytes && memcmp(reader->text + end, "\r\n", 2) == 0)
        end++;
    line->next = end < reader->bytes ? end + 1 : end;
    return at < reader->bytes;
}

/* [HH:]MM:SS, with whatever part of a second */
static bool has_clock(const char *text, size_t n)
{
    size_t at = 0, n_colons = 0;

    while (at < n && (text[at] == ' ' || text[at] == '\t'))
        at++;
    for (; at < n && isdigit((unsigned char)text[at]); at++)
        if (at + 2 < n && text[at + 1] == ':' && isdigit((unsigned char)text[at + 2])) {
            n_colons++;
            at++;
        }
    return n_colons > 0;
}

static bool is_times(const struct subtitle_reader *reader, const struct line *line)
{
    const char *text = reader->text + line->begin;
    const size_t n = line->end - line->begin;
    const char *arrow = memmem(text, n, "-->", 3);

    return arrow && has_clock(text, (size_t)(arrow - text)) &&
           has_clock(arrow + 3, n - (size_t)(arrow + 3 - text));
}

static bool is_blank(const struct subtitle_reader *reader, const struct line *line)
{
    return unicode_is_blank(reader->text + line->begin, line->end - line->begin);
}

/* Whether a cue begins here: with its times, or in SubRip with its number. */
static bool begins_cue(const struct subtitle_reader *reader, const struct line *line)
{
    struct line next;

    if (is_times(reader, line))
        return true;
    for (size_t i = line->begin; i < line->end; i++)
        if (!isdigit((unsigned char)reader->text[i]) && !isspace((unsigned char)reader->text[i]))
            return false;
    return !is_blank(reader, line) && find_line(reader, line->next, &next) &&
           is_times(reader, &next);
}

/* Of a dash at the beginning of text[n], with which another speaks; 0: there is none. */
static size_t dash_bytes(const char *text, size_t n)
{
    if (n >= 1 && text[0] == '-')
        return 1;
    return n >= 3 && (memcmp(text, "\xE2\x80\x93", 3) == 0 || memcmp(text, "\xE2\x80\x94", 3) == 0)
               ? 3
               : 0;
}

size_t subtitle_code_bytes(const char *text, size_t bytes)
{
    size_t n = 2;

    if (bytes < 2 || memcmp(text, "{\\", 2) != 0)
        return 0;
    while (n < bytes && !strchr("{}\r\n", text[n]))
        n++;
    return n < bytes && text[n] == '}' ? n + 1 : 0;
}

/* Of the codes that text[bytes] begins with. */
static size_t codes_bytes(const char *text, size_t bytes)
{
    size_t at = 0, n;

    while ((n = subtitle_code_bytes(text + at, bytes - at)) > 0)
        at += n;
    return at;
}

static bool begins_speech(const struct subtitle_reader *reader, const struct line *line)
{
    const char *text = reader->text + line->begin;
    const size_t bytes = line->end - line->begin, n = codes_bytes(text, bytes);

    return dash_bytes(text + n, bytes - n) > 0;
}

/* A dash goes with its blank: a model would leave it out, or make a minus of it. */
size_t subtitle_lead_bytes(const char *text, size_t bytes)
{
    size_t n = codes_bytes(text, bytes);

    n += dash_bytes(text + n, bytes - n);
    while (n < bytes && text[n] == ' ')
        n++;
    return n;
}

/* The lines that belong to the one before, up to *end. */
static void join_lines(struct subtitle_reader *reader, size_t *end)
{
    struct line line;

    while (find_line(reader, reader->at, &line) && !is_blank(reader, &line) &&
           !begins_cue(reader, &line) && !begins_speech(reader, &line)) {
        *end = line.end;
        reader->at = line.next;
    }
}

bool subtitle_next(struct subtitle_reader *reader, size_t *begin, size_t *end)
{
    struct line line;

    while (find_line(reader, reader->at, &line)) {
        reader->at = line.next;
        if (is_times(reader, &line)) {
            reader->in_cue = true;
        } else if (is_blank(reader, &line)) {
            reader->in_cue = reader->in_cue && !(reader->is_vtt && line.begin == line.end);
        } else if (begins_cue(reader, &line)) {
            reader->in_cue = false;
        } else if (reader->in_cue) {
            *begin =
                line.begin + subtitle_lead_bytes(reader->text + line.begin, line.end - line.begin);
            *end = line.end;
            join_lines(reader, end);
            return true;
        }
    }
    return false;
}

const char *subtitle_line_end(const char *text, size_t bytes)
{
    const struct subtitle_reader reader = {.text = text, .bytes = bytes};
    struct line line;

    find_line(&reader, 0, &line);
    if (line.next - line.end == 2)
        return "\r\n";
    return line.next > line.end && text[line.end] == '\r' ? "\r" : "\n";
}

bool subtitle_is(const char *text, size_t bytes)
{
    const struct subtitle_reader reader = {.text = text, .bytes = bytes};
    struct line line;

    for (size_t at = 0; find_line(&reader, at, &line); at = line.next)
        if (is_times(&reader, &line))
            return true;
    return false;
}
