/* One table of all settings, which configuration file, --set, help and reload go through.
 *
 * Failure modes: what one value cannot be, the table says; what two cannot be together, or with
 * this machine, settings_check(). Both name the setting, what was expected and what was found. */
#include "serve/settings.h"

#include <errno.h>
#include <string.h>

#include "common/error.h"
#include "common/log.h"
#include "common/path.h"
#include "http/endpoint.h" /* endpoint_valid(): what an address looks like */
#include "http/networks.h"
#include "serve/shared_limits.h"

#define INT(field, low, high, default_value, text)                                                 \
    {                                                                                              \
        .key = #field, .type = OPTION_INT, .offset = offsetof(struct settings, field), .min = low, \
        .max = high, .default_text = default_value, .help = text                                   \
    }
#define TEXT(field, default_value, check, accepts, text)                                           \
    {                                                                                              \
        .key = #field, .type = OPTION_TEXT, .offset = offsetof(struct settings, field),            \
        .default_text = default_value, .valid = check, .expected = accepts, .help = text           \
    }

/* Settings that a running server cannot change. */
#define FIXED_INT(field, low, high, default_value, text)                                           \
    {                                                                                              \
        .key = #field, .type = OPTION_INT, .offset = offsetof(struct settings, field), .min = low, \
        .max = high, .default_text = default_value, .help = text, .is_fixed = true                 \
    }
#define FIXED_TEXT(field, default_value, check, accepts, text)                                     \
    {                                                                                              \
        .key = #field, .type = OPTION_TEXT, .offset = offsetof(struct settings, field),            \
        .default_text = default_value, .valid = check, .expected = accepts, .help = text,          \
        .is_fixed = true                                                                           \
    }

static bool is_fail_or_skip(const char *text)
{
    return strcmp(text, "fail") == 0 || strcmp(text, "skip") == 0;
}

static bool is_none_or_cpu(const char *text)
{
    return strcmp(text, "none") == 0 || strcmp(text, "cpu") == 0;
}

static bool is_text_or_json(const char *text)
{
    return strcmp(text, "text") == 0 || strcmp(text, "json") == 0;
}

static bool is_header_text(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7e)
            return false;
    return true;
}

