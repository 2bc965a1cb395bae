/* settings.h - the server's configuration: one struct, one table.
 *
 * conf/acre.json lists every key with its default; `acre serve --help-config` prints the table; a
 * test holds the two together. Read at the start; a reload reads it anew in another thread and puts
 * it in the old one's place on the loop thread, to which it belongs.
 */
#ifndef SERVER_SERVE_SETTINGS_H
#define SERVER_SERVE_SETTINGS_H

#include "common/options.h"

struct settings {
    char listen[OPTION_TEXT_BYTES];
    char models[OPTION_TEXT_BYTES];
    char bad_models[OPTION_TEXT_BYTES];
    char device[OPTION_TEXT_BYTES];
    char device_fallback[OPTION_TEXT_BYTES];
    char compute_type[OPTION_TEXT_BYTES];
    int64_t threads;
    int64_t batch_size;
    int64_t max_beam_size;
    int64_t max_body_bytes;
    int64_t max_text_chars;
    int64_t max_texts;
    int64_t max_queued_tokens;
    int64_t max_glossaries;
    int64_t max_glossary_bytes;
    int64_t cache_bytes;
    int64_t max_bodies_bytes;
    int64_t max_connections;
    int64_t max_connections_per_address;
    int64_t request_timeout_ms;
    int64_t read_timeout_s;
    int64_t idle_timeout_s;
    int64_t send_timeout_s;
    int64_t drain_timeout_s;
    int64_t drain_grace_s;
    char tls_certificate[OPTION_TEXT_BYTES];
    char tls_key[OPTION_TEXT_BYTES];
    char log_format[OPTION_TEXT_BYTES];
    char access_log[OPTION_TEXT_BYTES];
    char suggestions[OPTION_TEXT_BYTES];
    char store[OPTION_TEXT_BYTES];
    bool keys_required;
    int64_t rate_limit;
    char shared_limits[OPTION_TEXT_BYTES];
    char trusted_proxies[OPTION_TEXT_BYTES];
    bool proxy_protocol;
    int64_t max_files;
    int64_t max_files_bytes;
    int64_t file_lifetime_s;
    bool page;
    char cors_origin[OPTION_TEXT_BYTES];
};

extern const struct option settings_table[];

/* Sets one key from "KEY=VALUE". */
int settings_assign(struct settings *settings, const char *assignment, struct acre_err *err);

/* What no single value shows. */
int settings_check(const struct settings *settings, struct acre_err *err);

/* What a running server cannot change stays as it is, with a line in the log. Refuses what no
 * longer goes together then. */
int settings_keep_fixed(struct settings *fresh, const struct settings *running,
                        struct acre_err *err);

/* Takes over what differs, and does not touch what threads of the pool may be reading. */
void settings_renew(struct settings *settings, const struct settings *fresh);

/* Prints every key with its type, range, default and meaning on stdout. */
void settings_print_help(void);

#endif
