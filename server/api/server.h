/* server.h - what a request's handler can reach: the parts of one running server.
 *
 * Built by cmd_serve.c before the loop runs, torn down after it. Everything belongs to the loop
 * thread, except that the engine may be called from any.
 */
#ifndef SERVER_API_SERVER_H
#define SERVER_API_SERVER_H

#include "acre.h"
#include "http/http.h"
#include "serve/glossaries.h"
#include "serve/limits.h"
#include "serve/models.h"
#include "serve/settings.h"
#include "serve/stats.h"
#include "serve/translate.h"
#include "serve/turns.h"
#include "store/store.h"

enum { SERVER_HEAVY_CALLS = 8 };

struct server {
    const struct settings *settings;
    uv_loop_t *loop;
    size_t n_working; /* calls that a thread of the pool reads the body of, or writes the reply; or
                         for which other replicas are asked */
    struct turns bodies;                        /* of calls to be read, or to guess languages for */
    struct turns heavy;                         /* of calls whose replies take long */
    uint64_t heavy_callers[SERVER_HEAVY_CALLS]; /* of those that wait for a turn, or before */
    size_t n_heavy;
    struct {
        uv_idle_t idle; /* runs while calls wait */
        struct call *first, **end;
        uint64_t spent_ns; /* of a turn's share */
    } streams;             /* that have more to write than a turn of the loop has time for */
    struct acre_engine *engine;
    struct models models;
    struct translator *translator;
    struct store *store; /* NULL: none is configured */
    struct limits limits;
    struct glossaries glossaries;
    struct turns glossary_work; /* of calls that read entries, or write what takes as long */
    struct http *http;
    struct files *files;        /* that were translated */
    struct pages *pages;        /* what they show that settings and models decide */
    struct stats_route *routes; /* as in the table of routes; the last counts what has no route */
    size_t n_routes;
    uint64_t n_characters; /* of texts that were translated for clients of DeepL's API */
    uint64_t n_reloads, n_failed_reloads; /* since the start, which was then: */
    int64_t started_s;                    /* since 1970 */
    bool has_full_suggestions;            /* as the last one found, and the log was told */
};

#endif
