#include "text/alphabet.h"

#include <stdatomic.h>
#include <string.h>
#include <unicode/uchar.h>
#include <unicode/uloc.h>
#include <unicode/ulocdata.h>
#include <unicode/uscript.h>
#include <unicode/uset.h>

#include "base/mem.h"
#include "text/utf8.h"

enum {
    REMEMBERED = 2048, /* answers; a text of another script has hundreds of letters */
    MAX_SCRIPTS = 8,
    LATIN_SIGNS_END = 0x250,
    PUNCTUATION = 0x2010, /* general */
    PUNCTUATION_END = 0x205F,
};

struct alphabet {
    const struct tokenizer *tokenizer;
    USet *letters; /* of the language; NULL: not known */
    UScriptCode scripts[MAX_SCRIPTS];
    int n_scripts;
    atomic_uint answers[REMEMBERED]; /* of the vocabulary: 2 * character + whether it has it */
};

/* Of others, ICU would tell the letters of this computer's language. */
static bool has_letters(const char *language)
{
    char plain[ULOC_LANG_CAPACITY];
    UErrorCode status = U_ZERO_ERROR;
    uloc_getLanguage(language, plain, sizeof(plain), &status);
    for (int i = 0; U_SUCCESS(status) && i < uloc_countAvailable(); i++)
        if (strcmp(uloc_getAvailable(i), plain) == 0)
            return true;
    return false;
}

/* Those that texts are written with, and those of names and loans. NULL: they are not known. */
static USet *letters_of(const char *language)
{
    UErrorCode status = U_ZERO_ERROR;
    if (!has_letters(language))
        return NULL;
    ULocaleData *data = ulocdata_open(language, &status);
    USet *letters =
        ulocdata_getExemplarSet(data, NULL, USET_ADD_CASE_MAPPINGS, ULOCDATA_ES_STANDARD, &status);
    USet *others =
        ulocdata_getExemplarSet(data, NULL, USET_ADD_CASE_MAPPINGS, ULOCDATA_ES_AUXILIARY, &status);
    if (U_SUCCESS(status))
        uset_addAll(letters, others);
    else
        uset_close(letters);
    uset_close(others);
    ulocdata_close(data);
    return U_SUCCESS(status) ? letters : NULL;
}

int alphabet_open(const struct tokenizer *tokenizer, const char *language,
                  struct alphabet **alphabet)
{
    struct alphabet *object = mem_calloc(1, sizeof(*object));
    if (!object)
        return ACRE_ENOMEM;
    object->tokenizer = tokenizer;
    object->letters = letters_of(language);
    UErrorCode status = U_ZERO_ERROR;
    object->n_scripts = uscript_getCode(language, object->scripts, MAX_SCRIPTS, &status);
    if (U_FAILURE(status))
        object->n_scripts = 0;
    *alphabet = object;
    return 0;
}

void alphabet_close(struct alphabet *alphabet)
{
    if (!alphabet)
        return;
    uset_close(alphabet->letters);
    mem_free(alphabet);
}

/* Scripts of thousands of characters are not told letter by letter. */
static bool is_of_script(const struct alphabet *alphabet, int32_t c)
{
    for (int i = 0; i < alphabet->n_scripts; i++)
        if (alphabet->scripts[i] != USCRIPT_LATIN && uscript_hasScript(c, alphabet->scripts[i]))
            return true;
    return false;
}

static bool is_of_language(const struct alphabet *alphabet, int32_t c)
{
    if (c < 0x80 || uset_contains(alphabet->letters, c) || is_of_script(alphabet, c))
        return true;
    return !u_isalnum(c) && (c < LATIN_SIGNS_END || u_charType(c) == U_CURRENCY_SYMBOL ||
                             (c >= PUNCTUATION && c < PUNCTUATION_END));
}

bool alphabet_has(struct alphabet *alphabet, const char *character, size_t bytes)
{
    size_t at = 0;
    int32_t c = utf8_next(character, bytes, &at);
    if (c < 0) /* no UTF-8 */
        return false;
    if (tokenizer_is_bytes(alphabet->tokenizer))
        return !alphabet->letters || is_of_language(alphabet, c);
    if (alphabet->letters && uset_contains(alphabet->letters, c))
        return true;
    atomic_uint *remembered = &alphabet->answers[c % REMEMBERED];
    unsigned answer = atomic_load_explicit(remembered, memory_order_relaxed);
    if (answer / 2 != (unsigned)c) {
        answer = 2 * (unsigned)c + tokenizer_reads(alphabet->tokenizer, character, bytes);
        atomic_store_explicit(remembered, answer, memory_order_relaxed);
    }
    return answer % 2;
}
