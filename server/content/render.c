/* Sentences in the words of the translation, everything else as it was. Happy path: gaps and
 * sentences take turns; a sentence without marks in it is copied, one with marks goes through
 * place.c. Failure modes: no memory, a flag that is looked at when what was rendered is taken. */
#include "content/render.h"

#include <stdlib.h>
#include <string.h>
#include <unicode/uchar.h>

#include "common/error.h"
#include "common/unicode.h"
#include "content/place.h"
#include "content/trace.h"
#include "content/word.h"
#include "content/wrap.h"

struct render {
    const struct prose *prose;
    const struct acre_result *result; /* NULL: there is none, or sentences come one by one */
    const struct acre_hypothesis *hypothesis;
    size_t next;       /* of the result: the next sentence, */
    size_t next_token; /* and of its alignments the first */
    size_t at;         /* of the text: what is before was rendered */
    size_t mark;       /* the next one */
    size_t next_break; /* likewise */
    size_t line;       /* of `out`: where this line of the text, with its marks, begins */
    bool is_value;     /* of an attribute: quotes are escaped, too */
    bool is_behind;    /* a term, from which the next word must stand apart */
    bool has_word;     /* at the end of what was taken */
    char *out;
    size_t bytes, capacity;
    size_t n_taken;                   /* of the document: bytes before `out` */
    size_t sentence_at, sentence_end; /* of `out`: the last sentence */
    bool is_traced;
    struct trace trace; /* of the sentence at work */
    struct acre_alignment *alignments, *sentences;
    size_t n_alignments, alignments_capacity, n_sentences, sentences_capacity;
    bool no_memory;
};

/* ---- Writing --------------------------------------------------------------------------------- */

static void put(struct render *r, const char *text, size_t n)
{
    size_t wanted = r->capacity ? r->capacity : 256;
    char *more;

    while (wanted < r->bytes + n + 1)
        wanted *= 2;
    if (wanted > r->capacity) {
        more = realloc(r->out, wanted);
        if (!more) {
            r->no_memory = true;
            return;
        }
        r->out = more;
        r->capacity = wanted;
    }
    memcpy(r->out + r->bytes, text, n);
    r->bytes += n;
}

static const char *escape_of(const struct render *r, const char *at, size_t n, size_t *used)
{
    *used = 1;
    switch (*at) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return r->is_value ? "&quot;" : NULL;
    case '\'':
        return r->is_value ? "&#39;" : NULL;
    case '\xC2':
        *used = 2;
        return n > 1 && at[1] == '\xA0' ? "&nbsp;" : NULL;
    default:
        return NULL;
    }
}

static bool begins_with_word(const char *text, size_t n)
{
    size_t at = 0;

    return n > 0 && word_has(unicode_next(text, n, &at));
}

static bool ends_with_word(const char *text, size_t n)
{
    size_t last = n;

    while (last > 0 && ((unsigned char)text[--last] & 0xC0) == 0x80)
        continue;
    return begins_with_word(text + last, n - last);
}

/* A blank between a term and the word that is to follow. */
static void leave_term(struct render *r, const char *text, size_t n)
{
    if (r->is_behind && begins_with_word(text, n))
        put(r, " ", 1);
    r->is_behind = r->is_behind && n == 0;
}

/* Words, escaped where the document is markup. */
static void put_text(struct render *r, const char *text, size_t n)
{
    const char *escape;
    size_t used = 1, begin = 0;

    leave_term(r, text, n);
    for (size_t i = 0; i < n && r->prose->is_markup && !r->prose->is_plain; i += used) {
        escape = escape_of(r, text + i, n - i, &used);
        if (!escape) {
            used = 1;
            continue;
        }
        put(r, text + begin, i - begin);
        put(r, escape, strlen(escape));
        begin = i + used;
    }
    put(r, text + begin, n - begin);
}

/* Bytes of a translation. */
static void put_words(struct render *r, const char *text, size_t first, size_t n)
{
    struct trace_piece piece = {{first, n}, {0, n}, false};

    leave_term(r, text + first, n);
    piece.to.first = r->n_taken + r->bytes;
    if (r->is_traced && n > 0)
        trace_add(&r->trace, &piece);
    put_text(r, text + first, n);
}

