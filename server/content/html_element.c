/* Happy path: a tag's name is looked for in the list that a question is about; element_skip() reads
 * tokens until the element's own end, or a tag that ends it before.
 *
 * Failure modes: none. What does not end, ends with the document. */
#include "content/html_element.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "common/unicode.h"

static bool is_among(const struct html_reader *reader, const struct html_token *token,
                     const char *const *names)
{
    for (; *names; names++)
        if (html_is_named(reader, token, *names))
            return true;
    return false;
}

bool element_is_block(const struct html_reader *reader, const struct html_token *token)
{
    static const char *const names[] = {
        "address",  "article",    "aside",    "audio",    "base",    "blockquote", "body",
        "br",       "button",     "canvas",   "caption",  "center",  "col",        "colgroup",
        "dd",       "details",    "dialog",   "dir",      "div",     "dl",         "dt",
        "fieldset", "figcaption", "figure",   "footer",   "form",    "frame",      "frameset",
        "h1",       "h2",         "h3",       "h4",       "h5",      "h6",         "head",
        "header",   "hgroup",     "hr",       "html",     "iframe",  "legend",     "li",
        "link",     "listing",    "main",     "menu",     "meta",    "nav",        "noframes",
        "noscript", "object",     "ol",       "optgroup", "option",  "p",          "param",
        "pre",      "search",     "section",  "select",   "summary", "table",      "tbody",
        "td",       "template",   "textarea", "tfoot",    "th",      "thead",      "title",
        "tr",       "ul",         "video",    "xmp",      NULL};

    return html_has_names(reader->syntax) && is_among(reader, token, names);
}

bool element_is_void(const struct html_reader *reader, const struct html_token *token)
{
    static const char *const names[] = {"area",  "base", "br",     "col",   "embed",  "hr",  "img",
                                        "input", "link", "meta",   "param", "source", "svg", "math",
                                        "track", "wbr",  "script", "style", NULL};
    static const char *const foreign[] = {"svg", "math", NULL};

    if (token->is_closed && reader->syntax != HTML_PAGE)
        return true;
    if (!html_has_names(reader->syntax) || is_among(reader, token, foreign))
        return token->is_closed;
    return is_among(reader, token, names);
}

static bool is_word_among(const char *words, size_t n, const char *word)
{
    const size_t bytes = strlen(word);

    for (size_t i = 0; i + bytes <= n; i++)
        if (strncasecmp(words + i, word, bytes) == 0 &&
            (i == 0 || isspace((unsigned char)words[i - 1])) &&
            (i + bytes == n || isspace((unsigned char)words[i + bytes])))
            return true;
    return false;
}

bool element_says_no(const struct html_reader *reader, const struct html_token *token)
{
    struct html_attribute a;
    size_t at = 0;

    while (html_attribute(reader, token, &at, &a)) {
        const char *name = reader->text + a.name, *value = reader->text + a.value;

        if (a.n_name == 9 && strncasecmp(name, "translate", 9) == 0 && a.n_value == 2 &&
            strncasecmp(value, "no", 2) == 0)
            return true;
        if (a.n_name == 5 && strncasecmp(name, "class", 5) == 0 &&
            is_word_among(value, a.n_value, "notranslate"))
            return true;
    }
    return false;
}

bool element_is_frozen(const struct html_reader *reader, const struct html_token *token)
{
    static const char *const names[] = {"code", "kbd",      "listing", "math", "pre", "samp",
                                        "svg",  "textarea", "tt",      "var",  "xmp", NULL};

    return (html_has_names(reader->syntax) && is_among(reader, token, names)) ||
           element_says_no(reader, token);
}

/* Elements whose end tags may be left out: those of a rank end at the next of it or above. */
static int rank_of(const struct html_reader *reader, const struct html_token *token)
{
    static const char *const items[] = {"li", "dt", "dd", "td", "th", "option", NULL};
    static const char *const rows[] = {"tr", "optgroup", NULL};
    static const char *const groups[] = {"tbody", "thead", "tfoot", NULL};

    if (!html_has_names(reader->syntax))
        return 0;
    return is_among(reader, token, items)    ? 1
           : is_among(reader, token, rows)   ? 2
           : is_among(reader, token, groups) ? 3
                                             : 0;
}

