/* A text from a client: identity translations must give the text back, byte for byte. The first
 * byte of the input chooses the longest sentence. */
#include "text/document.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "input.h"

static const char byte_tokenizer[] = "{\"tokenizer_class\": \"ByteTokenizer\"}";

static struct tokenizer *open_bytes(void)
{
    struct tokenizer *tokenizer;
    struct acre_err err;
    input_write("tokenizer_config.json", byte_tokenizer, strlen(byte_tokenizer));
    if (tokenizer_open(input_directory(), 258, &tokenizer, &err) != 0)
        abort();
    return tokenizer;
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
    static struct tokenizer *tokenizer;
    struct document document;
    struct acre_err err;
    if (size == 0)
        return 0;
    if (!tokenizer)
        tokenizer = open_bytes();
    size_t most = 4 + (size_t)data[0];
    const char *text = (const char *)data + 1;
    if (document_init(&document, text, size - 1, tokenizer, "en", most, &err) != 0)
        return 0;
    check(&document, text, size - 1, most);
    document_fini(&document);
    return 0;
}
