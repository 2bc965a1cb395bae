/* Happy path: html_next(): text up to the next "<" that begins markup; a tag with its attributes;
 * or what is neither, whole. After the tag of a raw element its content is one text.
 *
 * Failure modes: none. What does not end, ends with the document. */
#include "content/html_token.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

bool html_has_names(enum html_syntax syntax)
{
    return syntax == HTML_PAGE || syntax == HTML_XHTML;
}

bool html_is_xml(enum html_syntax syntax)
{
    return syntax == HTML_XHTML || syntax == HTML_XML;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r' && c != '\v');
}

static bool is_name_end(char c)
{
    return is_space(c) || c == '/' || c == '>';
}

static bool begins(const struct html_reader *r, size_t at, const char *what)
{
    const size_t n = strlen(what);

    return r->bytes - at >= n && strncasecmp(r->text + at, what, n) == 0;
}

/* Behind `what`, or the end of the document. */
static size_t find(const struct html_reader *r, size_t at, const char *what)
{
    const char *found = memmem(r->text + at, r->bytes - at, what, strlen(what));

    return found ? (size_t)(found - r->text) + strlen(what) : r->bytes;
}

/* ---- What is neither tag nor text ------------------------------------------------------------ */

/* "-->", and for browsers "--!>", too. No look goes beyond the end, or each comment of many would
 * cost what is left of the document. */
static size_t end_of_comment(const struct html_reader *r, size_t at)
{
    for (;;) {
        at = find(r, at, "--");
        if (at >= r->bytes)
            return r->bytes;
        if (begins(r, at, ">"))
            return at + 1;
        if (r->syntax == HTML_PAGE && begins(r, at, "!>"))
            return at + 2;
        at--; /* of "--->" the last two dashes end it */
    }
}

/* Of XML, it may have declarations of its own between brackets, with quotes, comments and all. */
static size_t end_of_doctype(const struct html_reader *r, size_t at)
{
    bool is_within = false;

    while (at < r->bytes) {
        const char c = r->text[at];

        if (c == '"' || c == '\'') {
            at = find(r, at + 1, c == '"' ? "\"" : "'");
        } else if (begins(r, at, "<!--")) {
            at = end_of_comment(r, at + 4);
        } else if (begins(r, at, "<?")) {
            at = find(r, at + 2, "?>");
        } else {
            if (c == '>' && !is_within)
                return at + 1;
            is_within = c == '[' || (is_within && c != ']');
            at++;
        }
    }
    return r->bytes;
}

static bool is_cdata(const struct html_reader *r, const struct html_token *token)
{
    return html_is_xml(r->syntax) && token->n >= HTML_CDATA_BYTES + HTML_CDATA_END_BYTES &&
           begins(r, token->at, "<![CDATA[") &&
           memcmp(r->text + token->at + token->n - HTML_CDATA_END_BYTES, "]]>", 3) == 0;
}

/* "<!", "<?" and "</" that begin no tag. */
static size_t end_of_declaration(const struct html_reader *r, size_t at)
{
    if (begins(r, at, "<!-->") || begins(r, at, "<!--->"))
        return find(r, at, ">");
    if (begins(r, at, "<!--"))
        return end_of_comment(r, at + 4);
    if (begins(r, at, "<![CDATA["))
        return find(r, at, "]]>");
    if (r->syntax != HTML_PAGE && begins(r, at, "<!DOCTYPE"))
        return end_of_doctype(r, at + 9);
    return r->syntax != HTML_PAGE && begins(r, at, "<?") ? find(r, at, "?>") : find(r, at, ">");
}

/* ---- Elements whose content has no tags ------------------------------------------------------ */

/* Whether "</name" stands at `at`. */
static bool ends_raw(const struct html_reader *r, size_t at)
{
    return r->bytes - at > r->n_raw + 2 && r->text[at + 1] == '/' &&
           strncasecmp(r->text + at + 2, r->text + r->raw, r->n_raw) == 0 &&
           is_name_end(r->text[at + 2 + r->n_raw]);
}

