#include "tokens.h"

#include <stdlib.h>

#include "base/mem.h"

void tokens_check(const struct tokenizer *tokenizer, const char *text, size_t text_bytes)
{
    const struct language_tokens *languages = tokenizer_languages(tokenizer);
    struct tokens tokens = {0};
    char *back;
    if (tokenizer_encode(tokenizer, text, text_bytes, &tokens, NULL) ||
        tokenizer_encode_tokens(tokenizer, text, text_bytes, &tokens, NULL))
        abort();
    for (size_t i = 0; i < tokens.n; i++)
        if (tokens.ids[i] < 0 || tokens.ids[i] >= TOKENS_VOCAB ||
            !tokenizer_token(tokenizer, tokens.ids[i])[0])
            abort();
    for (size_t i = 0; i < languages->n; i++)
        if (languages->items[i].id <= 0 || languages->items[i].id >= TOKENS_VOCAB)
            abort();
    tokenizer_knows(tokenizer, &tokens);
    for (int32_t id = -1; id <= TOKENS_VOCAB; id++)
        tokens_append(&tokens, id);
    if (tokenizer_decode(tokenizer, tokens.ids, tokens.n, &back, NULL) == 0)
        mem_free(back);
    tokens_fini(&tokens);
}
