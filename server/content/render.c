/* Sentences in the words of the translation, everything else as it was. Happy path: gaps and
 * sentences take turns; a sentence without marks in it is copied, one with marks goes through
 * place.c and place_write.c. Failure modes: no memory, a flag that is looked at when what was
 * rendered is taken. */
#include "content/render.h"

#include <stdlib.h>
#include <string.h>
#include <unicode/uchar.h>

#include "common/error.h"
#include "common/grow.h"
#include "common/unicode.h"
#include "content/place_write.h"

struct render {
    struct writer writer;
    size_t next;                      /* of the result: the next sentence, */
    size_t next_token;                /* and of its alignments the first */
    size_t at;                        /* of the text: what is before was rendered */
    size_t mark;                      /* the next one */
    size_t sentence_at, sentence_end; /* of what is written: the last sentence */
    struct acre_alignment *alignments, *sentences;
    size_t n_alignments, alignments_capacity, n_sentences, sentences_capacity;
};

/* ---- Between sentences ----------------------------------------------------------------------- */

static size_t begin_of(const struct prose_mark *mark)
{
    return prose_mask(mark).first;
}

/* In markup, ends of lines are only the text's. */
static void put_gap_text(struct render *r, size_t begin, size_t end)
{
    const char *text = r->writer.prose->text, *newline;

    while (begin < end) {
        newline = r->writer.prose->is_markup ? memchr(text + begin, '\n', end - begin) : NULL;
        writer_text(&r->writer, text + begin, (newline ? (size_t)(newline - text) : end) - begin);
        if (newline && r->writer.prose->n_breaks > 0)
            writer_break_line(&r->writer, (size_t)(newline - text));
        begin = newline ? (size_t)(newline - text) + 1 : end;
    }
}

/* Blanks that set a mask apart are its own, also where a sentence ends at them. */
static void trim_glue(const struct render *r, size_t *begin, size_t *end, size_t end_mark)
{
    const struct prose *p = r->writer.prose;
    const struct prose_mark *last = r->mark > 0 ? &p->marks[r->mark - 1] : NULL;

    if (last && last->kind == PROSE_MASK && last->at < *begin && *begin < last->at + last->n)
        *begin = last->at + last->n;
    if (end_mark < p->n_marks && p->marks[end_mark].kind == PROSE_MASK &&
        p->marks[end_mark].at < *end)
        *end = p->marks[end_mark].at;
}

/* Whether a sentence that ends at `end` ends within a term: then it has none there. */
static bool is_cut_off(const struct prose_mark *mark, size_t end)
{
    return mark->kind == PROSE_TERM && mark->at + mark->n > end;
}

/* The text from `begin` to `end` as it is, with the marks before `end_mark`. */
static void put_gap(struct render *r, size_t begin, size_t end, size_t end_mark)
{
    trim_glue(r, &begin, &end, end_mark);
    for (; r->mark < end_mark; r->mark++) {
        const struct prose_mark *mark = &r->writer.prose->marks[r->mark];

        if (mark->at > begin) {
            put_gap_text(r, begin, mark->at);
            begin = mark->at;
        }
        if (is_cut_off(mark, end))
            continue;
        if (mark->kind == PROSE_TERM)
            writer_reach_term(&r->writer, mark);
        if (mark->kind == PROSE_TERM)
            writer_term(&r->writer, mark, r->writer.prose->terms[mark->partner].is_raised);
        else
            writer_raw(&r->writer, mark);
        if (begin < mark->at + mark->n)
            begin = mark->at + mark->n;
    }
    if (begin < end)
        put_gap_text(r, begin, end);
}

/* ---- Sentences ------------------------------------------------------------------------------- */

/* Whether a mark has its place within a sentence, and not at its edge. */
static bool begins_within(const struct render *r, size_t m, size_t begin, size_t end)
{
    const struct prose_mark *mark = &r->writer.prose->marks[m];
    const size_t partner = r->writer.prose->marks[mark->partner].at;

    if (mark->at > begin || mark->n > 0)
        return true;
    return mark->kind == PROSE_OPEN && partner > begin && partner < end;
}

