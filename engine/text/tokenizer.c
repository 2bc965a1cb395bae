/* SentencePiece's own ids are not used: Marian's vocab.json has ids of its own, and knows pieces
 * that one of the two SentencePiece models does not, so the way is text, pieces, ids (vocab.h).
 *
 * This is transformers' MarianTokenizer, M2M100Tokenizer, NllbTokenizer or MBart50Tokenizer, with
 * two differences that keep text whole: "</s>" and other special tokens in a text are text, and so
 * is ">>...<<" that the vocabulary does not have.
 */
#include "text/tokenizer.h"

#include <string.h>
#include <unicode/uchar.h>

#include "base/error.h"
#include "base/mem.h"
#include "text/tokenizer_files.h"
#include "text/utf8.h"

#define BLANK "\xE2\x96\x81" /* for SentencePiece, which puts one before a text */

int tokens_append(struct tokens *tokens, int32_t id)
{
    if (mem_reserve(&tokens->ids, &tokens->capacity, tokens->n + 1, sizeof(*tokens->ids)))
        return ACRE_ENOMEM;
    tokens->ids[tokens->n++] = id;
    return 0;
}

void tokens_fini(struct tokens *tokens)
{
    mem_free(tokens->ids);
    *tokens = (struct tokens){0};
}

int tokenizer_open(const char *directory, int vocab_size, const char *class_of_config,
                   struct tokenizer **tokenizer, struct acre_err *err)
{
    struct tokenizer *object = mem_calloc(1, sizeof(*object));
    if (!object)
        return err_set(err, ACRE_ENOMEM, "tokenizer_config.json: out of memory");
    int status = tokenizer_read_files(object, directory, vocab_size, class_of_config, err);
    if (status)
        tokenizer_close(object);
    else
        *tokenizer = object;
    return status;
}

void tokenizer_close(struct tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    vocab_close(&tokenizer->source);
    vocab_close(&tokenizer->separate);
    language_tokens_fini(&tokenizer->languages);
    if (tokenizer->target_spm != tokenizer->source_spm)
        spm_close(tokenizer->target_spm);
    spm_close(tokenizer->source_spm);
    mem_free(tokenizer);
}

const struct language_tokens *tokenizer_languages(const struct tokenizer *tokenizer)
{
    return &tokenizer->languages;
}

bool tokenizer_is_language_last(const struct tokenizer *tokenizer)
{
    return tokenizer->is_language_last;
}

bool tokenizer_is_bytes(const struct tokenizer *tokenizer)
{
    return tokenizer->kind == KIND_BYTES;
}

int32_t tokenizer_end(const struct tokenizer *tokenizer)
{
    return tokenizer->kind == KIND_BYTES ? BYTES_END : tokenizer->source.end;
}

/* ---- Text to ids ----------------------------------------------------------------------------- */

struct encoding {
    const struct vocab *vocab;
    struct tokens *out;
};

static int append_piece(void *user, const char *piece, size_t piece_bytes)
{
    const struct encoding *encoding = user;
    int32_t id = vocab_piece_id(encoding->vocab, piece, piece_bytes);
    return tokens_append(encoding->out, id < 0 ? encoding->vocab->unknown : id);
}

size_t tokenizer_code(const struct tokenizer *tokenizer, const char *text, size_t text_bytes,
                      int32_t *id)
{
    if (tokenizer->kind != KIND_MARIAN || text_bytes < 5 || memcmp(text, ">>", 2))
        return 0;
    const char *end = memmem(text, text_bytes, "<<", 2);
    if (!end)
        return 0;
    size_t bytes = (size_t)(end - text) + 2;
    *id = vocab_piece_id(&tokenizer->source, text, bytes);
    return *id < 0 ? 0 : bytes;
}

static int encode_pieces(const struct tokenizer *tokenizer, const char *text, size_t text_bytes,
                         struct tokens *out)
{
    struct encoding encoding = {&tokenizer->source, out};
    int32_t id;
    size_t skip = tokenizer_code(tokenizer, text, text_bytes, &id);
    if (skip > 0 && tokens_append(out, id))
        return ACRE_ENOMEM;
    return spm_encode(tokenizer->source_spm, text + skip, text_bytes - skip, append_piece,
                      &encoding);
}

