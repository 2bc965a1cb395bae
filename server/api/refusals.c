#include "api/refusals.h"

#include <string.h>

#include "common/log.h"

/* So many lines of a kind in so long a time; a kind is a status with its code. */
enum { MOST_LINES = 10, WINDOW_NS_E9 = 10, N_KINDS = 32 };

static struct kind {
    int status;
    const char *code; /* static */
    size_t n;         /* in this window */
} kinds[N_KINDS];     /* the last one takes what has no place */
static uint64_t window_end_ns;

/* Or for want of a key. */
static bool is_told(int status, const char *code)
{
    return strcmp(code, "key_required") == 0 || status == 403 || status == 456 || status == 408 ||
           status == 413 || status == 414 || status == 429 || status == 431 || status == 503 ||
           status == 504;
}

static struct kind *kind_of(int status, const char *code)
{
    size_t i = 0;

    while (i < N_KINDS - 1 && kinds[i].status &&
           (kinds[i].status != status || strcmp(kinds[i].code, code) != 0))
        i++;
    if (!kinds[i].status)
        kinds[i] = (struct kind){.status = status, .code = code};
    return &kinds[i];
}

void refusals_flush(void)
{
    for (size_t i = 0; i < N_KINDS && kinds[i].status; i++) {
        if (kinds[i].n > MOST_LINES)
            log_warning("refused %zu more like these: %d %s", kinds[i].n - MOST_LINES,
                        kinds[i].status, kinds[i].code);
        kinds[i].n = 0;
    }
}

void refusals_note(const struct http_record *record, const char *route)
{
    const uint64_t now_ns = uv_hrtime();
    struct kind *kind;

    if (now_ns >= window_end_ns) {
        refusals_flush();
        window_end_ns = now_ns + WINDOW_NS_E9 * UINT64_C(1000000000);
    }
    if (!is_told(record->status, record->code))
        return;
    kind = kind_of(record->status, record->code);
    if (++kind->n <= MOST_LINES)
        log_warning("refused: %d %s to %s, %s %s, request %s", record->status, record->code,
                    record->client, record->method, route, record->identity->id);
}