const struct option settings_table[] = {
    {.key = "listen",
     .type = OPTION_TEXT,
     .offset = offsetof(struct settings, listen),
     .default_text = "127.0.0.1:5000",
     .valid = endpoint_valid,
     .expected = ENDPOINT_EXPECTED,
     .is_list = true,
     .is_fixed = true,
     .help = "address to serve on, or a list of them; 0.0.0.0 or [::] is every address, port 0 "
             "picks a free port; whoever may enter the folder of a unix:/PATH may connect; sockets "
             "that systemd has opened take their place"},
    TEXT(models, "models", options_is_filled, "a folder",
         "folder of model directories; every subfolder with a config.json is served"),
    TEXT(bad_models, "fail", is_fail_or_skip, "\"fail\" or \"skip\"",
         "what a model that cannot be loaded means: fail, the server does not start; skip, it "
         "serves the others and says so in its log"),
    FIXED_TEXT(device, "auto", acre_has_device, ACRE_DEVICES, "where to compute"),
    FIXED_TEXT(device_fallback, "none", is_none_or_cpu, "none or cpu",
               "what takes over when the last GPU fails"),
    FIXED_TEXT(
        compute_type, "auto", acre_has_compute_type, ACRE_COMPUTE_TYPES,
        "type of matrix products; auto is the compute_type of a model's config.json, else f32. A "
        "GPU takes f16, too: there auto is f16, unless that type is f32 and a matrix is stored in "
        "32 bits"),
    FIXED_INT(threads, 0, ACRE_MAX_THREADS, "0",
              "worker threads; 0 = as many as the CPUs the process may use"),
    FIXED_INT(batch_size, 1, ACRE_MAX_BATCH_SIZE, "32",
              "most sentences one worker decodes together; fewer may answer sooner under load"),
    FIXED_INT(max_beam_size, 1, ACRE_MAX_BEAM_SIZE, "8", "largest beam_size a request may ask for"),
    INT(max_body_bytes, 1024, 1073741824, "1048576", "largest request body; beyond it 413"),
    INT(max_bodies_bytes, 1024, 1e12, "67108864",
        "memory for the bodies of all requests, and for heads of more than 4 KiB, together; beyond "
        "it 503; as much for replies that clients have not read yet, beyond it slow clients are "
        "closed"),
    INT(max_text_chars, 1, 1073741824, "100000", "most characters in one text"),
    INT(max_texts, 1, 1000000, "1000", "most texts in one request"),
    INT(max_glossaries, 0, 1000000, "1000",
        "most glossaries, of each key if there are keys; without a store a restart loses them; "
        "0 = none"),
    INT(max_glossary_bytes, 0, 1e12, "268435456",
        "memory that glossaries may take together; beyond it 413. Where there are keys, those of "
        "one may take no more than they leave free; beyond it 456"),
    FIXED_INT(
        max_queued_tokens, 0, 1e12, "0",
        "source tokens that may wait for a worker; beyond it 429. 0 = 100,000 per worker thread"),
    FIXED_INT(
        cache_bytes, 0, 1e12, "0",
        "memory for translations of sentences, which are given again where a sentence comes again; "
        "/metrics, which needs no key, tells that one did; 0 = none"),
    INT(max_connections, 1, 100000, "1000",
        "open connections; for more, idle ones are closed, then slow ones"),
    INT(max_connections_per_address, 0, 100000, "0",
        "open connections from one address (of IPv6, one /64); beyond it 503. 0 = no such limit"),
    INT(request_timeout_ms, 1, 86400000, "60000",
        "longest a translation may take; then 504. A request's timeout_ms can only shorten it"),
    INT(read_timeout_s, 1, 3600, "30",
        "a request's body must have arrived this long after its "
        "headers"),
    INT(idle_timeout_s, 1, 3600, "60",
        "a connection that sends no complete request headers for so long is closed"),
    INT(send_timeout_s, 1, 3600, "30",
        "a client must have taken its reply after so long, and 1 s more for every 16 kB of it"),
    INT(drain_timeout_s, 0, 3600, "30",
        "after SIGTERM, unfinished requests are cancelled when so long has passed"),
    INT(drain_grace_s, 0, 3600, "0",
        "seconds after SIGTERM in which it still serves while /health/ready says 503"),
    TEXT(tls_certificate, "", NULL, NULL,
         "file of a certificate in PEM, and of those up to its root: then TCP connections are TLS"),
    TEXT(tls_key, "", NULL, NULL, "file of its key in PEM, without a password"),
    TEXT(log_format, "text", is_text_or_json, "\"text\" or \"json\"",
         "what lines of the log, on standard error, and of the access log look like"),
    TEXT(access_log, "", NULL, NULL,
         "file for one line of each reply, opened anew on SIGHUP; - is standard output, empty is "
         "none"),
    FIXED_TEXT(suggestions, "", NULL, NULL,
               "file to which POST /suggest appends what users suggest, up to 64 MiB; "
               "empty = 403"),
    FIXED_TEXT(store, "", NULL, NULL,
               "file that keeps API keys, what they have used, and glossaries; made if there is "
               "none; acre keys takes the same one; empty = none is kept"),
    {.key = "keys_required",
     .type = OPTION_FLAG,
     .offset = offsetof(struct settings, keys_required),
     .default_text = "false",
     .help =
         "whether translating takes an API key (acre keys add); a key that is sent is looked at "
         "in any case, if there is a store"},
    INT(rate_limit, 0, 1000000, "0",
        "requests a minute, and at once, of a key that has no rate of its own, and of an address "
        "(of IPv6, one /64) without a key; beyond it 429. 0 = no such limit"),
    {.key = "shared_limits",
     .type = OPTION_TEXT,
     .offset = offsetof(struct settings, shared_limits),
     .default_text = "",
     .valid = shared_valid,
     .expected = SHARED_EXPECTED,
     .is_fixed = true,
     .is_secret = true,
     .help = "Redis or Valkey through which replicas share rates and quotas; while it is away each "
             "counts alone; empty = each always does"},
    {.key = "trusted_proxies",
     .type = OPTION_TEXT,
     .offset = offsetof(struct settings, trusted_proxies),
     .default_text = "",
     .valid = networks_valid,
     .expected = NETWORKS_EXPECTED,
     .is_list = true,
     .help = "proxies whose X-Forwarded-For, or else Forwarded, is believed; they must overwrite "
             "or append to these headers"},
    {.key = "proxy_protocol",
     .type = OPTION_FLAG,
     .offset = offsetof(struct settings, proxy_protocol),
     .default_text = "false",
     .help = "whether connections from trusted_proxies, or all if there are none, begin with a "
             "header of the PROXY protocol, version 1 or 2"},
    INT(max_files, 0, 100000, "1000",
        "translated files kept in memory for their clients; for more, the oldest leave; 0 = no "
        "files are translated"),
    INT(max_files_bytes, 1024, 1e12, "67108864", "most bytes of those files, together"),
    INT(file_lifetime_s, 1, 86400, "1800", "seconds that a file is kept after its upload"),
    {.key = "page",
     .type = OPTION_FLAG,
     .offset = offsetof(struct settings, page),
     .default_text = "true",
     .help = "whether / is a page to translate on, and /docs one about this interface; else 404"},
    TEXT(cors_origin, "*", is_header_text, "printable ASCII text",
         "Access-Control-Allow-Origin of every reply; empty = no CORS headers"),
    {.key = NULL},
};