/* Whether it ends a <p> that has no end tag. */
static bool ends_paragraph(const struct html_reader *reader, const struct html_token *token)
{
    static const char *const names[] = {"audio",  "button",   "canvas", "iframe", "noscript",
                                        "object", "option",   "select", "video",  "template",
                                        "title",  "textarea", "p",      NULL};

    return element_is_block(reader, token) && !element_is_void(reader, token) &&
           (token->type == HTML_START
                ? !is_among(reader, token, names) || html_is_named(reader, token, "p")
                : !is_among(reader, token, names));
}

/* Whether an element that began with `start` ends before `token`, without an end tag. `depth` is of
 * lists and tables within it. */
static bool ends_before(const struct html_reader *reader, const struct html_token *start, int rank,
                        const struct html_token *token, size_t depth)
{
    if (token->type != HTML_START && token->type != HTML_END)
        return false;
    if (html_is_named(reader, start, "p") && html_has_names(reader->syntax))
        return ends_paragraph(reader, token);
    if (rank == 0 || depth > 0)
        return false;
    if (token->type == HTML_START)
        return rank_of(reader, token) >= rank;
    return rank_of(reader, token) > rank;
}

bool element_skip(struct html_reader *reader, const struct html_token *start, bool *has_text)
{
    static const char *const containers[] = {"ul", "ol", "menu", "dl", "table", "select", NULL};
    const char *name = reader->text + start->name;
    const int rank = rank_of(reader, start);
    struct html_reader before = *reader;
    struct html_token token;
    size_t depth = 0, same = 1, n_blocks = 0;
    const bool is_inline = !element_is_block(reader, start);

    *has_text = false;
    for (; html_next(reader, &token); before = *reader) {
        const bool is_same = token.n_name == start->n_name &&
                             strncasecmp(reader->text + token.name, name, token.n_name) == 0 &&
                             (token.type == HTML_START || token.type == HTML_END);

        if (token.type == HTML_TEXT || token.type == HTML_CDATA)
            *has_text = *has_text || !unicode_is_blank(reader->text + token.at, token.n);
        if (ends_before(reader, start, rank, &token, depth) ||
            (rank > 0 && depth == 0 && token.type == HTML_END &&
             is_among(reader, &token, containers))) {
            *reader = before;
            return false;
        }
        if (is_inline && token.n_name > 0 && element_is_block(reader, &token) &&
            !element_is_void(reader, &token)) {
            if (token.type == HTML_END && n_blocks == 0) { /* its own end tag was forgotten */
                *reader = before;
                return false;
            }
            n_blocks = token.type == HTML_START ? n_blocks + 1 : n_blocks - 1;
        }
        if (rank > 0 && is_among(reader, &token, containers) && token.n_name > 0 &&
            !element_is_void(reader, &token))
            depth = token.type == HTML_START ? depth + 1 : depth - 1;
        if (is_same && token.type == HTML_START && rank == 0 && !element_is_void(reader, &token))
            same++;
        if (is_same && token.type == HTML_END && depth == 0 && --same == 0)
            return true;
    }
    return false;
}

bool element_is_styling(const struct html_reader *reader, const struct html_token *token)
{
    static const char *const names[] = {"b",      "big",    "del", "em",  "font", "i",
                                        "ins",    "mark",   "rp",  "rt",  "s",    "small",
                                        "strike", "strong", "sub", "sup", "u",    NULL};

    return is_among(reader, token, names);
}

bool element_is_shown(const struct html_reader *reader, const struct html_token *token)
{
    static const char *const names[] = {"embed", "img", "input", NULL};

    return html_has_names(reader->syntax) && is_among(reader, token, names);
}
