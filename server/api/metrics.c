/* GET /metrics: what the server counts, as Prometheus reads it (text format 0.0.4).
 *
 * Happy path: each family is printed whole into one text. Failure mode: no memory for the text is
 * a 503, as everywhere. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "api/files.h"
#include "api/reply.h"
#include "api/routes.h"

static void head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void print_gauge(FILE *out, const char *name, const char *help, double value)
{
    head(out, name, "gauge", help);
    fprintf(out, "%s %.17g\n", name, value);
}

static void print_labels(FILE *out, const struct stats_route *route)
{
    fprintf(out, "{route=\"%s\",method=\"%s\",dialect=\"%s\"", route->path, route->method,
            route->dialect);
}

static void print_replies(FILE *out, const struct server *server)
{
    static const char name[] = "acre_http_replies_total";

    head(out, name, "counter", "Replies by route, dialect, status and, from 500 on, code.");
    for (size_t r = 0; r < server->n_routes; r++)
        for (size_t i = 0; i < STATS_STATUSES && server->routes[r].replies[i].status; i++) {
            fprintf(out, "%s", name);
            print_labels(out, &server->routes[r]);
            if (server->routes[r].replies[i].code[0])
                fprintf(out, ",code=\"%s\"", server->routes[r].replies[i].code);
            fprintf(out, ",status=\"%d\"} %llu\n", server->routes[r].replies[i].status,
                    (unsigned long long)server->routes[r].replies[i].n);
        }
}

static void print_times_of(FILE *out, const char *name, const struct stats_route *route)
{
    for (size_t i = 0; i <= STATS_BUCKETS; i++) {
        fprintf(out, "%s_bucket", name);
        print_labels(out, route);
        if (i < STATS_BUCKETS)
            fprintf(out, ",le=\"%g\"} %llu\n", stats_bounds[i],
                    (unsigned long long)route->n_within[i]);
        else
            fprintf(out, ",le=\"+Inf\"} %llu\n", (unsigned long long)route->n_replies);
    }
    fprintf(out, "%s_sum", name);
    print_labels(out, route);
    fprintf(out, "} %.9g\n%s_count", route->seconds, name);
    print_labels(out, route);
    fprintf(out, "} %llu\n", (unsigned long long)route->n_replies);
}

static void print_times(FILE *out, const struct server *server)
{
    static const char name[] = "acre_http_request_duration_seconds";

    head(out, name, "histogram", "From the end of a request's headers to its reply.");
    for (size_t r = 0; r < server->n_routes; r++)
        if (server->routes[r].n_replies > 0)
            print_times_of(out, name, &server->routes[r]);
}

/* ---- Of the engine, by model ----------------------------------------------------------------- */

static const struct {
    const char *name, *type, *help;
    size_t offset; /* of a uint64_t in struct acre_statistics */
} families[] = {
    {"acre_queued_sentences", "gauge", "Sentences that wait for a worker.",
     offsetof(struct acre_statistics, queued_sentences)},
    {"acre_queued_source_tokens", "gauge", "Their tokens.",
     offsetof(struct acre_statistics, queued_tokens)},
    {"acre_running_sentences", "gauge", "Sentences in the batches of the workers.",
     offsetof(struct acre_statistics, running_sentences)},
    {"acre_sentences_total", "counter", "Sentences translated.",
     offsetof(struct acre_statistics, done_sentences)},
    {"acre_cached_sentences_total", "counter", "Sentences whose translation was known.",
     offsetof(struct acre_statistics, cached_sentences)},
    {"acre_source_tokens_total", "counter", "Source tokens translated.",
     offsetof(struct acre_statistics, done_source_tokens)},
    {"acre_target_tokens_total", "counter", "Tokens of the best hypotheses.",
     offsetof(struct acre_statistics, done_target_tokens)},
    {"acre_cancelled_sentences_total", "counter", "Sentences given up as nobody waited for them.",
     offsetof(struct acre_statistics, cancelled_sentences)},
    {"acre_expired_sentences_total", "counter", "Sentences whose deadline passed.",
     offsetof(struct acre_statistics, expired_sentences)},
    {"acre_failed_sentences_total", "counter", "Sentences that ended with an error.",
     offsetof(struct acre_statistics, failed_sentences)},
    {"acre_refused_texts_total", "counter", "Texts refused because too much was waiting.",
     offsetof(struct acre_statistics, refused_texts)},
    {"acre_late_texts_total", "counter", "Texts refused because they would have been late.",
     offsetof(struct acre_statistics, late_texts)},
    {"acre_decoder_steps_total", "counter", "Steps of the decoder.",
     offsetof(struct acre_statistics, steps)},
    {"acre_decoder_rows_total", "counter", "Hypotheses those steps took a token on.",
     offsetof(struct acre_statistics, rows)},
};

/* A model's name as the value of a label: a folder may be called anything. */
enum { LABEL_BYTES = 1024 };
static const char *label_of(const struct acre_model_info *info, char label[LABEL_BYTES])
{
    size_t n = 0;

    for (const char *c = info->name; *c && n < LABEL_BYTES - 2; c++) {
        if (strchr("\"\\\n", *c))
            label[n++] = '\\';
        label[n++] = *c;
        if (*c == '\n')
            label[n - 1] = 'n';
    }
    label[n] = '\0';
    return label;
}

