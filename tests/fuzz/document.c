/* A text from a client: identity translations must give the text back, byte for byte. The first
 * byte of the input chooses the tokenizer and the longest sentence, the second how large the parts
 * are in which it is split. */
#include "text/splitter.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "input.h"

static struct tokenizer *open_tokenizer(const char *directory, int vocab_size)
{
    struct tokenizer *tokenizer;
    struct acre_err err;
    if (tokenizer_open(directory, vocab_size, "", &tokenizer, &err) != 0)
        abort();
    return tokenizer;
}

static int split(const struct tokenizer *tokenizer, const char *text, size_t size, size_t most,
                 size_t max_bytes, struct document *document)
{
    struct splitter *splitter;
    struct acre_err err;
    bool is_done = false;
    int code = splitter_open(document, text, size, tokenizer, "de", most,
                             (enum acre_split)(most % 3), &splitter, &err);
    if (code != 0)
        return code;
    while (code == 0 && !is_done)
        code = splitter_continue(splitter, max_bytes, &is_done, &err);
    splitter_close(splitter);
    if (code != 0)
        document_fini(document);
    return code;
}

static void check(const struct document *document, const char *text, size_t size, size_t most)
{
    struct acre_err err;
    char *joined, **parts = calloc(document->n_sentences + 1, sizeof(*parts));
    struct acre_range *places = calloc(document->n_sentences + 1, sizeof(*places));
    for (size_t i = 0; i < document->n_sentences; i++) {
        const struct document_sentence *sentence = &document->sentences[i];
        if (sentence->source.n > most)
            abort();
        parts[i] = strndup(document->text + sentence->first, sentence->n_bytes);
    }
    if (document_join(document, (const char *const *)parts, &joined, places, &err) != 0)
        abort();
    if (!memchr(text, '\0', size) && (strlen(joined) != size || memcmp(joined, text, size) != 0))
        abort();
    mem_free(joined);
    for (size_t i = 0; i < document->n_sentences; i++)
        free(parts[i]);
    free(parts);
    free(places);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tokenizer *tokenizers[2];
    struct document document;
    if (size < 2)
        return 0;
    if (!tokenizers[0]) {
        tokenizers[0] = open_tokenizer("tests/golden/models/tiny-char", 258);
        tokenizers[1] = open_tokenizer("tests/golden/models/tiny-token", 1000);
    }
    size_t most = 4 + (size_t)data[0] / 2, max_bytes = 1 + (size_t)data[1] * data[1];
    const char *text = (const char *)data + 2;
    if (split(tokenizers[data[0] % 2], text, size - 2, most, max_bytes, &document) != 0)
        return 0;
    check(&document, text, size - 2, most);
    document_fini(&document);
    return 0;
}
