#include "api/access.h"

#include <string.h>
#include <strings.h>

/* What follows the scheme's name, or NULL. */
static const char *credentials(const struct http_request *request, const char *scheme)
{
    const char *value = http_header(request, "Authorization");
    const size_t n = strlen(scheme);

    if (!value || strncasecmp(value, scheme, n) != 0 || value[n] != ' ')
        return NULL;
    value += n + strspn(value + n, " ");
    return *value ? value : NULL;
}

/* A bearer's token may be meant for a proxy that lets it pass: what is surely for us comes first.
 * *text stays NULL if there is none. */
static int find_key(const struct http_request *request, const struct fields *fields,
                    const char *field, const char **text, struct srv_error *error)
{
    *text = credentials(request, "DeepL-Auth-Key");
    if (!*text && fields && field && fields_text(fields, field, text, error) != 0)
        return -1;
    if (!*text)
        *text = credentials(request, "Bearer");
    return 0;
}

int access_identify(struct server *server, const struct http_request *request,
                    const struct fields *fields, const char *field, struct grant *grant, int rc,
                    struct srv_error *error)
{
    struct srv_error later;
    const char *text;

    if (find_key(request, fields, field, &text, rc == 0 ? error : &later) != 0)
        rc = -1;
    if (limits_identify(&server->limits, text, http_client(request), grant,
                        rc == 0 ? error : &later) != 0)
        rc = -1;
    return rc;
}

uint64_t access_caller(const struct http_request *request, const struct grant *grant)
{
    return grant->key ? ~(uint64_t)grant->key->id : http_caller(request);
}

uint64_t access_guess_caller(struct server *server, const struct http_request *request)
{
    struct keyring *keyring = server->limits.keyring;
    struct grant grant = {.key = NULL};
    struct srv_error ignored; /* of fields alone */
    const char *text;

    find_key(request, NULL, NULL, &text, &ignored);
    if (keyring && text)
        grant.key = keyring_find(keyring, text, strlen(text));
    return access_caller(request, &grant);
}

int access_check_key(struct server *server, const struct http_request *request,
                     const struct fields *fields, const char *field, struct key **key,
                     struct srv_error *error)
{
    const char *text;

    if (find_key(request, fields, field, &text, error) != 0)
        return -1;
    return limits_check_key(&server->limits, text, http_client(request), key, error);
}
