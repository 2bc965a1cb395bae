/* Happy path: each code is read into parts (language, script, region), which become its form: the
 * language's shortest code and its likely script; two codes of one form mean the same language.
 * What is told to others is a tag, unless it would be another one's.
 *
 * Failure modes: no memory. A code that ICU cannot read is its own form, and found as it stands. */
#include "model/language_names.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unicode/uloc.h>

#include "base/mem.h"

/* "zho_Hant_TW" in its parts; "" where there is none. */
struct parts {
    char language[9], script[5], region[4];
};

static bool take_part(const char **at, char *part, size_t room)
{
    size_t n = strcspn(*at, "-_");
    if (n == 0 || n >= room)
        return false;
    memcpy(part, *at, n);
    part[n] = '\0';
    *at += n + ((*at)[n] != '\0');
    return true;
}

/* False if it is no name of a language. */
static bool take_parts(const char *name, struct parts *parts)
{
    *parts = (struct parts){.language = ""};
    if (!take_part(&name, parts->language, sizeof(parts->language)))
        return false;
    for (char *c = parts->language; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    if (strcspn(name, "-_") == 4 && !take_part(&name, parts->script, sizeof(parts->script)))
        return false;
    if (*name && !take_part(&name, parts->region, sizeof(parts->region)))
        return false;
    return *name == '\0';
}

/* Members of macrolanguages that models have in place of these, and older codes. */
static const char *common_name(const char *language)
{
    static const struct {
        const char *one, *common;
    } names[] = {{"als", "sq"}, {"arb", "ar"}, {"ayr", "ay"}, {"azj", "az"}, {"fil", "tl"},
                 {"fuv", "ff"}, {"gaz", "om"}, {"in", "id"},  {"iw", "he"},  {"ji", "yi"},
                 {"jw", "jv"},  {"khk", "mn"}, {"kmr", "ku"}, {"knc", "kr"}, {"lvs", "lv"},
                 {"nb", "no"},  {"nob", "no"}, {"npi", "ne"}, {"ns", "nso"}, {"ory", "or"},
                 {"pbt", "ps"}, {"pes", "fa"}, {"plt", "mg"}, {"quy", "qu"}, {"swh", "sw"},
                 {"tgl", "tl"}, {"twi", "tw"}, {"uzn", "uz"}, {"ydd", "yi"}, {"zsm", "ms"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcmp(names[i].one, language))
            return names[i].common;
    return NULL;
}

/* "deu" -> "de", "arb" -> "ar". */
static void shorten(char language[9])
{
    UErrorCode status = U_ZERO_ERROR;
    char two_letters[9];
    const char *common = common_name(language);
    int32_t n = common ? 0 : uloc_getLanguage(language, two_letters, sizeof(two_letters), &status);
    if (common)
        strcpy(language, common);
    else if (U_SUCCESS(status) && n == 2)
        memcpy(language, two_letters, 3);
}

/* That it is written in where nothing is said; "" if CLDR does not know. */
static void likely_script(const char *language, const char *region, char script[5])
{
    UErrorCode status = U_ZERO_ERROR;
    char name[24], full[ULOC_FULLNAME_CAPACITY];
    snprintf(name, sizeof(name), "%s%s%s", language, *region ? "_" : "", region);
    script[0] = '\0';
    uloc_addLikelySubtags(name, full, sizeof(full), &status);
    if (U_SUCCESS(status) && uloc_getScript(full, script, 5, &status) != 4)
        script[0] = '\0';
}

static void fill_form(const struct parts *parts, char form[16])
{
    char script[5];
    bool is_chinese = !strcmp(parts->language, "zh");
    likely_script(parts->language, is_chinese ? parts->region : "", script);
    snprintf(form, 16, "%s_%s", parts->language, parts->script[0] ? parts->script : script);
}

/* The tag is the language alone. */
static void fill_name(struct language_name *name, const char *code, bool is_tag)
{
    struct parts parts;
    snprintf(name->code, sizeof(name->code), "%s", code);
    snprintf(name->tag, sizeof(name->tag), "%s", code);
    snprintf(name->form, sizeof(name->form), "%s", code);
    if (!take_parts(code, &parts))
        return;
    shorten(parts.language);
    fill_form(&parts, name->form);
    if (!is_tag)
        snprintf(name->tag, sizeof(name->tag), "%s", parts.language);
}

static bool is_tag_of_another(const struct language_names *names, size_t i)
{
    for (size_t other = 0; other < names->n; other++)
        if (other != i && !strcasecmp(names->names[other].tag, names->names[i].tag))
            return true;
    return false;
}

/* Of a language in several scripts only the likely one is called by the language alone. */
static void part_tags(struct language_names *names)
{
    for (size_t i = 0; i < names->n; i++) {
        struct language_name *name = &names->names[i];
        struct parts parts;
        char script[5];
        if (!is_tag_of_another(names, i) || !take_parts(name->code, &parts))
            continue;
        likely_script(name->tag, "", script);
        if (parts.script[0] && strcasecmp(parts.script, script) != 0)
            snprintf(name->tag + strlen(name->tag), 6, "-%s", parts.script);
    }
    for (size_t i = 0; i < names->n; i++)
        if (is_tag_of_another(names, i))
            memcpy(names->names[i].tag, names->names[i].code, sizeof(names->names[i].code));
}

int language_names_init(struct language_names *names, const char *const *codes, size_t n,
                        bool are_tags)
{
    *names = (struct language_names){.n = 0};
    names->names = mem_calloc(n, sizeof(*names->names));
    names->list = mem_calloc(n, sizeof(*names->list));
    if (!names->names || !names->list)
        return ACRE_ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (codes[i][0])
            fill_name(&names->names[names->n++], codes[i], are_tags);
    if (!are_tags)
        part_tags(names);
    for (size_t i = 0; i < names->n; i++)
        names->list[i] =
            (struct acre_language){.code = names->names[i].code, .tag = names->names[i].tag};
    return 0;
}

void language_names_fini(struct language_names *names)
{
    mem_free(names->names);
    mem_free(names->list);
    *names = (struct language_names){.n = 0};
}

const struct acre_language *language_names_find(const struct language_names *names,
                                                const char *name)
{
    struct parts parts;
    char form[16];
    for (size_t i = 0; i < names->n; i++)
        if (!strcasecmp(names->names[i].code, name) || !strcasecmp(names->names[i].tag, name))
            return &names->list[i];
    if (!take_parts(name, &parts))
        return NULL;
    shorten(parts.language);
    if (parts.region[0] && strcmp(parts.language, "zh") != 0)
        return NULL;
    fill_form(&parts, form);
    for (size_t i = 0; i < names->n; i++)
        if (!strcasecmp(names->names[i].form, form) ||
            (!parts.script[0] && !parts.region[0] &&
             !strcasecmp(names->names[i].tag, parts.language)))
            return &names->list[i];
    return NULL;
}