static int tell_encoded(int status, struct acre_err *err)
{
    if (status == ACRE_ENOMEM)
        return err_set(err, status, "out of memory for the tokens of a sentence");
    return status ? err_set(err, ACRE_EINPUT, "the text cannot be split into pieces") : 0;
}

int tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t text_bytes,
                     struct tokens *out, struct acre_err *err)
{
    int status = tokenizer->kind == KIND_BYTES ? bytes_encode(text, text_bytes, out)
                                               : encode_pieces(tokenizer, text, text_bytes, out);
    return tell_encoded(status, err);
}

static int encode_token(const struct tokenizer *tokenizer, const struct vocab *vocab,
                        const char *token, size_t token_bytes, struct tokens *out,
                        struct acre_err *err)
{
    int32_t id = tokenizer->kind == KIND_BYTES ? -1 : vocab_find(vocab, token, token_bytes);
    int status = tokenizer->kind == KIND_BYTES ? bytes_encode_token(token, token_bytes, out)
                                               : tokens_append(out, id < 0 ? vocab->unknown : id);
    if (status == ACRE_ENOMEM)
        return err_set(err, status, "out of memory for the tokens of a line");
    int shown = token_bytes < 40 ? (int)token_bytes : 40;
    return status
               ? err_set(err, status, "expected a token of one character or <0xHH>, found \"%.*s\"",
                         shown, token)
               : 0;
}

/* A piece that spells one byte says nothing of a word: it stands for what has no piece. */
static bool has_word(const char *piece)
{
    size_t bytes = strlen(piece);
    if (bytes_named(piece, bytes) >= 0)
        return false;
    for (size_t at = 0; at < bytes;)
        if (u_isalnum(utf8_next(piece, bytes, &at)))
            return true;
    return false;
}

bool tokenizer_knows(const struct tokenizer *tokenizer, const struct tokens *tokens)
{
    const struct vocab *vocab = &tokenizer->source;
    if (tokenizer->kind == KIND_BYTES)
        return tokens->n > 0;
    for (size_t i = 0; i < tokens->n; i++) {
        int32_t id = tokens->ids[i];
        if (id != vocab->unknown && vocab->pieces[id] && has_word(vocab->pieces[id]))
            return true;
    }
    return false;
}

/* Not unknown, and no byte of what is. */
static bool is_known(const struct vocab *vocab, int32_t id)
{
    const char *piece = vocab->pieces[id];
    return id != vocab->unknown && piece && bytes_named(piece, strlen(piece)) < 0;
}

bool tokenizer_reads(const struct tokenizer *tokenizer, const char *text, size_t text_bytes)
{
    struct tokens tokens = {0};
    if (tokenizer->kind == KIND_BYTES)
        return true;
    int status = encode_pieces(tokenizer, text, text_bytes, &tokens);
    bool is_all_known = true;
    size_t n_blank = 0;
    for (size_t i = 0; i < tokens.n && is_all_known; i++) {
        is_all_known = is_known(&tokenizer->source, tokens.ids[i]);
        n_blank += is_all_known && !strcmp(tokenizer->source.pieces[tokens.ids[i]], BLANK);
    }
    bool reads = status != 0 || (is_all_known && n_blank < tokens.n);
    tokens_fini(&tokens);
    return reads;
}

static int encode_line(const struct tokenizer *tokenizer, const struct vocab *vocab,
                       const char *line, size_t line_bytes, struct tokens *out,
                       struct acre_err *err)
{
    for (size_t at = 0; at < line_bytes;) {
        const char *space = memchr(line + at, ' ', line_bytes - at);
        size_t end = space ? (size_t)(space - line) : line_bytes;
        int status = end > at ? encode_token(tokenizer, vocab, line + at, end - at, out, err) : 0;
        if (status)
            return status;
        at = end + 1;
    }
    return 0;
}

int tokenizer_encode_tokens(const struct tokenizer *tokenizer, const char *line, size_t line_bytes,
                            struct tokens *out, struct acre_err *err)
{
    return encode_line(tokenizer, &tokenizer->source, line, line_bytes, out, err);
}

