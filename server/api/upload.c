/* Happy path: upload_open(): the name says the kind -> the bytes become UTF-8 and are counted; when
 * they are translated, upload_result() gives the file that goes back.
 *
 * Failure modes: a kind that is not translated, bytes in no known encoding, subtitles without
 * times: kept in `rc` and `error`, as a pool thread may find them and the loop reports them. */
#include "api/upload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unicode/uchar.h>

#include "common/percent.h"
#include "common/unicode.h"
#include "content/subtitle.h"

const struct upload_kind upload_kinds[] = {
    {".txt", "text/plain; charset=utf-8", SRV_TEXT},
    {".html", "text/html; charset=utf-8", SRV_HTML},
    {".htm", "text/html; charset=utf-8", SRV_HTML},
    {".xhtml", "application/xhtml+xml; charset=utf-8", SRV_XHTML},
    {".srt", "application/x-subrip; charset=utf-8", SRV_SUBRIP},
    {".vtt", "text/vtt; charset=utf-8", SRV_WEBVTT},
    {.extension = NULL},
};

/* ".txt, .html" */
static void list_kinds(char *text, size_t text_bytes)
{
    size_t n = 0;

    text[0] = '\0';
    for (const struct upload_kind *k = upload_kinds; k->extension && n < text_bytes; k++)
        n += (size_t)snprintf(text + n, text_bytes - n, "%s%s", n > 0 ? ", " : "", k->extension);
}

/* ---- Names ----------------------------------------------------------------------------------- */

enum { STEM_BYTES = UPLOAD_NAME_BYTES - 48 }; /* an extension and a language follow */

static bool is_fine(UChar32 c)
{
    return u_isprint(c) && c != 0xFFFD && !(c < 0x80 && strchr("<>:\"/\\|?*", (int)c));
}

/* Copies as much as fits, whatever the bytes are. */
static void copy_clean(char *out, size_t out_bytes, const char *name, size_t bytes)
{
    size_t n = 0;
    char utf8[5];

    for (size_t at = 0; at < bytes;) {
        const UChar32 c = (UChar32)unicode_next(name, bytes, &at);
        const size_t n_utf8 = unicode_encode((uint32_t)(is_fine(c) ? c : '_'), utf8);

        if (n + n_utf8 + 1 > out_bytes)
            break;
        memcpy(out + n, utf8, n_utf8);
        n += n_utf8;
    }
    out[n] = '\0';
}

static void take_name(struct upload *upload, const char *name)
{
    const char *slash = strrchr(name, '/'), *backslash, *dot;

    name = slash ? slash + 1 : name;
    backslash = strrchr(name, '\\');
    name = backslash ? backslash + 1 : name;
    dot = strrchr(name, '.');
    for (const struct upload_kind *k = upload_kinds; dot && k->extension; k++)
        if (strcasecmp(dot, k->extension) == 0)
            upload->kind = k;
    if (!upload->kind)
        return;
    copy_clean(upload->name, STEM_BYTES, name, (size_t)(dot - name));
    if (upload->name[0] == '.')
        upload->name[0] = '_';
    if (!upload->name[0])
        strcpy(upload->name, "file");
    strcat(upload->name, dot);
}

