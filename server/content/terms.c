/* Happy path: cut() makes pieces of the text -> search() has each dictionary tell the longest term
 * that begins at each piece, from the last piece to the first -> choose() goes forwards and takes
 * those that do not overlap -> merge() puts marks for them between those that are there.
 *
 * Failure modes: no memory. */
#include "content/terms.h"

#include <stdlib.h>
#include <string.h>
#include <unicode/uchar.h>

#include "common/error.h"
#include "common/grow.h"
#include "common/unicode.h"
#include "content/segment.h"

enum { MAX_BLANK_BYTES = 16 }; /* a longer one is in no term: so terms are short in texts, too */

struct piece {
    struct segment segment;
    bool is_apart;    /* a mark is before it */
    bool is_none;     /* in no term */
    bool is_raised;   /* of the term that begins here: its first letter is a capital only here */
    uint8_t of;       /* dictionary */
    uint32_t entry;   /* the longest term that begins here, or DICTIONARY_NONE */
    uint32_t n_words; /* pieces of it */
};

struct search {
    struct prose *prose;
    const char *text;
    size_t bytes;
    struct piece *pieces; /* owned */
    size_t n_pieces, capacity;
    struct prose_term *terms; /* owned until they are the prose's */
    struct prose_mark *found; /* owned: a mark for each */
    size_t n_terms;
};

/* ---- Pieces ---------------------------------------------------------------------------------- */

static bool add_piece(struct search *s, struct segment segment)
{
    if (!grow(&s->pieces, sizeof(s->pieces[0]), s->n_pieces + 1, &s->capacity))
        return false;
    s->pieces[s->n_pieces++] =
        (struct piece){.segment = segment,
                       .is_none = segment.kind == SEGMENT_BREAK ||
                                  (segment.kind == SEGMENT_BLANK &&
                                   segment.end - segment.begin > MAX_BLANK_BYTES)};
    return true;
}

/* Of the marks before the end of a piece; *mark is the first that may be at it or in it. */
static void see_marks(const struct search *s, struct piece *piece, size_t *mark)
{
    const struct prose *p = s->prose;

    for (; *mark < p->n_marks && p->marks[*mark].at < piece->segment.end; ++*mark) {
        const struct prose_mark *m = &p->marks[*mark];

        if (m->at <= piece->segment.begin)
            piece->is_apart = true;
        else
            piece->is_none = true;
        if (m->at + m->n > piece->segment.begin)
            piece->is_none = true;
        if (m->at + m->n > piece->segment.end)
            return; /* the next piece is in it, too */
    }
}

static bool cut(struct search *s)
{
    size_t mark = 0;

    for (size_t at = 0; at < s->bytes;) {
        if (!add_piece(s, segment_next(s->text, s->bytes, &at)))
            return false;
        see_marks(s, &s->pieces[s->n_pieces - 1], &mark);
    }
    return true;
}

/* Whether a sentence may begin with this piece, as far as it shows. */
static bool begins_sentence(const struct search *s, size_t i)
{
    while (i-- > 0) {
        const struct segment *segment = &s->pieces[i].segment;

        if (segment->kind == SEGMENT_WORD)
            return false;
        if (segment->kind == SEGMENT_BREAK || strchr(".!?:", s->text[segment->begin]))
            return true;
    }
    return true;
}

/* ---- Searching ------------------------------------------------------------------------------- */

static void keep_longest(struct piece *piece, const struct dictionary *dictionary, uint32_t state,
                         size_t of, bool is_raised)
{
    uint32_t n_words;
    const uint32_t entry = dictionary_longest(dictionary, state, &n_words);

    if (n_words <= piece->n_words)
        return;
    piece->entry = entry;
    piece->n_words = n_words;
    piece->of = (uint8_t)of;
    piece->is_raised = is_raised;
}

/* The number of a word that would be there if its sentence did not begin with it. */
static uint32_t lowered(const struct search *s, const struct dictionary *dictionary, size_t i)
{
    const struct segment *segment = &s->pieces[i].segment;
    char lower[DICTIONARY_TERM_BYTES + 8], utf8[5];
    size_t after = segment->begin, n;
    UChar32 c;

    if (segment->kind != SEGMENT_WORD || segment->end - segment->begin > DICTIONARY_TERM_BYTES)
        return DICTIONARY_NONE;
    c = (UChar32)unicode_next(s->text, segment->end, &after);
    if (u_tolower(c) == c || !begins_sentence(s, i))
        return DICTIONARY_NONE;
    n = unicode_encode((uint32_t)u_tolower(c), utf8);
    memcpy(lower, utf8, n);
    memcpy(lower + n, s->text + after, segment->end - after);
    return dictionary_word(dictionary, lower, n + segment->end - after, false);
}

