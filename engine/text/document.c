#include "text/document.h"

#include <string.h>
#include <unicode/uchar.h>
#include <unicode/uscript.h>

#include "base/error.h"
#include "base/mem.h"
#include "text/utf8.h"

enum { MAX_CLOSING = 8 }; /* quotes and the like that are looked through for a letter */

int document_init(struct document *document, const char *text, size_t text_bytes,
                  struct acre_err *err)
{
    *document = (struct document){0};
    if (text_bytes >= INT32_MAX)
        return err_set(err, ACRE_EINPUT, "expected a text of less than 2 GiB, found %zu bytes",
                       text_bytes);
    int status = utf8_check_text(text, text_bytes, "", err);
    if (status)
        return status;
    document->text = mem_copy_text(text_bytes ? text : "", text_bytes);
    document->text_bytes = text_bytes;
    return document->text ? 0 : err_set(err, ACRE_ENOMEM, "out of memory for a text");
}

/* The document's text as one sentence of these tokens, which it takes. */
static int add_whole(struct document *document, struct tokens *source, size_t max_tokens,
                     struct acre_err *err)
{
    if (source->n > max_tokens)
        return err_set(err, ACRE_EINPUT, "expected at most %zu tokens, found %zu", max_tokens,
                       source->n);
    document->sentences = mem_alloc(sizeof(*document->sentences));
    if (!document->sentences)
        return err_set(err, ACRE_ENOMEM, "out of memory for the sentences of a text");
    document->sentences[0] = (struct document_sentence){0, document->text_bytes, *source, 0};
    document->n_sentences = 1;
    *source = (struct tokens){0};
    return 0;
}

int document_init_tokens(struct document *document, const char *line, size_t line_bytes,
                         const struct tokenizer *tokenizer, size_t max_tokens, struct acre_err *err)
{
    struct tokens source = {0};
    int status = document_init(document, line, line_bytes, err);
    if (!status)
        status = tokenizer_encode_tokens(tokenizer, line, line_bytes, &source, err);
    if (!status && source.n > 0)
        status = add_whole(document, &source, max_tokens, err);
    tokens_fini(&source);
    if (status)
        document_fini(document);
    return status;
}

int document_init_whole(struct document *document, const char *text, size_t text_bytes,
                        const struct tokenizer *tokenizer, bool is_tokens, size_t max_tokens,
                        struct acre_err *err)
{
    struct tokens source = {0};
    int status = document_init(document, text, text_bytes, err);
    if (!status && is_tokens)
        status = tokenizer_encode_tokens(tokenizer, text, text_bytes, &source, err);
    else if (!status)
        status = tokenizer_encode(tokenizer, text, text_bytes, &source, err);
    if (!status)
        status = add_whole(document, &source, max_tokens, err);
    tokens_fini(&source);
    if (status)
        document_fini(document);
    return status;
}

void document_fini(struct document *document)
{
    for (size_t i = 0; i < document->n_sentences; i++)
        tokens_fini(&document->sentences[i].source);
    mem_free(document->sentences);
    mem_free(document->text);
    *document = (struct document){0};
}

/* ---- Joining --------------------------------------------------------------------------------- */

/* Korean and emoji are as wide as Chinese, but have spaces around them. */
static enum spacing spacing_of(int32_t character)
{
    if (u_getIntPropertyValue(character, UCHAR_LINE_BREAK) == U_LB_COMPLEX_CONTEXT)
        return SPACED_SENTENCES; /* Thai, Lao, Khmer, Burmese */
    switch (u_getIntPropertyValue(character, UCHAR_EAST_ASIAN_WIDTH)) {
    case U_EA_WIDE:
    case U_EA_FULLWIDTH:
    case U_EA_HALFWIDTH:
        return u_getIntPropertyValue(character, UCHAR_SCRIPT) == USCRIPT_HANGUL ||
                       u_hasBinaryProperty(character, UCHAR_EMOJI_PRESENTATION)
                   ? SPACED_WORDS
                   : SPACED_NOTHING;
    default:
        return SPACED_WORDS;
    }
}

/* Quotes and the like, of which many scripts have the same. */
static bool tells_nothing(int32_t character)
{
    return utf8_is_blank(character) ||
           (u_ispunct(character) && spacing_of(character) == SPACED_WORDS);
}

/* Beside a blank there is no need of another one. */
static enum spacing spacing_at_begin(const char *text, size_t bytes)
{
    size_t at = 0;
    for (int i = 0; i < MAX_CLOSING && at < bytes; i++) {
        int32_t character = utf8_next(text, bytes, &at);
        if (i == 0 && utf8_is_blank(character))
            break;
        if (!tells_nothing(character))
            return spacing_of(character);
    }
    return SPACED_NOTHING;
}

static enum spacing spacing_at_end(const char *text, size_t bytes)
{
    for (int i = 0; i < MAX_CLOSING && bytes > 0; i++) {
        int32_t character = utf8_before(text, bytes);
        if (i == 0 && utf8_is_blank(character))
            break;
        if (!tells_nothing(character))
            return spacing_of(character);
        bytes = utf8_begin(text, bytes - 1);
    }
    return SPACED_NOTHING;
}

/* The wider one decides, on either side: where a long word is cut, or a link, there are two that
 * are spaced alike, and nothing comes between them. */
bool document_is_apart(const struct document *document, size_t sentence, const char *translation,
                       enum spacing *before)
{
    const struct document_sentence *own = &document->sentences[sentence];
    const struct document_sentence *last = sentence > 0 ? own - 1 : NULL;
    const char *text = document->text;
    size_t bytes = strlen(translation);
    bool is_joint = last && last->first + last->n_bytes == own->first;
    enum spacing end = is_joint ? *before : SPACED_NOTHING;
    *before = bytes > 0 ? spacing_at_end(translation, bytes) : end;
    if (!is_joint)
        return false;
    enum spacing begin = spacing_at_begin(translation, bytes);
    enum spacing source_end = spacing_at_end(text + last->first, last->n_bytes);
    enum spacing source_begin = spacing_at_begin(text + own->first, own->n_bytes);
    enum spacing source = source_end > source_begin ? source_end : source_begin;
    return source > end && source > begin;
}

int document_join(const struct document *document, const char *const *translations, char **text,
                  struct acre_range *places, struct acre_err *err)
{
    size_t bytes = document->text_bytes + document->n_sentences + 1;
    for (size_t i = 0; i < document->n_sentences; i++)
        bytes += strlen(translations[i]) - document->sentences[i].n_bytes;
    char *out = mem_alloc(bytes);
    if (!out)
        return err_set(err, ACRE_ENOMEM, "out of memory for a translation");
    *text = out;
    size_t at = 0;
    enum spacing before = SPACED_NOTHING;
    for (size_t i = 0; i < document->n_sentences; i++) {
        const struct document_sentence *sentence = &document->sentences[i];
        size_t translation_bytes = strlen(translations[i]);
        memcpy(out, document->text + at, sentence->first - at);
        out += sentence->first - at;
        if (document_is_apart(document, i, translations[i], &before))
            *out++ = ' ';
        places[i] = (struct acre_range){(size_t)(out - *text), translation_bytes};
        memcpy(out, translations[i], translation_bytes);
        out += translation_bytes;
        at = sentence->first + sentence->n_bytes;
    }
    memcpy(out, document->text + at, document->text_bytes - at + 1);
    return 0;
}