int tokenizer_encode_target(const struct tokenizer *tokenizer, const char *text, size_t text_bytes,
                            bool is_tokens, struct tokens *out, struct acre_err *err)
{
    struct encoding encoding = {tokenizer->target, out};
    if (is_tokens)
        return encode_line(tokenizer, tokenizer->target, text, text_bytes, out, err);
    if (tokenizer->kind == KIND_BYTES)
        return tell_encoded(bytes_encode(text, text_bytes, out), err);
    return tell_encoded(
        spm_encode(tokenizer->target_spm, text, text_bytes, append_piece, &encoding), err);
}

/* ---- Ids to text ----------------------------------------------------------------------------- */

static const char *find_token(const struct tokenizer *tokenizer, int32_t id)
{
    if (tokenizer->kind == KIND_BYTES)
        return id >= 0 && id < BYTES_VOCAB ? tokenizer->byte_names.of[id] : NULL;
    return vocab_piece(tokenizer->target, id);
}

/* The token's text, NULL if it is special or none. */
static const char *plain_piece(const struct tokenizer *tokenizer, int32_t id)
{
    return vocab_is_special(tokenizer->target, id) ? NULL : find_token(tokenizer, id);
}

/* In place, as transformers does after joining: U+2581 that the model left becomes a space, and
 * the ends lose their whitespace. U+0000, which byte pieces can spell, is dropped, and so is what
 * is no UTF-8, which a denormaliser may write. */
static void tidy(char *text, size_t bytes)
{
    size_t used = 0, kept = 0; /* kept: behind the last character that is no whitespace */
    for (size_t at = 0; at < bytes;) {
        size_t begin = at;
        int32_t character = utf8_next(text, bytes, &at);
        bool is_space = character == 0x2581 || u_isUWhiteSpace(character);
        if (character <= 0 || (is_space && used == 0))
            continue;
        if (character == 0x2581) {
            text[used++] = ' ';
        } else {
            memmove(text + used, text + begin, at - begin);
            used += at - begin;
        }
        if (!is_space)
            kept = used;
    }
    text[kept] = '\0';
}

static int decode_pieces(const struct tokenizer *tokenizer, const int32_t *ids, size_t n,
                         char **text)
{
    const char **pieces = mem_alloc(n * sizeof(*pieces));
    if (!pieces)
        return ACRE_ENOMEM;
    size_t n_pieces = 0, bytes;
    for (size_t i = 0; i < n; i++) {
        pieces[n_pieces] = plain_piece(tokenizer, ids[i]);
        n_pieces += pieces[n_pieces] != NULL;
    }
    int status = spm_decode(tokenizer->target_spm, pieces, n_pieces, text, &bytes);
    mem_free(pieces);
    if (!status)
        tidy(*text, bytes);
    return status;
}

int tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, size_t n, char **text,
                     struct acre_err *err)
{
    int status = 0;
    if (tokenizer->kind != KIND_BYTES)
        status = decode_pieces(tokenizer, ids, n, text);
    else if (!(*text = bytes_decode(ids, n)))
        status = ACRE_ENOMEM;
    return status ? err_set(err, status, "the translation cannot be put together: %s",
                            acre_status_text(status))
                  : 0;
}

const char *tokenizer_token(const struct tokenizer *tokenizer, int32_t id)
{
    const char *token = find_token(tokenizer, id);
    return token ? token : "<unk>";
}

/* ---- Where tokens stand ---------------------------------------------------------------------- */

/* Ranges that are being listed; those that do not fit are left out. */
struct placing {
    const char *text;
    size_t offset; /* of what is being encoded in the text */
    struct acre_range *ranges;
    size_t n, capacity;
};

static struct acre_range without_blanks(const char *text, size_t first, size_t n_bytes)
{
    for (; n_bytes > 0 && text[first] == ' '; n_bytes--)
        first++;
    return (struct acre_range){first, n_bytes};
}

