/* ICU proposes where sentences end. A proposal after what looks like an abbreviation is passed
 * over: two sentences in one are translated well, half a sentence is not. What remains is cut at
 * line ends and tabs, trimmed, and encoded.
 *
 * A splitter goes through these three by steps: take_sentence() finds lines, take_line() a span of
 * one, and cut_piece() takes pieces off a span that is too long; each goes on where it was. No
 * step looks at a part of the text that another of its kind has looked at, so that the time is
 * linear in the text.
 *
 * A sentence with too many tokens is cut by cut_piece(): fit() looks for how many bytes make about
 * max_tokens tokens, guessing from the piece before, so that a long text is encoded a few times
 * and not once per candidate; best_place() then chooses where to cut before that.
 */
#include "text/splitter.h"

#include <stdio.h>
#include <string.h>
#include <unicode/ubrk.h>
#include <unicode/uchar.h>

#include "base/error.h"
#include "base/mem.h"
#include "text/utf8.h"

enum { MAX_TOKEN_BYTES = 32, MAX_CLOSING = 8 };

struct part {
    size_t at, end;
};

struct splitter {
    struct document *document;
    size_t capacity; /* of document->sentences */
    const struct tokenizer *tokenizer;
    size_t max_tokens;
    enum acre_split split;
    size_t window_bytes; /* first guess of what max_tokens tokens are */
    bool has_ordinals;   /* "3." is "third" in the language */
    struct part probed;  /* the span encoded last, */
    struct tokens probe; /* its tokens, */
    size_t n_before;     /* how many of them are `code` in front of it, */
    bool is_told;        /* and whether the first is a code that the span itself begins with */
    int32_t code;        /* the last language code that a sentence began with; -1: none */
    struct acre_err *err;

    UText *text; /* NULL: of a blank text there is nothing to split */
    UBreakIterator *breaks;
    size_t sentence;   /* where the sentence begins whose end is looked for */
    size_t found;      /* the last end that ICU proposed */
    size_t trimmed;    /* behind the last character before `found` that is not blank */
    bool goes_on;      /* whether the sentence goes on there */
    struct part lines; /* what is still to be cut at line ends */
    struct part span;  /* what is still to be cut to pieces */
};

/* ---- Sentences that are too long ------------------------------------------------------------- */

/* What was encoded last is not encoded again: where there is no space to cut at, all that fits is
 * the piece. */
static int encode(struct splitter *splitter, size_t begin, size_t end)
{
    const char *text = splitter->document->text + begin;
    int32_t code;
    if (splitter->probed.at == begin && splitter->probed.end == end)
        return 0;
    splitter->probed = (struct part){begin, end};
    splitter->is_told = tokenizer_code(splitter->tokenizer, text, end - begin, &code) > 0;
    if (splitter->is_told)
        splitter->code = code;
    splitter->n_before = !splitter->is_told && splitter->code >= 0;
    splitter->probe.n = 0;
    if (splitter->n_before > 0 && tokens_append(&splitter->probe, splitter->code))
        return err_set(splitter->err, ACRE_ENOMEM, "out of memory for the tokens of a sentence");
    return tokenizer_encode(splitter->tokenizer, text, end - begin, &splitter->probe,
                            splitter->err);
}

/* How good it is to cut between two characters; `last` is the last one before that is not blank.
 * 4 after a sentence, 3 after a clause, 2 at a space, 1 between characters, 0 within one. */
static int rank_place(int32_t last, int32_t previous, int32_t next)
{
    static const int32_t sentence[] = {'.', '!', '?', 0x2026, 0x061F, 0x06D4, 0x0964, 0};
    static const int32_t clause[] = {',', ';', ':', ')', 0x2013, 0x2014, 0x060C, 0x061B, 0};
    static const int32_t wide_sentence[] = {0x3002, 0xFF01, 0xFF1F, 0xFF0E, 0xFF61, 0};
    static const int32_t wide_clause[] = {0x3001, 0xFF0C, 0xFF1A, 0xFF1B, 0xFF64, 0};
    const int32_t *const sets[] = {wide_sentence, sentence, wide_clause, clause};
    bool at_space = utf8_is_blank(previous) || utf8_is_blank(next);
    for (int i = 0; i < 4; i++) {
        bool is_wide = i % 2 == 0; /* no space follows these */
        for (const int32_t *mark = sets[i]; *mark; mark++)
            if (last == *mark && (at_space || (is_wide && !u_ispunct(next))))
                return 4 - i / 2;
    }
    if (at_space)
        return 2;
    return !u_hasBinaryProperty(next, UCHAR_GRAPHEME_EXTEND) && previous != 0x200D &&
           next != 0x200D && !u_hasBinaryProperty(next, UCHAR_EMOJI_MODIFIER);
}