static bool ends_within(const struct render *r, size_t m, size_t first, size_t end)
{
    const struct prose_mark *mark = &r->writer.prose->marks[m];

    return mark->at < end || (mark->kind == PROSE_CLOSE && mark->partner >= first);
}

/* Those within the sentence: from *first to before *last; what is before *first is at its edge. */
static void find_marks(const struct render *r, struct acre_range sentence, size_t *first,
                       size_t *last)
{
    const size_t n = r->writer.prose->n_marks, begin = sentence.first,
                 end = begin + sentence.n_bytes;
    size_t m = r->mark;

    while (m < n && begin_of(&r->writer.prose->marks[m]) < begin)
        m++;
    while (m < n && r->writer.prose->marks[m].at <= end && !begins_within(r, m, begin, end))
        m++;
    *first = m;
    while (m < n && r->writer.prose->marks[m].at <= end)
        m++;
    while (m > *first && !ends_within(r, m - 1, *first, end))
        m--;
    *last = m;
}

static void put_placed(struct render *r, const struct render_sentence *sentence, size_t first,
                       size_t last)
{
    struct place place = {
        .source = {r->writer.prose, sentence->source, first, last},
        .units = {.text = sentence->text,
                  .range = sentence->target,
                  .mask = r->writer.prose->mask,
                  .alignments = sentence->alignments,
                  .n_alignments = sentence->n_alignments},
    };

    if (place_marks(&place))
        place_write(&r->writer, &place);
    else
        r->writer.no_memory = true;
    place_fini(&place);
}

/* Whether a sentence has words that are no masks and no terms. */
static bool has_words(const struct render *r, struct acre_range sentence, size_t first, size_t last)
{
    const size_t end = sentence.first + sentence.n_bytes;
    UChar32 c;

    for (size_t at = sentence.first; at < end;) {
        const struct prose_mark *mark = first < last ? &r->writer.prose->marks[first] : NULL;

        if (mark && (begin_of(mark) < at || mark->n == 0 || is_cut_off(mark, end))) {
            first++;
            continue;
        }
        if (mark && begin_of(mark) == at) {
            at = mark->at + mark->n;
            first++;
            continue;
        }
        c = (UChar32)unicode_next(r->writer.prose->text, end, &at);
        if (u_isalnum(c))
            return true;
    }
    return false;
}

/* The marks at the edge of a sentence, and the space before it: outside the elements that end and
 * those that begin there. */
static void put_edge(struct render *r, const struct render_sentence *sentence, size_t end_mark)
{
    const size_t at = sentence->source.first;
    size_t m = r->mark;

    while (m < end_mark && r->writer.prose->marks[m].kind == PROSE_CLOSE)
        m++;
    put_gap(r, at, at, m);
    if (sentence->is_apart)
        writer_text(&r->writer, " ", 1);
    put_gap(r, at, at, end_mark);
}

static void put_sentence(struct render *r, const struct render_sentence *sentence)
{
    const struct acre_range from = sentence->source, to = sentence->target;
    size_t first, last;

    find_marks(r, from, &first, &last);
    put_edge(r, sentence, first);
    r->sentence_at = r->writer.bytes;
    if (to.n_bytes == 0 || !has_words(r, from, first, last)) { /* nothing is lost */
        put_gap(r, from.first, from.first + from.n_bytes, last);
    } else if (first == last) {
        writer_words(&r->writer, sentence->text, to.first, to.n_bytes);
    } else {
        put_placed(r, sentence, first, last);
        r->mark = last;
    }
    r->sentence_end = r->writer.bytes;
}

/* ---- Tracing --------------------------------------------------------------------------------- */

static void note(struct render *r, struct acre_alignment **list, size_t *n, size_t *capacity,
                 struct acre_alignment item)
{
    if (grow(list, sizeof(**list), *n + 1, capacity))
        (*list)[(*n)++] = item;
    else
        r->writer.no_memory = true;
}

