#include "split.h"

int split_text(struct document *document, const char *text, size_t text_bytes,
               const struct tokenizer *tokenizer, const char *language, size_t max_tokens,
               struct acre_err *err)
{
    struct splitter *splitter;
    bool is_done;
    int status = splitter_open(document, text, text_bytes, tokenizer, language, max_tokens,
                               ACRE_SPLIT_LINES, &splitter, err);
    if (status != 0)
        return status;
    status = splitter_continue(splitter, SIZE_MAX, &is_done, err);
    splitter_close(splitter);
    if (status != 0)
        document_fini(document);
    return status;
}
