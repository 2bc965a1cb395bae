#include "model/languages.h"

#include <string.h>
#include <unicode/uloc.h>

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
    if (n < 2 || n > 3 || ((*at)[n] != '-' && (*at)[n] != '/' && (*at)[n] != '\0'))
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

/* "en-de-token" and "opus-mt-en-de". */
static void name_languages(const char *directory, struct config *config)
{
    size_t end = strlen(directory);
    while (end > 0 && directory[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && directory[begin - 1] != '/')
        begin--;
    const char *at = skip_family(directory + begin);
    char source[16], target[16];
    if (!take_code(&at, source) || !take_code(&at, target))
        return;
    memcpy(config->source, source, sizeof(source));
    memcpy(config->target, target, sizeof(target));
}

int languages_read(const struct json_object *tokenizer, const char *directory,
                   struct config *config, struct acre_err *err)
{
    int code = 0;
    if (tokenizer)
        code = json_opt_text(tokenizer, "source_lang", sizeof(config->source), config->source, err);
    if (tokenizer && !code)
        code = json_opt_text(tokenizer, "target_lang", sizeof(config->target), config->target, err);
    if (tokenizer && !code) /* M2M100 and NLLB */
        code = json_opt_text(tokenizer, "src_lang", sizeof(config->source), config->source, err);
    if (tokenizer && !code)
        code = json_opt_text(tokenizer, "tgt_lang", sizeof(config->target), config->target, err);
    if (code)
        return code;
    if (!config->source[0] || !config->target[0])
        name_languages(directory, config);
    shorten_language(config->source);
    shorten_language(config->target);
    return 0;
}