/* The sentence and its tokens, those without a text of their own left out. */
static void note_sentence(struct render *r, const struct render_sentence *sentence)
{
    struct acre_alignment item = {
        .source = prose_in_document(r->writer.prose, sentence->source),
        .target = {r->writer.n_taken + r->sentence_at, r->sentence_end - r->sentence_at}};

    note(r, &r->sentences, &r->n_sentences, &r->sentences_capacity, item);
    for (size_t t = 0; t < sentence->n_alignments && !r->writer.no_memory; t++) {
        const struct acre_alignment *from = &sentence->alignments[t];

        if (from->target.n_bytes == 0 || !trace_find(&r->writer.trace, from->target, &item.target))
            continue;
        item.source = prose_in_document(r->writer.prose, from->source);
        note(r, &r->alignments, &r->n_alignments, &r->alignments_capacity, item);
    }
    r->writer.no_memory = r->writer.no_memory || r->writer.trace.no_memory;
    r->writer.trace.n_pieces = 0;
}

/* ---- The document ---------------------------------------------------------------------------- */

int render_open(const struct prose *prose, const struct acre_result *result, size_t hypothesis,
                bool is_traced, struct render **render, struct acre_err *err)
{
    struct render *r = calloc(1, sizeof(*r));

    if (!r)
        return error_set_no_memory(err);
    r->writer.prose = prose;
    r->writer.result = result;
    r->writer.hypothesis = result ? &result->hypotheses[hypothesis] : NULL;
    r->writer.is_traced = is_traced;
    r->writer.is_plain = !prose->is_markup || prose->is_plain;
    *render = r;
    return 0;
}

void render_close(struct render *r)
{
    if (!r)
        return;
    writer_fini(&r->writer);
    free(r->alignments);
    free(r->sentences);
    free(r);
}

void render_sentence(struct render *r, const struct render_sentence *sentence)
{
    const struct prose *p = r->writer.prose;
    const size_t first = sentence->source.first;
    size_t end_mark = r->mark;

    while (end_mark < p->n_marks && begin_of(&p->marks[end_mark]) < first)
        end_mark++;
    put_gap(r, r->at, first, end_mark);
    put_sentence(r, sentence);
    if (r->writer.is_traced)
        note_sentence(r, sentence);
    r->at = first + sentence->source.n_bytes;
}

void render_rest(struct render *r)
{
    put_gap(r, r->at, r->writer.prose->body_bytes, r->writer.prose->n_marks);
    r->at = r->writer.prose->body_bytes;
}

bool render_next(struct render *r)
{
    const struct acre_hypothesis *h = r->writer.hypothesis;
    const size_t i = r->next;

    if (!r->writer.result || i == r->writer.result->n_sentences ||
        r->writer.result->sentences[i].first >= r->writer.prose->body_bytes) {
        render_rest(r);
        return false;
    }
    render_sentence(r, &(struct render_sentence){.source = r->writer.result->sentences[i],
                                                 .target = h->sentences[i],
                                                 .text = h->text,
                                                 .alignments = h->alignments + r->next_token,
                                                 .n_alignments = h->parts[i].n_tokens,
                                                 .is_apart = h->parts[i].is_apart});
    r->next_token += h->parts[i].n_tokens;
    r->next++;
    return true;
}

int render_take(struct render *r, struct render_part *part, struct acre_err *err)
{
    const size_t bytes = r->writer.bytes;
    char *text = writer_take(&r->writer);

    if (!text)
        return error_set_no_memory(err);
    *part = (struct render_part){.text = text,
                                 .bytes = bytes,
                                 .sentence_at = r->sentence_at,
                                 .sentence_end = r->sentence_end,
                                 .alignments = r->alignments,
                                 .n_alignments = r->n_alignments,
                                 .sentences = r->sentences,
                                 .n_sentences = r->n_sentences};
    r->alignments = r->sentences = NULL;
    r->sentence_at = r->sentence_end = 0;
    r->n_alignments = r->alignments_capacity = r->n_sentences = r->sentences_capacity = 0;
    return 0;
}
