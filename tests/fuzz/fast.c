/* tokenizer.json: what loads must have a piece for each id it gives, and decode any ids. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "input.h"
#include "text/tokenizer.h"

enum { VOCAB = 1000 };

static void use(const struct tokenizer *tokenizer, const char *text, size_t text_bytes)
{
    const struct language_tokens *languages = tokenizer_languages(tokenizer);
    struct tokens tokens = {0};
    char *back;
    if (tokenizer_encode(tokenizer, text, text_bytes, &tokens, NULL) ||
        tokenizer_encode_tokens(tokenizer, text, text_bytes, &tokens, NULL))
        abort();
    for (size_t i = 0; i < tokens.n; i++)
        if (tokens.ids[i] < 0 || tokens.ids[i] >= VOCAB ||
            !tokenizer_token(tokenizer, tokens.ids[i])[0])
            abort();
    for (size_t i = 0; i < languages->n; i++)
        if (languages->items[i].id <= 0 || languages->items[i].id >= VOCAB)
            abort();
    tokenizer_knows(tokenizer, &tokens);
    for (int32_t id = -1; id <= VOCAB; id++)
        tokens_append(&tokens, id);
    if (tokenizer_decode(tokenizer, tokens.ids, tokens.n, &back, NULL) == 0)
        mem_free(back);
    tokens_fini(&tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "The weather is  nice today. \xE4\xBB\x8A eng_Latn </s>";
    struct tokenizer *tokenizer;
    struct acre_err err;
    input_write("tokenizer.json", data, size);
    if (tokenizer_open(input_directory(), VOCAB, "", &tokenizer, &err) != 0)
        return 0;
    use(tokenizer, text, sizeof(text) - 1);
    tokenizer_close(tokenizer);
    return 0;
}
