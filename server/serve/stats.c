#include "serve/stats.h"

#include <string.h>

const double stats_bounds[STATS_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                            0.1,   0.25,   0.5,   1,    5,     30};

/* A client chooses what is wrong with its requests, and an operator asks what is wrong here. */
void stats_count(struct stats_route *route, int status, const char *code, double seconds)
{
    if (!code || status < 500)
        code = "";
    route->n_replies++;
    route->seconds += seconds;
    for (size_t i = 0; i < STATS_BUCKETS; i++)
        route->n_within[i] += seconds <= stats_bounds[i];
    for (size_t i = 0; i < STATS_STATUSES; i++) {
        if (route->replies[i].status == 0) {
            route->replies[i].status = status;
            route->replies[i].code = code;
        }
        if (route->replies[i].status != status || strcmp(route->replies[i].code, code) != 0)
            continue;
        route->replies[i].n++;
        return;
    }
}
