#include "serve/stats.h"

const double stats_bounds[STATS_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                            0.1,   0.25,   0.5,   1,    5,     30};

void stats_count(struct stats_route *route, int status, double seconds)
{
    route->n_replies++;
    route->seconds += seconds;
    for (size_t i = 0; i < STATS_BUCKETS; i++)
        route->n_within[i] += seconds <= stats_bounds[i];
    for (size_t i = 0; i < STATS_STATUSES; i++) {
        if (route->replies[i].status == 0)
            route->replies[i].status = status;
        if (route->replies[i].status != status)
            continue;
        route->replies[i].n++;
        return;
    }
}
