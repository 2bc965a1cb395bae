/* A SentencePiece model: what is accepted must encode and decode any text without harm. Its own
 * bytes are a text, so that what its tables map and its pieces are occurs in one; and they are
 * repeated, so that they follow one another.
 *
 * The models in models/ were trained on sentences of tests/golden/tokenizer, each with another
 * algorithm, six rules of normalisation and three user-defined pieces, so that they are small and
 * still have everything that a model can have; the pieces of the last are bytes, too. */
#include "text/sentencepiece.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "input.h"
#include "text/spm_file.h"

enum { MAX_PIECES = 256, MAX_TEXT = 1024 };

struct pieces {
    char *texts[MAX_PIECES];
    size_t n;
};

static int keep_piece(void *user, const char *piece, size_t piece_bytes)
{
    struct pieces *pieces = user;
    if (pieces->n < MAX_PIECES)
        pieces->texts[pieces->n++] = mem_copy_text(piece, piece_bytes);
    return 0;
}

static void there_and_back(const struct spm *spm, const char *text, size_t text_bytes)
{
    struct pieces pieces = {.n = 0};
    char *back;
    size_t back_bytes;
    spm_encode(spm, text, text_bytes, keep_piece, &pieces);
    if (spm_decode(spm, (const char *const *)pieces.texts, pieces.n, &back, &back_bytes) == 0)
        mem_free(back);
    for (size_t i = 0; i < pieces.n; i++)
        mem_free(pieces.texts[i]);
}

static void repeat(const struct spm *spm, const char *unit, size_t unit_bytes)
{
    char text[MAX_TEXT];
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = unit[i % unit_bytes];
    there_and_back(spm, text, sizeof(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "Hello  w\xC3\xB6rld, \xEF\xBD\x86\xEF\xBC\xA1 \xEF\xAC\x83 "
                               "\xE6\x97\xA5\xE6\x9C\xAC\t aaaa\0 <unk> </s> \xFF\xC3.";
    const char *own = (const char *)data;
    struct spm *spm;
    if (spm_file_check("spm", own, size, NULL) != 0 || spm_open(own, size, &spm) != 0)
        return 0;
    there_and_back(spm, text, sizeof(text) - 1);
    there_and_back(spm, own, size);
    for (size_t bytes = 1; bytes <= 4 && bytes <= size; bytes++)
        repeat(spm, own + size - bytes, bytes);
    for (size_t at = 0; at < size && at < 512; at += 8)
        repeat(spm, own + at, 1);
    spm_close(spm);
    return 0;
}
