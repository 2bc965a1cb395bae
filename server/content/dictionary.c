/* Happy path: dictionary_add() appends lines to one text -> dictionary_seal() makes of each term a
 * path of states, from its last word to its first, and then, by length of the paths, tells each
 * state which shorter one it falls back to, and which is the longest term that ends it.
 *
 * Words and states are numbered; tables find their numbers by hashes that start from a random seed,
 * so that nobody can choose terms that are slow to find. Failure modes: no memory. */
#include "content/dictionary.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/error.h"
#include "common/grow.h"
#include "common/hash.h"
#include "common/unicode.h"
#include "content/segment.h"

struct line {
    uint32_t source, source_bytes, target_bytes; /* in the text; the target is behind a tab */
    uint32_t n_words;
};

struct name {
    uint32_t at, bytes; /* in the text */
};

struct state {
    uint32_t parent, word; /* whom it continues, and with what */
    uint32_t fallback;     /* the longest other state that is an end of this one */
    uint32_t entry; /* of the longest term that is an end of it, in reading order a beginning */
    uint32_t depth; /* words */
};

/* Numbers by hash, 0: free. At most half are taken. */
struct table {
    uint32_t *slots; /* owned */
    size_t n_slots;  /* a power of 2 */
};

struct dictionary {
    size_t n_references, max_bytes;
    uint64_t seed[2];
    char *text; /* owned */
    size_t text_bytes, text_capacity;
    struct line *lines; /* owned; entry i is lines[i - 1] */
    size_t n_lines, lines_capacity;
    struct name *words; /* owned; word 1 is the blank, words[0] is nothing */
    size_t n_words, words_capacity;
    struct state *states; /* owned; states[0] has read nothing */
    size_t n_states, states_capacity;
    struct table word_table, state_table;
};

enum { BLANK = 1 };

enum { PEEKS = 16 }; /* terms of a language have ends in common, but not so many */

struct dictionary *dictionary_open(size_t max_bytes)
{
    struct dictionary *d = calloc(1, sizeof(*d));

    if (d && getrandom(d->seed, sizeof(d->seed), 0) != sizeof(d->seed)) {
        free(d); /* nobody may know which terms are slow to find */
        return NULL;
    }
    if (!d)
        return NULL;
    d->n_references = 1;
    d->max_bytes = max_bytes;
    return d;
}

void dictionary_hold(struct dictionary *d)
{
    d->n_references++;
}

void dictionary_drop(struct dictionary *d)
{
    if (!d || --d->n_references > 0)
        return;
    free(d->text);
    free(d->lines);
    free(d->words);
    free(d->states);
    free(d->word_table.slots);
    free(d->state_table.slots);
    free(d);
}

/* ---- Entries --------------------------------------------------------------------------------- */

/* A byte order mark is no part of a term, either: it would be lost where a file begins with it. */
static size_t blank_bytes(const char *text, size_t bytes)
{
    const size_t n = unicode_mark_bytes(text, bytes);

    return n > 0 ? n : bytes > 0 && unicode_is_blank(text, 1);
}

static void trim(const char **text, size_t *bytes)
{
    size_t n;

    while ((n = blank_bytes(*text, *bytes)) > 0) {
        *text += n;
        *bytes -= n;
    }
    while (*bytes > 0 && unicode_is_blank(*text + *bytes - 1, 1))
        --*bytes;
}

/* C0 and C1 controls, and the ends of lines and paragraphs of Unicode. */
static bool has_control(const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        const uint32_t c = unicode_next(text, bytes, &at);

        if (c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029)
            return true;
    }
    return false;
}

static int check_term(const struct dictionary *d, const char *side, const char *text, size_t bytes,
                      struct acre_err *err)
{
    const size_t number = d->n_lines + 1;

