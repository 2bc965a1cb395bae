/* tokenizer.json: what loads must have a piece for each id it gives, and decode any ids. */
#include "input.h"
#include "tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "The weather is  nice today. \xE4\xBB\x8A eng_Latn </s>";
    struct tokenizer *tokenizer;
    struct acre_err err;
    input_write("tokenizer.json", data, size);
    if (tokenizer_open(input_directory(), TOKENS_VOCAB, "", &tokenizer, &err) != 0)
        return 0;
    tokens_check(tokenizer, text, sizeof(text) - 1);
    tokenizer_close(tokenizer);
    return 0;
}