/* The first sentence that begins at or behind a place of the text. */
static size_t sentence_from(const struct render *r, size_t at)
{
    size_t low = 0, high = r->result ? r->result->n_sentences : 0;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (r->result->sentences[middle].first < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void put_value(struct render *r, const struct prose_value *value)
{
    const char *text = r->prose->text;
    size_t at = value->at, i;

    r->is_value = true;
    for (i = sentence_from(r, at); r->result && i < r->result->n_sentences &&
                                   r->result->sentences[i].first < value->at + value->n;
         i++) {
        const struct acre_range *from = &r->result->sentences[i],
                                *to = &r->hypothesis->sentences[i];

        put_text(r, text + at, from->first - at);
        put_text(r, r->hypothesis->text + to->first, to->n_bytes);
        at = from->first + from->n_bytes;
    }
    put_text(r, text + at, value->at + value->n - at);
    r->is_value = false;
}

/* Bytes of the document, but for the values that were translated. */
static void put_raw(struct render *r, const struct prose_mark *mark)
{
    const struct prose *p = r->prose;
    const size_t end = (size_t)mark->raw + mark->n_raw;
    size_t at = mark->raw, low = 0, high = p->n_values;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (p->values[middle].raw < at)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < p->n_values && p->values[low].raw < end; low++) {
        put(r, p->document + at, p->values[low].raw - at);
        put_value(r, &p->values[low]);
        at = (size_t)p->values[low].raw + p->values[low].n_raw;
    }
    put(r, p->document + at, end - at);
}

/* ---- Terms ----------------------------------------------------------------------------------- */

static bool has_capital(const char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        const UChar32 c = (UChar32)unicode_next(text, n, &at);

        if (u_isUWhiteSpace(c))
            return false;
        if (u_isupper(c))
            return true;
    }
    return false;
}

/* A blank between the word that is before and a term. */
static void reach_term(struct render *r, const struct prose_mark *mark)
{
    const struct prose_term *term = &r->prose->terms[mark->partner];
    const bool is_after_word = r->bytes > 0 ? ends_with_word(r->out, r->bytes) : r->has_word;

    if (is_after_word && begins_with_word(term->target, term->bytes))
        put(r, " ", 1);
    r->is_behind = false;
}

/* As its dictionary has it. What is raised gets a capital, unless its first word has one somewhere.
 */
static void put_term(struct render *r, const struct prose_mark *mark, bool is_raised)
{
    const struct prose_term *term = &r->prose->terms[mark->partner];
    size_t rest = 0, n;
    char first[5];

    if (is_raised && !has_capital(term->target, term->bytes)) {
        n = unicode_encode(
            (uint32_t)u_toupper((UChar32)unicode_next(term->target, term->bytes, &rest)), first);
        put_text(r, first, n);
    }
    put_text(r, term->target + rest, term->bytes - rest);
    r->is_behind = ends_with_word(term->target, term->bytes);
}

/* ---- Between sentences ----------------------------------------------------------------------- */

static bool has_crlf(const struct prose *prose)
{
    const char *newline = memchr(prose->document, '\n', prose->document_bytes);

    return newline && newline > prose->document && newline[-1] == '\r';
}

/* Writes what was put from `begin` on again, with the document's ends of lines. */
static void put_crlf(struct render *r, size_t begin)
{
    const size_t n = r->bytes - begin;
    char *line = malloc(n + 1);
    size_t at = 0;

    if (!line) {
        r->no_memory = true;
        return;
    }
    memcpy(line, r->out + begin, n);
    r->bytes = begin;
    for (size_t i = 0; i < n; i++) {
        if (line[i] != '\n')
            continue;
        put(r, line + at, i - at);
        put(r, "\r", 1);
        at = i;
    }
    put(r, line + at, n - at);
    free(line);
}

/* A line of the text, which ends at `end`, gets as many lines as it had in the document. */
static void break_line(struct render *r, size_t end)
{
    const struct prose *p = r->prose;
    size_t begin = r->bytes, n = 0;

    for (; r->next_break < p->n_breaks && p->breaks[r->next_break] < end; r->next_break++)
        n++;
    while (begin > r->line && r->out[begin - 1] != '\n')
        begin--;
    if (n > 0 && !r->no_memory) {
        wrap_line(r->out + begin, r->bytes - begin, n);
        if (has_crlf(p))
            put_crlf(r, begin);
    }
    r->line = r->bytes;
}