/* The last of the best places to cut [begin, end) in the second half of [begin, limit]. */
static size_t place_before(const char *text, size_t begin, size_t limit, size_t end, int *best_rank)
{
    size_t at = utf8_begin(text, begin + (limit - begin) / 2), best = limit;
    int32_t last = ' ', previous = ' ';
    *best_rank = 0;
    while (at < limit) {
        previous = utf8_next(text, end, &at);
        if (!utf8_is_blank(previous))
            last = previous;
        size_t behind = at;
        int32_t next = utf8_next(text, end, &behind);
        int rank = rank_place(last, previous, next);
        if (rank >= *best_rank) {
            *best_rank = rank;
            best = at;
        }
    }
    return *best_rank > 0 ? best : limit;
}

/* Leaves a quarter, if there is a space before: what is left shall not be a word or two. */
static size_t best_place(const char *text, size_t begin, size_t limit, size_t end)
{
    int rank = 0;
    size_t most = end - (end - begin) / 4, place = end;
    if (limit == end)
        return end;
    if (most < limit)
        place = place_before(text, begin, utf8_begin(text, most), end, &rank);
    return rank >= 2 ? place : place_before(text, begin, limit, end, &rank);
}

/* The next guess of fit(), from the tokens that [begin, guess) has. `high` 0 is not known yet. */
static size_t next_guess(size_t begin, size_t guess, size_t n_tokens, size_t max_tokens, size_t low,
                         size_t high, int round)
{
    size_t bytes = guess - begin;
    if (high == 0) { /* grow, at most fourfold */
        size_t grown = n_tokens ? bytes * max_tokens / n_tokens : bytes * 4;
        return begin + (grown > bytes * 4 ? bytes * 4 : grown) + 1;
    }
    size_t scaled = n_tokens ? bytes * max_tokens / n_tokens : bytes;
    size_t next = begin + scaled - scaled / 16;
    return round < 4 && next > low && next < high ? next : low + (high - low) / 2;
}

/* Finds *limit such that [begin, *limit) has at most max_tokens tokens. It stops at the first limit
 * that will do: all of [begin, end); or at least 3/4 of max_tokens; or one more character would be
 * too many; or more bytes than max_tokens tokens can be expected to stand for. The last is because
 * a run of unknown characters is one token, however long. */
static int fit(struct splitter *splitter, size_t begin, size_t end, size_t *limit)
{
    const char *text = splitter->document->text;
    size_t max = splitter->max_tokens, low = begin, high = 0;
    if ((end - begin) / MAX_TOKEN_BYTES >= max)
        end = utf8_begin(text, begin + max * MAX_TOKEN_BYTES);
    size_t guess = begin + splitter->window_bytes;
    for (int round = 0;; round++) {
        guess = guess < end ? utf8_begin(text, guess) : end;
        if (guess <= low) { /* at least one character more than what is known to fit */
            guess = low;
            utf8_next(text, end, &guess);
        }
        if (high > 0 && guess >= high)
            break;
        int status = encode(splitter, begin, guess);
        if (status)
            return status;
        size_t n = splitter->probe.n;
        if (n <= max)
            low = guess;
        else
            high = guess;
        if (low == end || (n <= max && n >= max - max / 4))
            break;
        guess = next_guess(begin, guess, n, max, low, high, round);
    }
    *limit = low;
    if (low > begin)
        return 0;
    return err_set(splitter->err, ACRE_EINPUT,
                   "byte %zu: expected a character of at most %zu "
                   "tokens, found more",
                   begin, max);
}

/* ---- Sentences ------------------------------------------------------------------------------- */