/* For browsers: in a script, "<!-- <script>" hides an end tag until "</script>" or "-->". */
static size_t end_of_raw_page(const struct html_reader *r)
{
    const bool is_script = r->n_raw == 6 && strncasecmp(r->text + r->raw, "script", 6) == 0;
    bool is_comment = false, is_hidden = false;

    for (size_t at = r->at; at < r->bytes; at++) {
        if (r->text[at] == '-' && is_comment && begins(r, at, "-->"))
            is_comment = is_hidden = false;
        if (r->text[at] != '<')
            continue;
        if (ends_raw(r, at)) {
            if (!is_hidden)
                return at;
            is_hidden = false;
        } else if (is_script && begins(r, at, "<!--")) {
            is_comment = true;
            at += 1; /* "<!-->" ends at once */
        } else if (is_comment && begins(r, at, "<script") && at + 7 < r->bytes &&
                   is_name_end(r->text[at + 7])) {
            is_hidden = true;
        }
    }
    return r->bytes;
}

/* Of XML: what is neither tag nor text hides an end tag in it. */
static size_t end_of_raw_xml(const struct html_reader *r)
{
    for (size_t at = r->at; at < r->bytes; at++) {
        if (r->text[at] != '<')
            continue;
        if (ends_raw(r, at))
            return at;
        if (begins(r, at, "<!--") || begins(r, at, "<![CDATA[") || begins(r, at, "<?"))
            at = end_of_declaration(r, at) - 1;
    }
    return r->bytes;
}

static size_t end_of_raw(const struct html_reader *r)
{
    return r->syntax == HTML_PAGE ? end_of_raw_page(r) : end_of_raw_xml(r);
}

/* Whether "<name/>" has no content. */
static bool heeds_slash(const struct html_reader *r)
{
    return r->syntax != HTML_PAGE || r->n_foreign > 0;
}

/* Of `title` and `textarea` the content is text with references. In XML, it has markup. */
static bool is_raw(const struct html_reader *r, const struct html_token *token)
{
    static const char *const names[] = {"script",   "style", "xmp",      "iframe",   "noembed",
                                        "noframes", "title", "textarea", "plaintext"};
    const size_t n = r->syntax == HTML_PAGE ? 9 : 6;

    if (!html_has_names(r->syntax) || (token->is_closed && heeds_slash(r)))
        return false;
    for (size_t i = 0; i < n; i++)
        if (html_is_named(r, token, names[i]))
            return true;
    return false;
}

static void read_raw(struct html_reader *r, struct html_token *token)
{
    static const char plaintext[] = "plaintext";
    const bool is_text = (r->n_raw == 5 && strncasecmp(r->text + r->raw, "title", 5) == 0) ||
                         (r->n_raw == 8 && strncasecmp(r->text + r->raw, "textarea", 8) == 0);
    const bool is_endless =
        r->n_raw == 9 && strncasecmp(r->text + r->raw, plaintext, sizeof(plaintext) - 1) == 0;

    token->type = is_text ? HTML_TEXT : HTML_OTHER;
    token->n = (is_endless ? r->bytes : end_of_raw(r)) - token->at;
    r->n_raw = 0;
}

/* ---- Tags ------------------------------------------------------------------------------------ */

/* Behind the ">" of a tag whose name is known; 0: the document ends first. */
static size_t end_of_tag(const struct html_reader *r, const struct html_token *token)
{
    const struct html_token rest = {
        .at = r->bytes, .n = 1, .name = token->name, .n_name = token->n_name};
    struct html_attribute a;
    size_t at = 0;

    while (html_attribute(r, &rest, &at, &a))
        ;
    return at < r->bytes ? at + 1 : 0;
}

static void note_foreign(struct html_reader *r, const struct html_token *token)
{
    if (!html_is_named(r, token, "svg") && !html_is_named(r, token, "math"))
        return;
    if (token->type == HTML_START && !token->is_closed)
        r->n_foreign++;
    else if (token->type == HTML_END && r->n_foreign > 0)
        r->n_foreign--;
}

static void read_tag(struct html_reader *r, struct html_token *token)
{
    const bool is_end = r->text[token->at + 1] == '/';
    size_t end;

    token->name = token->at + 1 + is_end;
    end = token->name;
    while (end < r->bytes && !is_name_end(r->text[end]))
        end++;
    token->n_name = end - token->name;
    end = end_of_tag(r, token);
    token->type = end == 0 ? HTML_OTHER : is_end ? HTML_END : HTML_START;
    token->n = (end ? end : r->bytes) - token->at;
    token->is_closed = !is_end && token->n > 2 && r->text[token->at + token->n - 2] == '/';
    note_foreign(r, token);
    if (token->type == HTML_START && is_raw(r, token)) {
        r->raw = token->name;
        r->n_raw = token->n_name;
    }
}