/* In markup, ends of lines are only the text's. */
static void put_gap_text(struct render *r, size_t begin, size_t end)
{
    const char *text = r->prose->text, *newline;

    while (begin < end) {
        newline = r->prose->is_markup ? memchr(text + begin, '\n', end - begin) : NULL;
        put_text(r, text + begin, (newline ? (size_t)(newline - text) : end) - begin);
        if (newline && r->prose->n_breaks > 0)
            break_line(r, (size_t)(newline - text));
        begin = newline ? (size_t)(newline - text) + 1 : end;
    }
}

/* The text from `begin` to `end` as it is, with the marks before `end_mark`. */
static void put_gap(struct render *r, size_t begin, size_t end, size_t end_mark)
{
    for (; r->mark < end_mark; r->mark++) {
        const struct prose_mark *mark = &r->prose->marks[r->mark];

        if (mark->at > begin) {
            put_gap_text(r, begin, mark->at);
            begin = mark->at;
        }
        if (mark->kind == PROSE_TERM && begin + mark->n > end)
            continue; /* its sentence ends before it does */
        if (mark->kind == PROSE_TERM)
            reach_term(r, mark);
        if (mark->kind == PROSE_TERM)
            put_term(r, mark, r->prose->terms[mark->partner].is_raised);
        else
            put_raw(r, mark);
        begin += mark->n;
    }
    if (begin < end)
        put_gap_text(r, begin, end);
}

/* ---- Sentences ------------------------------------------------------------------------------- */

/* Whether a mark has its place within a sentence, and not at its edge. */
static bool begins_within(const struct render *r, size_t m, size_t begin, size_t end)
{
    const struct prose_mark *mark = &r->prose->marks[m];
    const size_t partner = r->prose->marks[mark->partner].at;

    if (mark->at > begin || mark->n > 0)
        return true;
    return mark->kind == PROSE_OPEN && partner > begin && partner < end;
}

static bool ends_within(const struct render *r, size_t m, size_t first, size_t end)
{
    const struct prose_mark *mark = &r->prose->marks[m];

    return mark->at < end || (mark->kind == PROSE_CLOSE && mark->partner >= first);
}

/* Those within the sentence: from *first to before *last; what is before *first is at its edge. */
static void find_marks(const struct render *r, struct acre_range sentence, size_t *first,
                       size_t *last)
{
    const size_t n = r->prose->n_marks, begin = sentence.first, end = begin + sentence.n_bytes;
    size_t m = r->mark;

    while (m < n && r->prose->marks[m].at < begin)
        m++;
    while (m < n && r->prose->marks[m].at <= end && !begins_within(r, m, begin, end))
        m++;
    *first = m;
    while (m < n && r->prose->marks[m].at <= end)
        m++;
    while (m > *first && !ends_within(r, m - 1, *first, end))
        m--;
    *last = m;
}

static void put_units_to(struct render *r, const struct place *p, size_t *unit, size_t *at,
                         size_t end)
{
    for (; *unit < p->n_units && p->units[*unit].end <= end; ++*unit) {
        const struct place_unit *u = &p->units[*unit];

        if (!u->is_dropped || u->begin < *at)
            continue;
        put_words(r, p->text, *at,
                  u->begin - *at - (u->begin > *at && p->text[u->begin - 1] == ' '));
        *at = u->end;
    }
    if (*at < end) {
        put_words(r, p->text, *at, end - *at);
        *at = end;
    }
}

/* Where a node begins in the target. */
static size_t begin_of(const struct place *p, const struct place_node *node)
{
    const struct place_node *outer = &p->nodes[node->parent];
    const size_t end = p->target.first + p->target.n_bytes;
    const bool is_left = node->is_left || (node->begin == outer->end && outer->begin < outer->end);

    if (is_left && node->begin > 0)
        return p->units[node->begin - 1].end;
    return node->begin < p->n_units ? p->units[node->begin].begin : end;
}

/* One step down or up in the tree. */
struct visit {
    uint32_t node;
    size_t next, end; /* of its children, in `order` */
};

/* Whether a term is the first word of the translation, and the sentence's or what it replaces had
 * a capital there. */
static bool begins_translation(const struct place *p, const struct place_node *node)
{
    const struct prose_mark *mark = &p->prose->marks[node->mark];
    size_t at;

    if (node->begin > 0 || (node->kind != PLACE_UNIT && p->n_units > 0))
        return false;
    at = node->kind == PLACE_UNIT ? p->units[0].begin : 0;
    return p->prose->terms[mark->partner].is_raised ||
           (node->kind == PLACE_UNIT &&
            u_isupper((UChar32)unicode_next(p->text, p->units[0].end, &at)));
}