static void print_models(FILE *out, const struct models *models)
{
    char label[LABEL_BYTES];

    for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
        head(out, families[f].name, families[f].type, families[f].help);
        for (size_t i = 0; i < models->n_items; i++) {
            struct acre_statistics statistics;
            uint64_t value;

            acre_model_statistics(models->items[i], &statistics);
            memcpy(&value, (const char *)&statistics + families[f].offset, sizeof(value));
            fprintf(out, "%s{model=\"%s\"} %llu\n", families[f].name,
                    label_of(acre_model_info(models->items[i]), label), (unsigned long long)value);
        }
    }
}

/* Bucket i of the engine's histograms ends at 2^i of its unit. */
static void print_histogram(FILE *out, const char *name, const char *model, const uint64_t *buckets,
                            size_t n_buckets, double unit, uint64_t sum)
{
    uint64_t n = 0;

    for (size_t i = 0; i < n_buckets - 1; i++) {
        n += buckets[i];
        fprintf(out, "%s_bucket{model=\"%s\",le=\"%g\"} %llu\n", name, model,
                unit * (double)(UINT64_C(1) << i), (unsigned long long)n);
    }
    n += buckets[n_buckets - 1];
    fprintf(out, "%s_bucket{model=\"%s\",le=\"+Inf\"} %llu\n", name, model, (unsigned long long)n);
    fprintf(out, "%s_sum{model=\"%s\"} %.9g\n", name, model, unit * (double)sum);
    fprintf(out, "%s_count{model=\"%s\"} %llu\n", name, model, (unsigned long long)n);
}

static void print_waits(FILE *out, const struct models *models)
{
    static const char name[] = "acre_queue_wait_seconds";
    struct acre_statistics s;
    char label[LABEL_BYTES];

    head(out, name, "histogram", "How long sentences waited for a worker.");
    for (size_t i = 0; i < models->n_items; i++) {
        acre_model_statistics(models->items[i], &s);
        print_histogram(out, name, label_of(acre_model_info(models->items[i]), label), s.waits,
                        sizeof(s.waits) / sizeof(s.waits[0]), 1e-3, s.waited_ms);
    }
}

static void print_batches(FILE *out, const struct models *models)
{
    static const char name[] = "acre_batch_sentences";
    struct acre_statistics s;
    char label[LABEL_BYTES];

    head(out, name, "histogram", "Sentences in the steps of the decoder.");
    for (size_t i = 0; i < models->n_items; i++) {
        acre_model_statistics(models->items[i], &s);
        print_histogram(out, name, label_of(acre_model_info(models->items[i]), label), s.batches,
                        sizeof(s.batches) / sizeof(s.batches[0]), 1, s.batched);
    }
}

static void print_memory(FILE *out, const struct models *models)
{
    static const char name[] = "acre_model_memory_bytes";
    char label[LABEL_BYTES];

    head(out, name, "gauge", "What a model has reserved: its weights, and at most to work in.");
    for (size_t i = 0; i < models->n_items; i++) {
        const struct acre_model_info *info = acre_model_info(models->items[i]);

        label_of(info, label);
        fprintf(out, "%s{model=\"%s\",kind=\"weights\"} %llu\n", name, label,
                (unsigned long long)info->packed_bytes);
        fprintf(out, "%s{model=\"%s\",kind=\"working\"} %llu\n", name, label,
                (unsigned long long)info->working_bytes);
    }
}

/* ---- Of the server --------------------------------------------------------------------------- */

static void print_counter(FILE *out, const char *name, const char *help, uint64_t value)
{
    head(out, name, "counter", help);
    fprintf(out, "%s %llu\n", name, (unsigned long long)value);
}

static void print_connections(FILE *out, const struct http *http)
{
    static const char name[] = "acre_http_connections_by_state";
    size_t n[HTTP_STATES];

    http_count_states(http, n);
    print_gauge(out, "acre_http_connections", "Open connections.", (double)http_connections(http));
    head(out, name, "gauge", "Open connections by what they do.");
    for (size_t i = 0; i < HTTP_STATES; i++)
        fprintf(out, "%s{state=\"%s\"} %zu\n", name, http_state_names[i], n[i]);
    print_counter(out, "acre_http_connections_evicted_total",
                  "Connections closed to let others in, or for want of memory.",
                  http_evicted(http));
    print_gauge(out, "acre_http_requests_active", "Requests that are not replied to yet.",
                (double)http_active(http));
    print_gauge(out, "acre_http_body_bytes", "Bodies and long heads of those, in memory.",
                (double)http_bodies_bytes(http));
    print_gauge(out, "acre_loop_lag_seconds",
                "How late the event loop came to its timers at most, in the last minute or two.",
                1e-3 * (double)http_worst_lag_ms(http));
}

