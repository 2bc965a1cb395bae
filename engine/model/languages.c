#include "model/languages.h"

#include <string.h>
#include <unicode/uloc.h>

enum { MAX_CODES_BYTES = 1024 };

/* "eng" -> "en"; codes of other lengths stay. */
static void shorten_language(char language[16])
{
    UErrorCode status = U_ZERO_ERROR;
    char two_letters[16];
    if (strlen(language) != 3)
        return;
    int32_t n = uloc_getLanguage(language, two_letters, sizeof(two_letters), &status);
    if (U_SUCCESS(status) && n == 2)
        memcpy(language, two_letters, 3);
}

/* A code of two or three letters that ends at '-' or at the end; *at moves behind it. */
static bool take_code(const char **at, char language[16])
{
    size_t n = strspn(*at, "abcdefghijklmnopqrstuvwxyz");
    if (n < 2 || n > 3 || ((*at)[n] != '-' && (*at)[n] != '\0'))
        return false;
    memcpy(language, *at, n);
    language[n] = '\0';
    *at += n + ((*at)[n] == '-');
    return true;
}

static const char *skip_family(const char *name)
{
    static const char *const families[] = {"opus-mt-tc-big-", "opus-mt-tc-base-", "opus-mt-"};
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        if (!strncmp(name, families[i], strlen(families[i])))
            return name + strlen(families[i]);
    return name;
}

/* "en-de-token" and "opus-mt-en-de"; what tokenizer_config.json says stays. */
static void name_languages(const char *name, struct config *config)
{
    const char *at = skip_family(name);
    char source[16], target[16];
    if (!take_code(&at, source) || !take_code(&at, target))
        return;
    if (!config->source[0])
        memcpy(config->source, source, sizeof(source));
    if (!config->target[0])
        memcpy(config->target, target, sizeof(target));
}

/* What is too long for a language stands for several ("fi_nb_no_nn_ru_sv_en"): none is named. */
static int read_code(const struct json_object *tokenizer, const char *field, char language[16],
                     struct acre_err *err)
{
    char code[MAX_CODES_BYTES] = "";
    int status = json_opt_text(tokenizer, field, sizeof(code), code, err);
    if (!status && code[0] && strlen(code) < 16)
        memcpy(language, code, strlen(code) + 1);
    return status;
}

int languages_read(const struct json_object *tokenizer, const char *name, struct config *config,
                   struct acre_err *err)
{
    const struct {
        const char *field;
        char *language;
    } fields[] = {
        {"source_lang", config->source},
        {"target_lang", config->target},
        {"src_lang", config->source}, /* M2M100 and NLLB */
        {"tgt_lang", config->target},
    };
    int status = 0;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]) && tokenizer && !status; i++)
        status = read_code(tokenizer, fields[i].field, fields[i].language, err);
    if (status)
        return status;
    name_languages(name, config);
    shorten_language(config->source);
    shorten_language(config->target);
    return 0;
}