static void open_node(struct render *r, const struct place *p, const struct place_node *node,
                      size_t *unit, size_t *at)
{
    const struct prose_mark *mark = &p->prose->marks[node->mark];
    size_t begin;

    put_units_to(r, p, unit, at, begin_of(p, node));
    if (mark->kind == PROSE_TERM)
        reach_term(r, mark);
    begin = r->bytes;
    if (mark->kind == PROSE_TERM)
        put_term(r, mark, begins_translation(p, node));
    else if (node->kind != PLACE_ELEMENT || node->has_open)
        put_raw(r, mark);
    if (r->is_traced && node->kind == PLACE_UNIT) {
        const size_t from = p->units[node->begin].begin, end = p->units[node->end - 1].end;
        const struct trace_piece piece = {
            {from, end - from}, {r->n_taken + begin, r->bytes - begin}, true};

        trace_add(&r->trace, &piece);
    }
    if (node->kind == PLACE_UNIT)
        *at = p->units[node->end - 1].end;
}

static void close_node(struct render *r, const struct place *p, const struct place_node *node,
                       size_t *unit, size_t *at)
{
    if (node->end > node->begin)
        put_units_to(r, p, unit, at, p->units[node->end - 1].end);
    if (node->close != UINT32_MAX)
        put_raw(r, &p->prose->marks[node->close]);
}

static void put_tree(struct render *r, const struct place *p)
{
    struct visit *stack = malloc(p->n_nodes * sizeof(*stack));
    size_t depth = 0, n, unit = 0, at = p->target.first;

    if (!stack) {
        r->no_memory = true;
        return;
    }
    stack[depth].node = 0;
    stack[depth].next = place_children(p, 0, &n);
    stack[depth].end = stack[depth].next + n;
    for (depth = 1; depth > 0;) {
        struct visit *top = &stack[depth - 1];
        uint32_t child;

        if (top->next == top->end) {
            if (top->node > 0)
                close_node(r, p, &p->nodes[top->node], &unit, &at);
            depth--;
            continue;
        }
        child = p->order[top->next++];
        open_node(r, p, &p->nodes[child], &unit, &at);
        if (p->nodes[child].kind != PLACE_ELEMENT)
            continue;
        stack[depth].node = child;
        stack[depth].next = place_children(p, child, &n);
        stack[depth].end = stack[depth].next + n;
        depth++;
    }
    put_units_to(r, p, &unit, &at, p->target.first + p->target.n_bytes);
    free(stack);
}

static void put_placed(struct render *r, const struct render_sentence *sentence, size_t first,
                       size_t last)
{
    struct place place = {
        .prose = r->prose,
        .first_mark = first,
        .end_mark = last,
        .source = sentence->source,
        .target = sentence->target,
        .text = sentence->text,
        .alignments = sentence->alignments,
        .n_alignments = sentence->n_alignments,
    };

    if (place_marks(&place))
        put_tree(r, &place);
    else
        r->no_memory = true;
    place_fini(&place);
}

/* Whether a sentence has words that are no masks and no terms. */
static bool has_words(const struct render *r, struct acre_range sentence, size_t first, size_t last)
{
    const size_t end = sentence.first + sentence.n_bytes;
    UChar32 c;

    for (size_t at = sentence.first; at < end;) {
        while (first < last && (r->prose->marks[first].at < at || r->prose->marks[first].n == 0))
            first++;
        if (first < last && r->prose->marks[first].at == at) {
            at += r->prose->marks[first++].n;
            continue;
        }
        c = (UChar32)unicode_next(r->prose->text, end, &at);
        if (u_isalnum(c))
            return true;
    }
    return false;
}

static void put_sentence(struct render *r, const struct render_sentence *sentence)
{
    const struct acre_range from = sentence->source, to = sentence->target;
    size_t first, last;

    find_marks(r, from, &first, &last);
    put_gap(r, from.first, from.first, first);
    r->sentence_at = r->bytes;
    if (to.n_bytes == 0 || !has_words(r, from, first, last)) { /* nothing is lost */
        put_gap(r, from.first, from.first + from.n_bytes, last);
    } else if (first == last) {
        put_words(r, sentence->text, to.first, to.n_bytes);
    } else {
        put_placed(r, sentence, first, last);
        r->mark = last;
    }
    r->sentence_end = r->bytes;
}

/* ---- Tracing --------------------------------------------------------------------------------- */