static void search(struct search *s, const struct dictionary *dictionary, size_t of)
{
    uint32_t state = 0, number;

    for (size_t i = s->n_pieces; i-- > 0;) {
        struct piece *piece = &s->pieces[i];

        if (piece->is_none || (i + 1 < s->n_pieces && s->pieces[i + 1].is_apart))
            state = 0;
        if (piece->is_none)
            continue;
        number = lowered(s, dictionary, i);
        if (number != DICTIONARY_NONE)
            keep_longest(piece, dictionary, dictionary_peek(dictionary, state, number), of, true);
        number = dictionary_word(dictionary, s->text + piece->segment.begin,
                                 piece->segment.end - piece->segment.begin,
                                 piece->segment.kind == SEGMENT_BLANK);
        state = dictionary_step(dictionary, state, number);
        keep_longest(piece, dictionary, state, of, false);
    }
}

/* ---- Marks ----------------------------------------------------------------------------------- */

static size_t next_term(const struct search *s, size_t i)
{
    while (i < s->n_pieces && s->pieces[i].entry == DICTIONARY_NONE)
        i++;
    return i;
}

/* Where the words of a term stand in the document, if that is text. */
static void find_raw(const struct search *s, struct prose_mark *mark)
{
    const struct acre_range in_text = {mark->at, mark->n};
    struct acre_range raw = in_text;

    if (s->prose->is_markup)
        return;
    if (s->prose->n_marks > 0)
        raw = prose_in_document(s->prose, in_text);
    mark->raw = (uint32_t)raw.first;
    mark->n_raw = (uint32_t)raw.n_bytes;
}

/* Those that stay, from the first one on. */
static bool choose(struct search *s, struct dictionary *const *dictionaries)
{
    size_t n = 0;

    for (size_t i = next_term(s, 0); i < s->n_pieces; i = next_term(s, i + s->pieces[i].n_words))
        n++;
    if (n == 0)
        return true;
    s->terms = malloc(n * sizeof(s->terms[0]));
    s->found = calloc(n, sizeof(s->found[0]));
    if (!s->terms || !s->found)
        return false;
    for (size_t i = next_term(s, 0); i < s->n_pieces;) {
        const struct piece *first = &s->pieces[i], *last = first + first->n_words - 1;
        const struct dictionary_entry entry =
            dictionary_entry(dictionaries[first->of], first->entry);

        s->found[s->n_terms] = (struct prose_mark){
            .at = first->segment.begin,
            .n = (uint16_t)(last->segment.end - first->segment.begin),
            .partner = (uint32_t)s->n_terms,
            .kind = PROSE_TERM,
        };
        find_raw(s, &s->found[s->n_terms]);
        s->terms[s->n_terms++] = (struct prose_term){
            .target = entry.target, .bytes = entry.target_bytes, .is_raised = first->is_raised};
        s->prose->terms_bytes += entry.target_bytes;
        i = next_term(s, i + first->n_words);
    }
    return true;
}

/* Behind the marks that are at the same place; partners are found by their new numbers. */
static bool merge(struct search *s)
{
    struct prose *p = s->prose;
    const size_t n = p->n_marks + s->n_terms;
    struct prose_mark *marks = malloc(n * sizeof(marks[0]));
    uint32_t *numbers = malloc((p->n_marks + 1) * sizeof(numbers[0]));
    size_t old = 0, term = 0;

    if (!marks || !numbers) {
        free(marks);
        free(numbers);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (term == s->n_terms || (old < p->n_marks && p->marks[old].at <= s->found[term].at)) {
            numbers[old] = (uint32_t)i;
            marks[i] = p->marks[old++];
        } else {
            marks[i] = s->found[term++];
        }
    }
    for (size_t i = 0; i < n; i++)
        if (marks[i].kind != PROSE_TERM)
            marks[i].partner = numbers[marks[i].partner];
    free(numbers);
    free(p->marks);
    p->marks = marks;
    p->n_marks = p->marks_capacity = n;
    return true;
}

/* The prose of a text without marks has no text of its own before. */
static bool put_marks(struct search *s)
{
    struct prose *p = s->prose;

    if (s->n_terms == 0)
        return true;
    if (s->text == p->document) {
        prose_add_text(p, p->document, p->document_bytes);
        p->body_bytes = p->text_bytes;
    }
    if (p->no_memory || !merge(s))
        return false;
    p->terms = s->terms;
    s->terms = NULL;
    return true;
}

int terms_mark(struct prose *prose, struct dictionary *const *dictionaries, size_t n_dictionaries,
               struct acre_err *err)
{
    struct search s = {.prose = prose, .text = prose->text, .bytes = prose->body_bytes};
    bool is_done;

    if (!prose->is_markup && prose->n_marks == 0) {
        s.text = prose->document;
        s.bytes = prose->document_bytes;
    }
    is_done = cut(&s);
    for (size_t i = 0; i < n_dictionaries && is_done; i++)
        search(&s, dictionaries[i], i);
    is_done = is_done && choose(&s, dictionaries) && put_marks(&s);
    free(s.pieces);
    free(s.found);
    free(s.terms);
    return is_done ? 0 : error_set_no_memory(err);
}