/* Whether a name may begin with what is at `at`. */
static bool is_letter(const struct html_reader *r, size_t at)
{
    const char c = at < r->bytes ? r->text[at] : '\0';

    return isalpha((unsigned char)c) || (html_is_xml(r->syntax) && c == ':') ||
           (r->syntax != HTML_PAGE && (c == '_' || (unsigned char)c >= 0x80));
}

/* Of the time that stands at `at`: "<00:00:01.000>"; 0: there is none. */
static size_t time_bytes(const struct html_reader *r, size_t at)
{
    size_t end = at + 1;

    if (r->syntax != HTML_WEBVTT)
        return 0;
    while (end < r->bytes &&
           (isdigit((unsigned char)r->text[end]) || r->text[end] == ':' || r->text[end] == '.'))
        end++;
    return end > at + 1 && end < r->bytes && r->text[end] == '>' ? end + 1 - at : 0;
}

/* Whether "<" at `at` is markup. */
static bool is_markup(const struct html_reader *r, size_t at)
{
    const char next = at + 1 < r->bytes ? r->text[at + 1] : '\0';

    return time_bytes(r, at) > 0 || is_letter(r, at + 1) || next == '!' || next == '?' ||
           (next == '/' && at + 2 < r->bytes);
}

static void read_markup(struct html_reader *r, struct html_token *token)
{
    if (is_letter(r, token->at + 1 + (r->text[token->at + 1] == '/'))) {
        read_tag(r, token);
        return;
    }
    token->type = HTML_OTHER;
    token->n = time_bytes(r, token->at);
    if (token->n == 0)
        token->n = end_of_declaration(r, token->at) - token->at;
    if (is_cdata(r, token))
        token->type = HTML_CDATA;
}

bool html_next(struct html_reader *r, struct html_token *token)
{
    size_t end = r->at;

    if (r->at >= r->bytes)
        return false;
    *token = (struct html_token){.type = HTML_TEXT, .at = r->at};
    if (r->n_raw > 0)
        read_raw(r, token);
    if (token->n == 0 && r->text[r->at] == '<' && is_markup(r, r->at)) {
        *token = (struct html_token){.at = r->at};
        read_markup(r, token);
    } else if (token->n == 0) {
        for (end = r->at + 1; end < r->bytes; end++)
            if (r->text[end] == '<' && is_markup(r, end))
                break;
        token->type = HTML_TEXT;
        token->n = end - token->at;
    }
    r->at = token->at + token->n;
    return true;
}

bool html_has_name(const struct html_reader *r, const struct html_token *token, const char *name,
                   size_t bytes)
{
    const char *found = r->text + token->name;

    if (token->n_name != bytes)
        return false;
    return html_has_names(r->syntax) ? strncasecmp(found, name, bytes) == 0
                                     : memcmp(found, name, bytes) == 0;
}

bool html_is_named(const struct html_reader *r, const struct html_token *token, const char *name)
{
    return html_has_name(r, token, name, strlen(name));
}

bool html_attribute(const struct html_reader *r, const struct html_token *token, size_t *at,
                    struct html_attribute *a)
{
    const size_t end = token->at + token->n - 1;
    size_t i = *at ? *at : token->name + token->n_name;

    *a = (struct html_attribute){.quote = '\0'};
    while (i < end && (is_space(r->text[i]) || r->text[i] == '/'))
        i++;
    a->name = i;
    while (i < end && !is_name_end(r->text[i]) && (r->text[i] != '=' || i == a->name))
        i++;
    a->n_name = i - a->name;
    while (i < end && is_space(r->text[i]))
        i++;
    if (i < end && r->text[i] == '=' && a->n_name > 0) {
        for (i++; i < end && is_space(r->text[i]);)
            i++;
        if (i < end && (r->text[i] == '"' || r->text[i] == '\''))
            a->quote = r->text[i++];
        a->value = i;
        while (i < end &&
               (a->quote ? r->text[i] != a->quote : !is_space(r->text[i]) && r->text[i] != '>'))
            i++;
        a->n_value = i - a->value;
        i += a->quote && i < end;
    }
    *at = i;
    return a->n_name > 0;
}
