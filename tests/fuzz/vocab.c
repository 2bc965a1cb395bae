/* vocab.json: what loads must have a piece for each id it gives, and decode any ids. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "input.h"
#include "text/tokenizer.h"

enum { VOCAB = 1000 };

/* The pieces of a real model, among which the vocabulary finds some of its own or none. */
static void write_models(void)
{
    static const char *const names[] = {"source.spm", "target.spm"};
    for (int i = 0; i < 2; i++) {
        char path[64], spm[1 << 14];
        snprintf(path, sizeof(path), "tests/golden/models/tiny-token/%s", names[i]);
        FILE *file = fopen(path, "rb");
        if (!file)
            abort();
        input_write(names[i], spm, fread(spm, 1, sizeof(spm), file));
        fclose(file);
    }
}

static void use(const struct tokenizer *tokenizer, const char *text, size_t text_bytes)
{
    struct tokens tokens = {0};
    char *back;
    if (tokenizer_encode(tokenizer, text, text_bytes, &tokens, NULL) ||
        tokenizer_encode_tokens(tokenizer, text, text_bytes, &tokens, NULL))
        abort();
    for (size_t i = 0; i < tokens.n; i++)
        if (tokens.ids[i] < 0 || tokens.ids[i] >= VOCAB ||
            !tokenizer_token(tokenizer, tokens.ids[i])[0])
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
    static const char text[] = ">>de<< The weather is nice today. \xE4\xBB\x8A </s>";
    static bool is_ready;
    struct tokenizer *tokenizer;
    struct acre_err err;
    if (!is_ready)
        write_models();
    is_ready = true;
    input_write("vocab.json", data, size);
    if (tokenizer_open(input_directory(), VOCAB, "", &tokenizer, &err) != 0)
        return 0;
    use(tokenizer, text, sizeof(text) - 1);
    use(tokenizer, (const char *)data, size);
    tokenizer_close(tokenizer);
    return 0;
}
