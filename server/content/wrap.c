#include "content/wrap.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "content/placeholder.h"
#include "content/subtitle.h" /* codes, and what stands before words, are in one piece */

enum { QUOTE_BYTES = sizeof("«") - 1, NOTE_BYTES = sizeof("♪") - 1 };

static bool begins(const char *line, size_t at, size_t bytes, const char *sign)
{
    const size_t n = strlen(sign);

    return at + n <= bytes && memcmp(line + at, sign, n) == 0;
}

static bool is_note(const char *line, size_t at, size_t bytes)
{
    return begins(line, at, bytes, "♪") || begins(line, at, bytes, "♫");
}

/* Whether letters touch a quotation mark, which then has its blank outside: »so«. */
static bool is_letter(const char *line, size_t at, size_t bytes)
{
    return at < bytes && (isalnum((unsigned char)line[at]) || (line[at] & 0x80));
}

/* Whether it is the blank within a quotation that begins there: "« so". */
static bool is_behind_quote(const char *line, size_t at, size_t bytes)
{
    return at >= QUOTE_BYTES && begins(line, at - QUOTE_BYTES, bytes, "«") &&
           (at == QUOTE_BYTES || !is_letter(line, at - QUOTE_BYTES - 1, bytes));
}

/* French has blanks before these signs and within quotation marks, and songs between notes. */
static bool is_tied(const char *line, size_t at, size_t bytes, bool in_song)
{
    return strchr("?!:;%", line[at + 1]) ||
           (begins(line, at + 1, bytes, "»") && !is_letter(line, at + 1 + QUOTE_BYTES, bytes)) ||
           is_behind_quote(line, at, bytes) ||
           (in_song && (is_note(line, at + 1, bytes) ||
                        (at >= NOTE_BYTES && is_note(line, at - NOTE_BYTES, bytes))));
}

static bool can_break(const char *line, size_t at, size_t bytes, bool in_song)
{
    return line[at] == ' ' && line[at - 1] != ' ' && line[at + 1] != ' ' && line[at - 1] != '\n' &&
           !is_tied(line, at, bytes, in_song);
}

static bool begins_tag(const char *line, size_t at)
{
    return line[at] == '<' && (line[at + 1] == '/' || isalpha((unsigned char)line[at + 1]));
}

/* Of what is in one piece. */
static size_t piece_bytes(const char *line, size_t at, size_t bytes)
{
    const size_t n = subtitle_code_bytes(line + at, bytes - at);

    return n == 0 && strchr("{%$#`", line[at]) ? placeholder_bytes(line, bytes, at, NULL) : n;
}

/* The place before the ideal one, or the first behind it, whichever is nearer. */
void wrap_line(char *line, size_t bytes, size_t n_breaks)
{
    size_t before = 0, n = 1;
    bool in_tag = false, in_song = false;

    for (size_t at = subtitle_lead_bytes(line, bytes); at + 1 < bytes && n <= n_breaks; at++) {
        const size_t ideal = bytes * n / (n_breaks + 1), piece = piece_bytes(line, at, bytes);

        if (is_note(line, at, bytes) && (at < NOTE_BYTES || !is_note(line, at - NOTE_BYTES, bytes)))
            in_song = !in_song;
        in_tag = begins_tag(line, at) || (in_tag && line[at] != '>');
        if (piece > 0)
            at += piece - 1;
        if (piece > 0 || in_tag || !can_break(line, at, bytes, in_song))
            continue;
        if (at < ideal) {
            before = at;
            continue;
        }
        if (before > 0 && (before >= ideal || ideal - before <= at - ideal)) {
            line[before] = '\n';
            before = at;
        } else {
            line[at] = '\n';
            before = 0;
        }
        n++;
    }
    if (before > 0 && n <= n_breaks)
        line[before] = '\n';
}