    if (unicode_is_blank(text, bytes))
        return error_set(err, ACRE_EINPUT, "entry %zu: expected a %s term, found none", number,
                         side);
    if (bytes > DICTIONARY_TERM_BYTES)
        return error_set(err, ACRE_EINPUT,
                         "entry %zu: expected a %s term of at most %d bytes, found %zu", number,
                         side, DICTIONARY_TERM_BYTES, bytes);
    if (has_control(text, bytes))
        return error_set(err, ACRE_EINPUT,
                         "entry %zu: expected a %s term without control characters, found one",
                         number, side);
    return 0;
}

int dictionary_add(struct dictionary *d, const char *source, size_t source_bytes,
                   const char *target, size_t target_bytes, struct acre_err *err)
{
    char *at;

    trim(&source, &source_bytes);
    trim(&target, &target_bytes);
    if (check_term(d, "source", source, source_bytes, err) != 0 ||
        check_term(d, "target", target, target_bytes, err) != 0)
        return ACRE_EINPUT;
    if (d->text_bytes + source_bytes + target_bytes > d->max_bytes)
        return error_set(err, ACRE_ETOOLARGE, "expected entries of at most %zu bytes, found more",
                         d->max_bytes);
    if (!grow(&d->text, 1, d->text_bytes + source_bytes + target_bytes + 2, &d->text_capacity) ||
        !grow(&d->lines, sizeof(d->lines[0]), d->n_lines + 1, &d->lines_capacity))
        return error_set_no_memory(err);
    d->lines[d->n_lines++] = (struct line){.source = (uint32_t)d->text_bytes,
                                           .source_bytes = (uint32_t)source_bytes,
                                           .target_bytes = (uint32_t)target_bytes};
    at = d->text + d->text_bytes;
    memcpy(at, source, source_bytes);
    at[source_bytes] = '\t';
    memcpy(at + source_bytes + 1, target, target_bytes);
    at[source_bytes + 1 + target_bytes] = '\n';
    d->text_bytes += source_bytes + target_bytes + 2;
    return 0;
}

size_t dictionary_entries(const struct dictionary *d)
{
    return d->n_lines;
}

const char *dictionary_text(const struct dictionary *d, size_t *bytes)
{
    *bytes = d->text_bytes - 1;
    return d->text;
}

struct dictionary_entry dictionary_entry(const struct dictionary *d, uint32_t entry)
{
    const struct line *line = &d->lines[entry - 1];