static bool is_line_end(int32_t character)
{
    return (character >= '\n' && character <= '\r') || character == 0x85 || character == 0x2028 ||
           character == 0x2029;
}

static bool has_word(const char *text, size_t begin, size_t end)
{
    while (begin < end)
        if (u_isalnum(utf8_next(text, end, &begin)))
            return true;
    return false;
}

/* Adds the span with the tokens of the probe. A span that says nothing to the model stays as it
 * is: emoji and other scripts come out as they went in. */
static int add_sentence(struct splitter *splitter, size_t begin, size_t end)
{
    struct document *document = splitter->document;
    size_t n_codes = splitter->n_before + splitter->is_told;
    const struct tokens own = {.ids = splitter->probe.ids + n_codes,
                               .n = splitter->probe.n - n_codes};
    if (!tokenizer_knows(splitter->tokenizer, &own))
        return 0;
    if (mem_reserve(&document->sentences, &splitter->capacity, document->n_sentences + 1,
                    sizeof(*document->sentences)))
        return err_set(splitter->err, ACRE_ENOMEM, "out of memory for the sentences of a text");
    document->sentences[document->n_sentences++] =
        (struct document_sentence){begin, end - begin, splitter->probe, splitter->n_before};
    splitter->probe = (struct tokens){0};
    splitter->probed = (struct part){0};
    return 0;
}

/* Adds the first piece of the span that the model can read. */
static int cut_piece(struct splitter *splitter)
{
    const char *text = splitter->document->text;
    size_t begin = splitter->span.at, end = splitter->span.end, limit;
    int status = fit(splitter, begin, end, &limit);
    if (status)
        return status;
    if (limit < end)
        splitter->window_bytes = limit - begin;
    size_t next = best_place(text, begin, limit, end);
    size_t piece_end = utf8_drop_blanks(text, begin, next);
    status = encode(splitter, begin, piece_end);
    if (!status && splitter->probe.n > splitter->max_tokens) {
        /* UNTESTED: needs pieces that reach over the mark or space we cut at */
        next = piece_end = limit;
        status = encode(splitter, begin, limit);
    }
    splitter->span.at = utf8_skip_blanks(text, next, end);
    return status ? status : add_sentence(splitter, begin, piece_end);
}

/* Adds what is in [begin, end) without the whitespace around it: mostly one sentence. What is more
 * becomes the span. */
static int take_span(struct splitter *splitter, size_t begin, size_t end)
{
    const char *text = splitter->document->text;
    begin = utf8_skip_blanks(text, begin, end);
    end = utf8_drop_blanks(text, begin, end);
    if (!has_word(text, begin, end))
        return 0;
    if (end - begin <= splitter->window_bytes) {
        int status = encode(splitter, begin, end);
        if (status || splitter->probe.n <= splitter->max_tokens)
            return status ? status : add_sentence(splitter, begin, end);
    }
    splitter->span = (struct part){begin, end};
    return 0;
}

/* Tabs part the cells of a table, and a model would make blanks of them. */
static int take_line(struct splitter *splitter)
{
    struct part *lines = &splitter->lines;
    size_t begin = lines->at;
    if (splitter->split == ACRE_SPLIT_SENTENCES || splitter->split == ACRE_SPLIT_NOTHING)
        lines->at = lines->end;
    while (lines->at < lines->end) {
        int32_t character = utf8_next(splitter->document->text, lines->end, &lines->at);
        if (is_line_end(character) || character == '\t')
            break;
    }
    return take_span(splitter, begin, lines->at);
}

/* The bytes of the digits before `at`, at most three. */
static size_t digits_before(const char *text, size_t begin, size_t at)
{
    size_t n = 0;
    while (n < 3 && at - n > begin && text[at - n - 1] >= '0' && text[at - n - 1] <= '9')
        n++;
    return n;
}

/* Titles and the like, which stand before a capital letter and hardly ever end a sentence. */
static const char abbreviations[] =
    " Mr Mrs Ms Messrs Dr Drs Prof St Ste Mt Gen Col Maj Lt Capt Cpt Sgt "
    "Cmdr Adm Rev Hon Gov Sen Rep Pres vs cf Cf Fig Figs fig Vol vol Ch "
    "Hr Hrn Fr Nr Hl vgl Vgl bzw ca evtl ggf sog inkl Str Abb Bd Kap Tel "
    "Hrsg Mio Mrd MM Mme Mlle Mgr chap av Av apr ";

