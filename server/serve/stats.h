/* stats.h - what the server has answered since its start: counts and times, by route.
 *
 * A route is a line of the table in api/routes.c and belongs to one dialect. Loop thread only.
 */
#ifndef SERVER_SERVE_STATS_H
#define SERVER_SERVE_STATS_H

#include <stddef.h>
#include <stdint.h>

enum { STATS_STATUSES = 32, STATS_BUCKETS = 12 };

/* Upper bounds of the buckets of times, in seconds; what takes longer is only in the count. */
extern const double stats_bounds[STATS_BUCKETS];

struct stats_route {
    const char *path, *method, *dialect; /* static */
    struct {
        int status;       /* 0: not used */
        const char *code; /* static; of errors from 500 on, else "" */
        uint64_t n;
    } replies[STATS_STATUSES];
    uint64_t n_replies;
    uint64_t n_within[STATS_BUCKETS]; /* took at most stats_bounds[i] */
    double seconds;                   /* of all replies, from the end of their headers */
};

/* `code` is that of an error, static, or NULL. */
void stats_count(struct stats_route *route, int status, const char *code, double seconds);

#endif
