/* vocab.json: what loads must have a piece for each id it gives, and decode any ids. */
#include <stdio.h>
#include <stdlib.h>

#include "input.h"
#include "tokens.h"

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
    if (tokenizer_open(input_directory(), TOKENS_VOCAB, "", &tokenizer, &err) != 0)
        return 0;
    tokens_check(tokenizer, text, sizeof(text) - 1);
    tokens_check(tokenizer, (const char *)data, size);
    tokenizer_close(tokenizer);
    return 0;
}
