#include "serve/languages.h"

#include <stddef.h>
#include <strings.h>

/* ISO 639-1. */
static const struct {
    const char *code, *name;
} languages[] = {
    {"af", "Afrikaans"},  {"ar", "Arabic"},    {"az", "Azerbaijani"}, {"be", "Belarusian"},
    {"bg", "Bulgarian"},  {"bn", "Bengali"},   {"ca", "Catalan"},     {"cs", "Czech"},
    {"cy", "Welsh"},      {"da", "Danish"},    {"de", "German"},      {"el", "Greek"},
    {"en", "English"},    {"eo", "Esperanto"}, {"es", "Spanish"},     {"et", "Estonian"},
    {"eu", "Basque"},     {"fa", "Persian"},   {"fi", "Finnish"},     {"fr", "French"},
    {"ga", "Irish"},      {"gl", "Galician"},  {"he", "Hebrew"},      {"hi", "Hindi"},
    {"hr", "Croatian"},   {"hu", "Hungarian"}, {"hy", "Armenian"},    {"id", "Indonesian"},
    {"is", "Icelandic"},  {"it", "Italian"},   {"ja", "Japanese"},    {"ka", "Georgian"},
    {"kk", "Kazakh"},     {"ko", "Korean"},    {"ky", "Kyrgyz"},      {"la", "Latin"},
    {"lt", "Lithuanian"}, {"lv", "Latvian"},   {"mk", "Macedonian"},  {"mr", "Marathi"},
    {"ms", "Malay"},      {"mt", "Maltese"},   {"nb", "Norwegian"},   {"nl", "Dutch"},
    {"no", "Norwegian"},  {"pl", "Polish"},    {"pt", "Portuguese"},  {"ro", "Romanian"},
    {"ru", "Russian"},    {"sk", "Slovak"},    {"sl", "Slovenian"},   {"sq", "Albanian"},
    {"sr", "Serbian"},    {"sv", "Swedish"},   {"sw", "Swahili"},     {"ta", "Tamil"},
    {"te", "Telugu"},     {"th", "Thai"},      {"tl", "Tagalog"},     {"tr", "Turkish"},
    {"uk", "Ukrainian"},  {"ur", "Urdu"},      {"uz", "Uzbek"},       {"vi", "Vietnamese"},
    {"zh", "Chinese"},
};

const char *languages_name(const char *code)
{
    for (size_t i = 0; i < sizeof(languages) / sizeof(languages[0]); i++)
        if (strcasecmp(languages[i].code, code) == 0)
            return languages[i].name;
    return code;
}