static void print_shared(FILE *out, const struct shared *shared)
{
    static const char name[] = "acre_shared_limits_asked_total";
    const struct shared_counts n = shared_counts(shared);

    print_gauge(out, "acre_shared_limits_up", "Whether replicas count together.",
                shared_is_up(shared));
    head(out, name, "counter", "Requests that other replicas' limits were asked for.");
    fprintf(out,
            "%s{outcome=\"answered\"} %llu\n%s{outcome=\"late\"} %llu\n"
            "%s{outcome=\"wrong\"} %llu\n%s{outcome=\"away\"} %llu\n",
            name, (unsigned long long)n.answered, name, (unsigned long long)n.late, name,
            (unsigned long long)n.wrong, name, (unsigned long long)n.away);
}

static void print_limits(FILE *out, const struct limits *limits)
{
    static const char name[] = "acre_refused_total";

    head(out, name, "counter", "Requests refused for their key, their rate or their quota.");
    for (size_t i = 0; i < LIMITS_REFUSALS; i++)
        fprintf(out, "%s{reason=\"%s\"} %llu\n", name, limits_refusal_names[i],
                (unsigned long long)limits->n_refused[i]);
    if (limits->shared)
        print_shared(out, limits->shared);
    if (limits->keyring)
        print_gauge(out, "acre_keys", "API keys that are not revoked.",
                    (double)keyring_count(limits->keyring));
}

static void print_devices(FILE *out, const struct server *server)
{
    static const char name[] = "acre_devices";
    size_t n_devices, n_lost;

    acre_engine_devices(server->engine, &n_devices, &n_lost);
    head(out, name, "gauge", "Devices that have the models.");
    fprintf(out, "%s{state=\"well\"} %zu\n%s{state=\"lost\"} %zu\n", name, n_devices - n_lost, name,
            n_lost);
}

static void print_files(FILE *out, const struct server *server)
{
    const struct files_count count = files_count(server);

    print_gauge(out, "acre_kept_files", "Translated files that are kept, and those in translation.",
                (double)count.n);
    print_gauge(out, "acre_kept_files_bytes", "What they take.", (double)count.bytes);
    print_counter(out, "acre_files_total", "Files that came to be translated.", count.n_ever);
    print_counter(out, "acre_files_evicted_total", "Files that left early, for others.",
                  count.n_evicted);
}

static void print_reloads(FILE *out, const struct server *server)
{
    static const char name[] = "acre_reloads_total";

    head(out, name, "counter", "Reloads of configuration and models, by what came of them.");
    fprintf(out, "%s{outcome=\"done\"} %llu\n%s{outcome=\"refused\"} %llu\n", name,
            (unsigned long long)server->n_reloads, name,
            (unsigned long long)server->n_failed_reloads);
}

/* As Prometheus's own clients name them. */
static void print_process(FILE *out, const struct server *server)
{
    struct rusage used;
    size_t resident_bytes = 0;

    getrusage(RUSAGE_SELF, &used);
    head(out, "process_cpu_seconds_total", "counter", "User and system time.");
    fprintf(out, "process_cpu_seconds_total %.6f\n",
            (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec));
    print_gauge(out, "process_start_time_seconds", "When it was started, since 1970.",
                (double)server->started_s);
    if (uv_resident_set_memory(&resident_bytes) == 0)
        print_gauge(out, "process_resident_memory_bytes", "Memory in use.", (double)resident_bytes);
}

static void print_all(FILE *out, const struct server *server)
{
    head(out, "acre_build_info", "gauge", "The version that runs.");
    fprintf(out, "acre_build_info{version=\"%s\",device=\"%s\"} 1\n", ACRE_VERSION,
            acre_engine_backend(server->engine));
    print_replies(out, server);
    print_times(out, server);
    print_connections(out, server->http);
    print_limits(out, &server->limits);
    print_devices(out, server);
    print_files(out, server);
    print_reloads(out, server);
    print_process(out, server);
    print_gauge(out, "acre_queued_tokens", "Source tokens that wait for a worker.",
                (double)acre_engine_queued_tokens(server->engine));
    print_gauge(out, "acre_glossaries", "Glossaries of all keys.",
                (double)server->glossaries.n_items);
    print_gauge(out, "acre_glossary_bytes", "Memory that they take.",
                (double)server->glossaries.bytes);
    print_gauge(out, "acre_models", "Models that are loaded.", (double)server->models.n_items);
    print_models(out, &server->models);
    print_waits(out, &server->models);
    print_batches(out, &server->models);
    print_memory(out, &server->models);
}

void api_metrics(struct server *server, struct http_request *request, const char *rest)
{
    struct http_reply reply = {.status = 200, .content_type = "text/plain; version=0.0.4"};
    FILE *out = open_memstream(&reply.body, &reply.body_bytes);
    struct srv_error error;

    (void)rest;
    if (out) {
        print_all(out, server);
        if (fclose(out) == 0) {
            http_reply(request, &reply);
            return;
        }
        free(reply.body); /* UNTESTED: no memory */
    }
    error_no_memory(&error);
    reply_error(request, &error);
}