/* Those that only a number follows: months, and what is numbered or measured. */
static const char before_numbers[] =
    " No no Nos nos pp Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec "
    "approx Approx Art art Sec sec Eq Eqs eq Ext ext Max max Min min Abs "
    "M\xC3\xA4r Okt Dez Nrn Anm janv f\xC3\xA9vr avr juil sept oct nov "
    "d\xC3\xA9"
    "c env ";

static bool is_listed(const char *list, const char *word, size_t bytes)
{
    char wanted[16];
    int n = snprintf(wanted, sizeof(wanted), " %.*s ", (int)bytes, word);
    return n < (int)sizeof(wanted) && strstr(list, wanted);
}

static bool is_number_next(const struct document *document, size_t at)
{
    at = utf8_skip_blanks(document->text, at, document->text_bytes);
    return at < document->text_bytes &&
           u_isdigit(utf8_next(document->text, document->text_bytes, &at));
}

/* Whether a quotation or a bracket has ended at `end` and the line goes on in small letters:
 * "Really?" she asked. */
static bool is_quoted(const struct document *document, size_t end)
{
    const char *text = document->text;
    int32_t next = utf8_before(text, end);
    if (!u_ispunct(next) || u_hasBinaryProperty(next, UCHAR_S_TERM))
        return false;
    do
        next = utf8_next(text, document->text_bytes, &end);
    while (end < document->text_bytes && utf8_is_blank(next) && !is_line_end(next));
    return u_islower(next);
}

/* Whether the sentence that seems to end at `end`, blanks aside, goes on: after what was quoted
 * in it, after an initial or a letter of an abbreviation ("J. Smith", "z. B. Gold", "p. 7"), a
 * title, what a number follows, or an ordinal number ("am 3. Oktober"). Two sentences taken for one
 * do less harm than the reverse. */
static bool goes_on(const struct splitter *splitter, size_t begin, size_t end)
{
    const char *text = splitter->document->text;
    if (end > begin && end < splitter->document->text_bytes && is_quoted(splitter->document, end))
        return true;
    if (end < begin + 2 || text[end - 1] != '.')
        return false;
    end--;
    size_t n_digits = digits_before(text, begin, end);
    if (n_digits > 0) {
        size_t before = end - n_digits;
        return splitter->has_ordinals && n_digits <= 2 && before > begin &&
               utf8_is_blank(utf8_before(text, before));
    }
    size_t word = end;
    while (word > begin && end - word < 16 && u_isalpha(utf8_before(text, word)))
        word = utf8_begin(text, word - 1);
    if (word < end && word == utf8_begin(text, end - 1))
        return true;
    return is_listed(abbreviations, text + word, end - word) ||
           (is_listed(before_numbers, text + word, end - word) &&
            is_number_next(splitter->document, end + 1));
}

/* Whether the text up to `end` reads like a whole sentence: "Oh!", and a few quotes and brackets.
 */
static bool is_ended(const char *text, size_t begin, size_t end)
{
    for (int i = 0; i < MAX_CLOSING && end > begin; i++) {
        int32_t last = utf8_before(text, end);
        if (u_hasBinaryProperty(last, UCHAR_S_TERM))
            return true;
        if (!u_ispunct(last))
            return false;
        end = utf8_begin(text, end - 1);
    }
    return false;
}

/* Goes to the next end that ICU proposes; if the sentence ends there, it becomes the lines. */
static void take_sentence(struct splitter *splitter)
{
    size_t bytes = splitter->document->text_bytes, before = splitter->found;
    int32_t found = ubrk_next(splitter->breaks);
    size_t end = found == UBRK_DONE ? bytes : (size_t)found;
    size_t trimmed = utf8_drop_blanks(splitter->document->text, before, end);
    splitter->found = end;
    if (trimmed > before) { /* else the answer stays, too: a run of blanks is looked at once */
        splitter->trimmed = trimmed;
        splitter->goes_on = end < bytes && goes_on(splitter, splitter->sentence, trimmed);
    }
    if (end < bytes && splitter->goes_on)
        return;
    if (end < bytes && splitter->split == ACRE_SPLIT_SENTENCES &&
        !is_ended(splitter->document->text, splitter->sentence, splitter->trimmed))
        return;
    if (end < bytes && splitter->split >= ACRE_SPLIT_NOTHING)
        return;
    splitter->lines = (struct part){splitter->sentence, end};
    splitter->sentence = splitter->trimmed = end;
    splitter->goes_on = false;
}