int settings_assign(struct settings *settings, const char *assignment, struct acre_err *err)
{
    size_t n = strcspn(assignment, "=");
    const struct option *option;
    char key[64];

    if (!assignment[n])
        return error_set(err, ACRE_EOPTION, "--set: expected KEY=VALUE, found \"%.200s\"",
                         assignment);
    snprintf(key, sizeof(key), "%.*s", (int)(n < sizeof(key) ? n : sizeof(key) - 1), assignment);
    option = options_find(settings_table, key);
    if (!option)
        return error_set(err, ACRE_EOPTION,
                         "--set: %s: expected a known key (acre serve --help-config), found %s",
                         key, key);
    if (options_set(option, settings, assignment + n + 1, err) != 0)
        return error_prefix(err, "--set: %s: ", key);
    return 0;
}

static int check_file(const char *key, const char *path, struct acre_err *err)
{
    const int wrong = path[0] ? path_writable(path) : 0;

    return wrong == 0
               ? 0
               : error_set(err, ACRE_EIO, "%s: expected a file that can be written, found %s: %s",
                           key, path, strerror(wrong));
}

static int check_files(const struct settings *s, struct acre_err *err)
{
    const char *access_log = strcmp(s->access_log, "-") == 0 ? "" : s->access_log;
    const int rc = check_file("access_log", access_log, err);

    return rc == 0 ? check_file("suggestions", s->suggestions, err) : rc;
}

static int check_keys(const struct settings *settings, struct acre_err *err)
{
    return settings->keys_required && !settings->store[0]
               ? error_set(err, ACRE_EOPTION,
                           "keys_required: expected a store beside it, found none")
               : 0;
}

int settings_check(const struct settings *settings, struct acre_err *err)
{
    return check_keys(settings, err) != 0 ? err->code : check_files(settings, err);
}

int settings_keep_fixed(struct settings *fresh, const struct settings *running,
                        struct acre_err *err)
{
    for (const struct option *o = settings_table; o->key; o++) {
        if (!o->is_fixed || options_same(o, fresh, running))
            continue;
        log_warning("reload: %s: a change takes a restart", o->key);
        options_copy(o, fresh, running);
    }
    return check_keys(fresh, err); /* a store that was asked for is not there yet */
}

void settings_renew(struct settings *settings, const struct settings *fresh)
{
    for (const struct option *o = settings_table; o->key; o++)
        if (!options_same(o, settings, fresh))
            options_copy(o, settings, fresh);
}

void settings_print_help(void)
{
    char expected[128];

    for (const struct option *o = settings_table; o->key; o++) {
        options_expected(o, expected, sizeof(expected));
        printf("%s = %s%s%s\n    %s.\n    Takes %s.%s\n", o->key,
               o->type == OPTION_TEXT ? "\"" : "", o->default_text,
               o->type == OPTION_TEXT ? "\"" : "", o->help, expected,
               o->is_fixed ? " A change takes a restart." : "");
    }
}
