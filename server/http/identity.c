#include "http/identity.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <uv.h>

/* "00-" trace "-" span "-" flags: W3C Trace Context, 3.2. */
enum { TRACE_AT = 3, TRACE_CHARS = 32, SPAN_AT = 36, SPAN_CHARS = 16, FLAGS_AT = 53 };

#define HEX "0123456789abcdef"
#define LETTERS_AND_DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

/* Unlike any other, not secret: a random start and a counter, mixed. */
static uint64_t next_number(void)
{
    static uint64_t state;
    uint64_t z;

    if (state == 0 && getrandom(&state, sizeof(state), 0) < 0)
        state = uv_hrtime();
    z = state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static bool is_word(const char *text)
{
    const size_t n = strspn(text, LETTERS_AND_DIGITS "-._~:/+=@");

    return n > 0 && n < IDENTITY_ID_BYTES && !text[n];
}

static bool is_hex(const char *text, size_t n)
{
    return strspn(text, HEX) >= n && strspn(text, "0") < n;
}

/* Later versions may be longer: of those the part of version 00 is read. */
static bool is_traceparent(const char *text)
{
    const size_t n = strnlen(text, 512);
    const bool is_first_version = strncmp(text, "00", 2) == 0;

    if (n < IDENTITY_TRACE_BYTES - 1 || strspn(text, HEX) != 2 || strncmp(text, "ff", 2) == 0)
        return false;
    if (is_first_version ? n != IDENTITY_TRACE_BYTES - 1
                         : text[IDENTITY_TRACE_BYTES - 1] && text[IDENTITY_TRACE_BYTES - 1] != '-')
        return false;
    return text[2] == '-' && text[SPAN_AT - 1] == '-' && text[FLAGS_AT - 1] == '-' &&
           is_hex(text + TRACE_AT, TRACE_CHARS) && is_hex(text + SPAN_AT, SPAN_CHARS) &&
           strspn(text + FLAGS_AT, HEX) >= 2;
}

void identity_take(struct identity *identity, const char *request_id, const char *traceparent)
{
    if (request_id && is_word(request_id))
        strcpy(identity->id, request_id);
    else
        snprintf(identity->id, sizeof(identity->id), "%016llx%016llx",
                 (unsigned long long)next_number(), (unsigned long long)next_number());
    if (traceparent && is_traceparent(traceparent))
        snprintf(identity->traceparent, sizeof(identity->traceparent), "00-%.32s-%016llx-%.2s",
                 traceparent + TRACE_AT, (unsigned long long)next_number() | 1,
                 traceparent + FLAGS_AT);
}

void identity_trace_id(const struct identity *identity, char text[33])
{
    snprintf(text, 33, "%.32s", identity->traceparent[0] ? identity->traceparent + TRACE_AT : "");
}