static int take_step(struct splitter *splitter)
{
    if (splitter->span.at < splitter->span.end)
        return cut_piece(splitter);
    if (splitter->lines.at < splitter->lines.end)
        return take_line(splitter);
    take_sentence(splitter);
    return 0;
}

/* Up to where the text is done with. */
static size_t done(const struct splitter *splitter)
{
    if (splitter->span.at < splitter->span.end)
        return splitter->span.at;
    return splitter->lines.at < splitter->lines.end ? splitter->lines.at : splitter->sentence;
}

/* Grows with every step, as `done` does not while ICU looks for the end of a sentence. */
static size_t progress(const struct splitter *splitter)
{
    return done(splitter) / 2 + splitter->found / 2;
}

int splitter_continue(struct splitter *splitter, size_t max_bytes, bool *is_done,
                      struct acre_err *err)
{
    size_t bytes = splitter->text ? splitter->document->text_bytes : 0;
    size_t begin = progress(splitter);
    int status = 0;
    splitter->err = err;
    while (!status && done(splitter) < bytes && progress(splitter) - begin < max_bytes)
        status = take_step(splitter);
    *is_done = done(splitter) >= bytes;
    return status;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static bool has_ordinals(const char *language)
{
    static const char languages[] = " cs da de et fi hr hu is lv nb nn no sk sl sr ";
    char wanted[8];
    int bytes = snprintf(wanted, sizeof(wanted), " %.4s ", language);
    return bytes == 4 && strstr(languages, wanted);
}

static UBreakIterator *open_breaks(const char *language, UText *text, UErrorCode *status)
{
    /* ICU's own lists of abbreviations (ss=standard) have gaps and cost 0.2 ms to open. */
    UBreakIterator *breaks = ubrk_open(UBRK_SENTENCE, language, NULL, 0, status);
    if (U_SUCCESS(*status))
        ubrk_setUText(breaks, text, status);
    return breaks;
}

static int open_text(struct splitter *splitter, const char *language, struct acre_err *err)
{
    const struct document *document = splitter->document;
    UErrorCode status = U_ZERO_ERROR;
    splitter->text = utext_openUTF8(NULL, document->text, (int64_t)document->text_bytes, &status);
    splitter->breaks = open_breaks(language, splitter->text, &status);
    if (U_SUCCESS(status))
        return 0;
    return err_set(err, ACRE_ENOMEM, "sentences cannot be found: %s", u_errorName(status));
}

int splitter_open(struct document *document, const char *text, size_t text_bytes,
                  const struct tokenizer *tokenizer, const char *language, size_t max_tokens,
                  enum acre_split split, struct splitter **out, struct acre_err *err)
{
    struct splitter *splitter = mem_calloc(1, sizeof(*splitter));
    *document = (struct document){0};
    if (!splitter)
        return err_set(err, ACRE_ENOMEM, "out of memory for a text");
    *splitter = (struct splitter){
        .document = document,
        .tokenizer = tokenizer,
        .max_tokens = max_tokens,
        .split = split,
        .window_bytes = max_tokens * (tokenizer_is_bytes(tokenizer) ? 1 : 4),
        .has_ordinals = has_ordinals(language),
        .code = -1,
    };
    int status = document_init(document, text, text_bytes, err);
    if (!status && utf8_skip_blanks(document->text, 0, text_bytes) < text_bytes)
        status = open_text(splitter, language, err);
    if (status) {
        splitter_close(splitter);
        document_fini(document);
        return status;
    }
    *out = splitter;
    return 0;
}

void splitter_close(struct splitter *splitter)
{
    if (!splitter)
        return;
    ubrk_close(splitter->breaks);
    utext_close(splitter->text);
    tokens_fini(&splitter->probe);
    mem_free(splitter);
}
