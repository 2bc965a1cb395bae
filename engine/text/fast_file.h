/* fast_file.h - tokenizer.json, as the library `tokenizers` writes it, as a SentencePiece model.
 *
 * Fast tokenizers of multilingual models were made from SentencePiece models: their pieces, merges
 * or scores, and tables of normalisation are all that such a model has, so that one is put together
 * again. Its pieces have the numbers that tokenizer.json gives them. Other kinds of tokenizers are
 * refused. Any thread.
 */
#ifndef TEXT_FAST_FILE_H
#define TEXT_FAST_FILE_H

#include "acre.h"
#include "base/file.h" /* struct text */

/* `json` is the contents of the file. *model is what a .spm file would have, not checked yet;
 * text_fini() frees it. */
int fast_file_read(const struct text *json, struct text *model, struct acre_err *err);

#endif