static int place_piece(void *user, size_t first, size_t n_bytes)
{
    struct placing *placing = user;
    if (placing->n < placing->capacity)
        placing->ranges[placing->n++] =
            without_blanks(placing->text, placing->offset + first, n_bytes);
    return 0;
}

static int place_pieces(const struct tokenizer *tokenizer, size_t text_bytes,
                        struct placing *placing)
{
    int32_t id;
    size_t skip = tokenizer_code(tokenizer, placing->text, text_bytes, &id);
    if (skip > 0)
        place_piece(placing, 0, skip);
    placing->offset = skip;
    return spm_encode_ranges(tokenizer->source_spm, placing->text + skip, text_bytes - skip,
                             place_piece, placing);
}

/* Every byte has its whole character, with the marks that NFC may compose with it. */
static int place_character(void *user, struct acre_range source, const char *composed, size_t bytes)
{
    (void)composed;
    for (size_t i = 0; i < bytes; i++)
        place_piece(user, source.first, source.n_bytes);
    return 0;
}

static int place_line(const struct tokenizer *tokenizer, size_t text_bytes, struct placing *placing,
                      struct acre_err *err)
{
    struct tokens tokens = {0};
    int status = 0;
    for (size_t at = 0; at < text_bytes && !status;) {
        const char *space = memchr(placing->text + at, ' ', text_bytes - at);
        size_t end = space ? (size_t)(space - placing->text) : text_bytes;
        tokens.n = 0;
        if (end > at)
            status = encode_token(tokenizer, &tokenizer->source, placing->text + at, end - at,
                                  &tokens, err);
        for (size_t i = 0; i < tokens.n; i++)
            place_piece(placing, at, end - at);
        at = end + 1;
    }
    tokens_fini(&tokens);
    return status;
}

int tokenizer_source_ranges(const struct tokenizer *tokenizer, const char *text, size_t text_bytes,
                            bool is_tokens, size_t n, struct acre_range *ranges,
                            struct acre_err *err)
{
    struct placing placing = {.text = text, .ranges = ranges, .capacity = n};
    int status = 0;
    if (is_tokens)
        return place_line(tokenizer, text_bytes, &placing, err);
    if (tokenizer->kind == KIND_BYTES)
        bytes_compose(placing.text, text_bytes, place_character, &placing);
    else
        status = place_pieces(tokenizer, text_bytes, &placing);
    for (; placing.n < n; placing.n++)
        ranges[placing.n] = (struct acre_range){text_bytes, 0};
    return status ? err_set(err, status, "out of memory for the tokens of a sentence") : 0;
}

/* Where the text goes on behind `part`, which is what tokens from `done` on became: decoded alone
 * they have no blanks at their ends. SIZE_MAX if it is not there, or if a character may not be
 * complete. */
static size_t end_of_part(const char *text, size_t text_bytes, size_t done, const char *part)
{
    size_t n = strlen(part), at = done;
    if (n >= 3 && !memcmp(part + n - 3, "\xEF\xBF\xBD", 3))
        return SIZE_MAX;
    for (size_t next = at; n > 0 && at < text_bytes && text[at] != part[0]; at = next)
        if (!u_isUWhiteSpace(utf8_next(text, text_bytes, &next)))
            return SIZE_MAX;
    return n <= text_bytes - at && !memcmp(text + at, part, n) ? at + n : SIZE_MAX;
}

/* Whatever a token adds to the text of those before it is its own. Where it is not found there, a
 * character is not complete, and the tokens that complete it share it. */
int tokenizer_target_ranges(const struct tokenizer *tokenizer, const int32_t *ids, size_t n,
                            const char *text, size_t text_bytes, struct acre_range *ranges,
                            struct acre_err *err)
{
    size_t first = 0, done = 0;
    for (size_t i = 0; i < n; i++) {
        char *part;
        int status = tokenizer_decode(tokenizer, ids + first, i + 1 - first, &part, err);
        if (status)
            return status;
        size_t end = i + 1 == n ? text_bytes : end_of_part(text, text_bytes, done, part);
        mem_free(part);
        if (end == SIZE_MAX)
            continue;
        for (; first <= i; first++)
            ranges[first] = without_blanks(text, done, end - done);
        done = end;
    }
    return 0;
}
