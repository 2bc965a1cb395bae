/* Entries of glossaries, TSV or CSV by the first byte. What was read comes out so that it is read
 * as the same again, and each term is found. */
#include <stdlib.h>
#include <string.h>

#include "common/unicode.h"
#include "content/entries.h"
#include "input.h"

static struct dictionary *read(const char *text, size_t bytes, bool is_csv)
{
    struct dictionary *dictionary = dictionary_open(DICTIONARY_MAX_BYTES);
    struct acre_err err;

    if (!dictionary)
        abort();
    if ((is_csv ? entries_read_csv(dictionary, text, bytes, "en", "de", &err)
                : entries_read_tsv(dictionary, text, bytes, &err)) == 0 &&
        dictionary_seal(dictionary, &err) == 0)
        return dictionary;
    if (!err.text[0])
        abort();
    dictionary_drop(dictionary);
    return NULL;
}

static void check(const struct dictionary *dictionary)
{
    struct dictionary *again;
    size_t bytes, bytes_again;
    const char *text = dictionary_text(dictionary, &bytes), *text_again;

    for (uint32_t i = 1; i <= dictionary_entries(dictionary); i++) {
        const struct dictionary_entry entry = dictionary_entry(dictionary, i);

        if (dictionary_find(dictionary, entry.source, entry.source_bytes) != i)
            abort();
    }
    again = read(text, bytes, false);
    if (!again)
        abort();
    text_again = dictionary_text(again, &bytes_again);
    if (bytes != bytes_again || memcmp(text, text_again, bytes) != 0)
        abort();
    dictionary_drop(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dictionary *dictionary;
    char *text;

    if (size < 1)
        return 0;
    text = malloc(size);
    if (!text)
        abort();
    for (size_t i = 1; i < size; i++)
        text[i - 1] = data[i] ? (char)data[i] : ' ';
    text[size - 1] = '\0';
    unicode_scrub(text);
    dictionary = read(text, strlen(text), data[0] & 1);
    if (dictionary)
        check(dictionary);
    dictionary_drop(dictionary);
    free(text);
    return 0;
}