    return (struct dictionary_entry){
        .source = d->text + line->source,
        .target = d->text + line->source + line->source_bytes + 1,
        .source_bytes = line->source_bytes,
        .target_bytes = line->target_bytes,
    };
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* The slot of a state, or a free one. */
static uint32_t *state_slot(const struct dictionary *d, uint32_t parent, uint32_t word)
{
    const uint32_t key[2] = {parent, word};
    const struct table *table = &d->state_table;
    size_t i = hash_bytes(d->seed, key, sizeof(key)) & (table->n_slots - 1);

    for (;; i = (i + 1) & (table->n_slots - 1)) {
        const uint32_t state = table->slots[i];

        if (state == 0 || (d->states[state].parent == parent && d->states[state].word == word))
            return &table->slots[i];
    }
}

static uint32_t *word_slot(const struct dictionary *d, const char *text, size_t bytes)
{
    const struct table *table = &d->word_table;
    size_t i = hash_bytes(d->seed, text, bytes) & (table->n_slots - 1);

    for (;; i = (i + 1) & (table->n_slots - 1)) {
        const struct name *word = &d->words[table->slots[i]];

        if (table->slots[i] == 0 ||
            (word->bytes == bytes && memcmp(d->text + word->at, text, bytes) == 0))
            return &table->slots[i];
    }
}

/* Room for n numbers, none taken. */
static bool clear_table(struct table *table, size_t n)
{
    size_t n_slots = 16;

    while (n_slots < 2 * n)
        n_slots *= 2;
    free(table->slots);
    table->slots = calloc(n_slots, sizeof(table->slots[0]));
    table->n_slots = table->slots ? n_slots : 0;
    return table->slots;
}

static bool grow_words(struct dictionary *d)
{
    if (2 * (d->n_words + 1) > d->word_table.n_slots) {
        if (!clear_table(&d->word_table, 2 * (d->n_words + 1)))
            return false;
        for (uint32_t i = BLANK + 1; i < d->n_words; i++)
            *word_slot(d, d->text + d->words[i].at, d->words[i].bytes) = i;
    }
    return grow(&d->words, sizeof(d->words[0]), d->n_words + 1, &d->words_capacity);
}

static bool grow_states(struct dictionary *d)
{
    if (2 * (d->n_states + 1) > d->state_table.n_slots) {
        if (!clear_table(&d->state_table, 2 * (d->n_states + 1)))
            return false;
        for (uint32_t i = 1; i < d->n_states; i++)
            *state_slot(d, d->states[i].parent, d->states[i].word) = i;
    }
    return grow(&d->states, sizeof(d->states[0]), d->n_states + 1, &d->states_capacity);
}

/* ---- The automaton --------------------------------------------------------------------------- */

/* The number of a word, which is new or not; 0: no memory. */
static uint32_t add_word(struct dictionary *d, const struct segment *segment)
{
    const size_t bytes = segment->end - segment->begin;
    uint32_t *slot;

    if (segment->kind == SEGMENT_BLANK)
        return BLANK;
    if (!grow_words(d))
        return 0;
    slot = word_slot(d, d->text + segment->begin, bytes);
    if (*slot == 0) {
        d->words[d->n_words] = (struct name){segment->begin, (uint32_t)bytes};
        *slot = (uint32_t)d->n_words++;
    }
    return *slot;
}

/* The state that goes on with a word; 0: no memory. */
static uint32_t add_state(struct dictionary *d, uint32_t parent, uint32_t word)
{
    uint32_t *slot;

    if (!grow_states(d))
        return 0;
    slot = state_slot(d, parent, word);
    if (*slot == 0) {
        d->states[d->n_states] =
            (struct state){.parent = parent, .word = word, .depth = d->states[parent].depth + 1};
        *slot = (uint32_t)d->n_states++;
    }
    return *slot;
}

/* Words of a term, the first one first; there are no more than bytes. */
static size_t number_words(struct dictionary *d, const struct line *line,
                           uint32_t numbers[DICTIONARY_TERM_BYTES])
{
    const size_t end = line->source + line->source_bytes;
    size_t n = 0;

    for (size_t at = line->source; at < end; n++) {
        const struct segment segment = segment_next(d->text, end, &at);

        numbers[n] = add_word(d, &segment);
        if (numbers[n] == 0)
            return 0;
    }
    return n;
}

static int add_path(struct dictionary *d, uint32_t entry, struct acre_err *err)
{
    uint32_t numbers[DICTIONARY_TERM_BYTES], state = 0;
    struct line *line = &d->lines[entry - 1];
    size_t n = number_words(d, line, numbers);

    line->n_words = (uint32_t)n;
    for (size_t i = n; i-- > 0;) {
        state = add_state(d, state, numbers[i]);
        if (state == 0)
            break;
    }
    if (state == 0)
        return error_set_no_memory(err);
    if (d->states[state].entry)
        return error_set(err, ACRE_EINPUT,
                         "entry %u: expected a term that is not there yet, found that of entry %u, "
                         "\"%.*s\"",
                         entry, d->states[state].entry,
                         line->source_bytes < 100 ? (int)line->source_bytes : 100,
                         d->text + line->source);
    d->states[state].entry = entry;
    return 0;
}

/* Short paths first: what a state falls back to is shorter. */
static uint32_t *by_depth(const struct dictionary *d)
{
    uint32_t first[DICTIONARY_TERM_BYTES + 2] = {0};
    uint32_t *order = malloc(d->n_states * sizeof(order[0]));

    if (!order)
        return NULL;
    for (size_t i = 0; i < d->n_states; i++)
        first[d->states[i].depth + 1]++;
    for (size_t depth = 1; depth < sizeof(first) / sizeof(first[0]); depth++)
        first[depth] += first[depth - 1];
    for (size_t i = 0; i < d->n_states; i++)
        order[first[d->states[i].depth]++] = (uint32_t)i;
    return order;
}

static bool link_states(struct dictionary *d)
{
    uint32_t *order = by_depth(d);

    for (size_t i = 1; order && i < d->n_states; i++) {
        struct state *state = &d->states[order[i]];

        if (state->depth > 1)
            state->fallback = dictionary_step(d, d->states[state->parent].fallback, state->word);
        if (!state->entry)
            state->entry = d->states[state->fallback].entry;
    }
    free(order);
    return order;
}

int dictionary_seal(struct dictionary *d, struct acre_err *err)
{
    int rc = 0;

    if (d->n_lines == 0)
        return error_set(err, ACRE_EINPUT, "expected entries, found none");
    if (!grow_words(d) || !grow_states(d))
        return error_set_no_memory(err);
    d->words[DICTIONARY_NONE] = d->words[BLANK] = (struct name){0, 0};
    d->states[0] = (struct state){.parent = 0};
    d->n_words = BLANK + 1;
    d->n_states = 1;
    for (uint32_t entry = 1; entry <= d->n_lines && rc == 0; entry++)
        rc = add_path(d, entry, err);
    if (rc != 0)
        return rc;
    return link_states(d) ? 0 : error_set_no_memory(err);
}

size_t dictionary_memory(const struct dictionary *d)
{
    return sizeof(*d) + d->text_capacity + d->lines_capacity * sizeof(d->lines[0]) +
           d->words_capacity * sizeof(d->words[0]) + d->states_capacity * sizeof(d->states[0]) +
           (d->word_table.n_slots + d->state_table.n_slots) * sizeof(uint32_t);
}

/* ---- Searching ------------------------------------------------------------------------------- */

uint32_t dictionary_word(const struct dictionary *d, const char *text, size_t bytes, bool is_blank)
{
    return is_blank ? BLANK : *word_slot(d, text, bytes);
}

uint32_t dictionary_step(const struct dictionary *d, uint32_t state, uint32_t word)
{
    for (uint32_t next; word != DICTIONARY_NONE; state = d->states[state].fallback) {
        next = *state_slot(d, state, word);
        if (next != 0)
            return next;
        if (state == 0)
            return 0;
    }
    return 0;
}

uint32_t dictionary_peek(const struct dictionary *d, uint32_t state, uint32_t word)
{
    uint32_t next = 0;

    for (int i = 0; i < PEEKS && state != 0 && next == 0; i++) {
        next = *state_slot(d, state, word);
        state = d->states[state].fallback;
    }
    return next != 0 ? next : *state_slot(d, 0, word);
}

uint32_t dictionary_longest(const struct dictionary *d, uint32_t state, uint32_t *n_words)
{
    const uint32_t entry = d->states[state].entry;

    *n_words = entry ? d->lines[entry - 1].n_words : 0;
    return entry;
}

uint32_t dictionary_find(const struct dictionary *d, const char *source, size_t bytes)
{
    uint32_t numbers[DICTIONARY_TERM_BYTES], state = 0;
    size_t n = 0;

    for (size_t at = 0; at < bytes && n < DICTIONARY_TERM_BYTES; n++) {
        const struct segment segment = segment_next(source, bytes, &at);

        numbers[n] = dictionary_word(d, source + segment.begin, segment.end - segment.begin,
                                     segment.kind == SEGMENT_BLANK);
        if (numbers[n] == DICTIONARY_NONE)
            return DICTIONARY_NONE;
    }
    for (size_t i = n; i-- > 0;) {
        state = *state_slot(d, state, numbers[i]);
        if (state == 0)
            return DICTIONARY_NONE;
    }
    return n > 0 && d->states[state].entry && d->lines[d->states[state].entry - 1].n_words == n
               ? d->states[state].entry
               : DICTIONARY_NONE;
}