void upload_result_name(const struct upload *upload, const char *target,
                        char name[UPLOAD_NAME_BYTES])
{
    const size_t n = (size_t)(strrchr(upload->name, '.') - upload->name);

    snprintf(name, UPLOAD_NAME_BYTES, "%.*s_%.16s%.8s", (int)n, upload->name, target,
             upload->name + n);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int refuse_name(const char *name, struct srv_error *error)
{
    const char *dot = name ? strrchr(name, '.') : NULL;
    char kinds[128];

    list_kinds(kinds, sizeof(kinds));
    return error_http(error, 400, "file_format_not_supported",
                      "file format not supported: expected a file name that ends in one of %s, "
                      "found %.24s",
                      kinds,
                      dot    ? dot
                      : name ? "one without extension"
                             : "no name");
}

/* What a page says of its encoding shall be true of its translation. */
static void settle_encoding(struct upload *upload)
{
    const bool is_xhtml = upload->kind->format == SRV_XHTML;

    if (upload->kind->format != SRV_HTML && !is_xhtml)
        return;
    if (upload->text.has_mark)
        charset_drop_declared(&upload->text);
    else
        upload->keeps_ascii = charset_keeps_ascii(upload->text.data, upload->text.bytes, is_xhtml);
}

/* The part's own name, or the one in a field where that tells no kind: curl sends "-" of a pipe. */
static int read_name(struct upload *upload, const struct fields *fields, struct srv_error *error)
{
    const char *name = fields->file.name && fields->file.name[0] ? fields->file.name : NULL;

    if (name)
        take_name(upload, name);
    if (upload->kind)
        return 0;
    if (fields_text(fields, "filename", &name, error) != 0)
        return -1;
    if (name)
        take_name(upload, name);
    return upload->kind ? 0 : refuse_name(name, error);
}

static int read_file(struct upload *upload, const struct fields *fields, struct srv_error *error)
{
    char why[CHARSET_WHY_BYTES];

    if (!fields->file.data)
        return error_field(error, "missing_parameter", "file", "expected a file, found none");
    if (read_name(upload, fields, error) != 0)
        return -1;
    if (charset_decode(fields->file.data, fields->file.bytes, &upload->text, why) != 0)
        return why[0] ? error_http(error, 400, "file_not_text", "%s: %s", upload->name, why)
                      : error_from_engine(error, ACRE_ENOMEM, NULL);
    if ((upload->kind->format == SRV_SUBRIP || upload->kind->format == SRV_WEBVTT) &&
        !subtitle_is(upload->text.data, upload->text.bytes))
        return error_http(error, 400, "file_not_subtitles",
                          "%s: expected subtitles, found no line like \"00:00:01,000 --> "
                          "00:00:02,000\"",
                          upload->name);
    settle_encoding(upload);
    upload->n_chars = unicode_chars(upload->text.data, upload->text.bytes);
    return 0;
}

struct upload *upload_open(struct fields *fields)
{
    struct upload *upload = calloc(1, sizeof(*upload));

    if (!upload)
        return NULL;
    upload->rc = read_file(upload, fields, &upload->error);
    free(fields->file.data); /* it is in upload->text */
    fields->file.data = NULL;
    return upload;
}

void upload_close(struct upload *upload)
{
    if (!upload)
        return;
    free(upload->text.data);
    free(upload);
}

/* ---- The translation ------------------------------------------------------------------------- */

/* "plain.txt", and what it is called in UTF-8 by RFC 8187. Nobody shall run what is in it. */
static void make_lines(const char *name, char *lines, size_t lines_bytes)
{
    static const char kept[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                               "0123456789-_. ";
    char plain[UPLOAD_NAME_BYTES], encoded[3 * UPLOAD_NAME_BYTES];
    size_t n = 0;

    for (const char *c = name; *c; c++)
        plain[n++] = strchr(kept, *c) ? *c : '_';
    plain[n] = '\0';
    percent_encode(name, encoded);
    snprintf(lines, lines_bytes,
             "Content-Disposition: attachment; filename=\"%s\"; filename*=UTF-8''%s\r\n"
             "X-Content-Type-Options: nosniff\r\n"
             "Content-Security-Policy: sandbox\r\n",
             plain, encoded);
}

/* With the mark that the file had, if it had one. */
static char *mark(const char *text, size_t bytes, size_t *out_bytes)
{
    char *out = malloc(bytes + 3);

    if (!out)
        return NULL;
    memcpy(out, UNICODE_MARK, 3);
    memcpy(out + 3, text, bytes);
    *out_bytes = bytes + 3;
    return out;
}

struct blob *upload_result(const struct upload *upload, const char *translation, size_t bytes,
                           const char *target)
{
    char name[UPLOAD_NAME_BYTES], lines[5 * UPLOAD_NAME_BYTES], *made = NULL;
    struct blob *result;

    if (upload->keeps_ascii)
        made = charset_to_references(translation, bytes, upload->kind->format == SRV_XHTML, &bytes);
    else if (upload->text.has_mark)
        made = mark(translation, bytes, &bytes);
    if (!made && (upload->keeps_ascii || upload->text.has_mark))
        return NULL;
    upload_result_name(upload, target, name);
    make_lines(name, lines, sizeof(lines));
    result = blob_open(made ? made : translation, bytes, upload->kind->type, lines);
    free(made);
    return result;
}