static void note(struct render *r, struct acre_alignment **list, size_t *n, size_t *capacity,
                 struct acre_alignment item)
{
    const size_t wanted = *capacity ? *capacity * 2 : 64;
    struct acre_alignment *more;

    if (*n == *capacity) {
        more = realloc(*list, wanted * sizeof(*more));
        if (!more) {
            r->no_memory = true;
            return;
        }
        *list = more;
        *capacity = wanted;
    }
    (*list)[(*n)++] = item;
}

/* The sentence and its tokens, those without a text of their own left out. */
static void note_sentence(struct render *r, const struct render_sentence *sentence)
{
    struct acre_alignment item = {
        .source = prose_in_document(r->prose, sentence->source),
        .target = {r->n_taken + r->sentence_at, r->sentence_end - r->sentence_at}};

    note(r, &r->sentences, &r->n_sentences, &r->sentences_capacity, item);
    for (size_t t = 0; t < sentence->n_alignments && !r->no_memory; t++) {
        const struct acre_alignment *from = &sentence->alignments[t];

        if (from->target.n_bytes == 0 || !trace_find(&r->trace, from->target, &item.target))
            continue;
        item.source = prose_in_document(r->prose, from->source);
        note(r, &r->alignments, &r->n_alignments, &r->alignments_capacity, item);
    }
    r->no_memory = r->no_memory || r->trace.no_memory;
    r->trace.n_pieces = 0;
}

/* ---- The document ---------------------------------------------------------------------------- */

int render_open(const struct prose *prose, const struct acre_result *result, size_t hypothesis,
                bool is_traced, struct render **render, struct acre_err *err)
{
    struct render *r = calloc(1, sizeof(*r));

    if (!r)
        return error_set(err, ACRE_ENOMEM, "out of memory");
    r->prose = prose;
    r->result = result;
    r->hypothesis = result ? &result->hypotheses[hypothesis] : NULL;
    r->is_traced = is_traced;
    *render = r;
    return 0;
}

void render_close(struct render *r)
{
    if (!r)
        return;
    free(r->out);
    free(r->alignments);
    free(r->sentences);
    trace_fini(&r->trace);
    free(r);
}

void render_sentence(struct render *r, const struct render_sentence *sentence)
{
    const struct prose *p = r->prose;
    const size_t first = sentence->source.first;
    size_t end_mark = r->mark;

    while (end_mark < p->n_marks && p->marks[end_mark].at < first)
        end_mark++;
    put_gap(r, r->at, first, end_mark);
    put_sentence(r, sentence);
    if (r->is_traced)
        note_sentence(r, sentence);
    r->at = first + sentence->source.n_bytes;
}

void render_rest(struct render *r)
{
    put_gap(r, r->at, r->prose->body_bytes, r->prose->n_marks);
    r->at = r->prose->body_bytes;
}

bool render_next(struct render *r)
{
    const struct acre_hypothesis *h = r->hypothesis;
    const size_t i = r->next;

    if (!r->result || i == r->result->n_sentences ||
        r->result->sentences[i].first >= r->prose->body_bytes) {
        render_rest(r);
        return false;
    }
    render_sentence(r, &(struct render_sentence){.source = r->result->sentences[i],
                                                 .target = h->sentences[i],
                                                 .text = h->text,
                                                 .alignments = h->alignments + r->next_token,
                                                 .n_alignments = h->parts[i].n_tokens});
    r->next_token += h->parts[i].n_tokens;
    r->next++;
    return true;
}

int render_take(struct render *r, struct render_part *part, struct acre_err *err)
{
    put(r, "", 0); /* an empty document has an end, too */
    if (r->no_memory || !r->out)
        return error_set(err, ACRE_ENOMEM, "out of memory");
    r->out[r->bytes] = '\0';
    if (r->bytes > 0)
        r->has_word = ends_with_word(r->out, r->bytes);
    *part = (struct render_part){.text = r->out,
                                 .bytes = r->bytes,
                                 .sentence_at = r->sentence_at,
                                 .sentence_end = r->sentence_end,
                                 .alignments = r->alignments,
                                 .n_alignments = r->n_alignments,
                                 .sentences = r->sentences,
                                 .n_sentences = r->n_sentences};
    r->n_taken += r->bytes;
    r->out = NULL;
    r->alignments = r->sentences = NULL;
    r->bytes = r->capacity = r->line = r->sentence_at = r->sentence_end = 0;
    r->n_alignments = r->alignments_capacity = r->n_sentences = r->sentences_capacity = 0;
    return 0;
}
