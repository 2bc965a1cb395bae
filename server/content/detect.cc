#include "content/detect.h"

#include <cstdio> /* which compact_lang_det.h needs and does not include */
#include <cstring>
#include <strings.h>

#include <cld2/public/compact_lang_det.h>
#include <cld2/public/encodings.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include "common/language.h"

namespace
{

/* A hint that names so many languages is none. */
enum { MANY = 24 };

/* ISO 639-1 for what CLD2 calls by older or longer names. */
const char *modern_code(CLD2::Language language)
{
    const char *code = CLD2::LanguageCode(language);

    if (strcmp(code, "iw") == 0)
        return "he";
    if (strcmp(code, "jw") == 0)
        return "jv";
    return code;
}

struct detect_guess ask(const char *text, size_t n, bool is_html, int flags, const char *hint)
{
    const int bytes = n > (1 << 30) ? 1 << 30 : static_cast<int>(n);
    CLD2::CLDHints hints = {hint, nullptr, CLD2::UNKNOWN_ENCODING, CLD2::UNKNOWN_LANGUAGE};
    CLD2::Language languages[3];
    struct detect_guess found;
    double scores[3];

    CLD2::ExtDetectLanguageSummary(text, bytes, !is_html, &hints, flags, languages, found.percents,
                                   scores, nullptr, &found.text_bytes, &found.is_reliable);
    for (int i = 0; i < DETECT_MOST; i++)
        found.codes[i] = languages[i] == CLD2::UNKNOWN_LANGUAGE ? "" : modern_code(languages[i]);
    return found;
}

/* Quickly: a thousand texts may be judged among two hundred languages. `code` is in lower case;
 * "nb" and "no" begin alike. */
bool may_be_same(const char *tag, const char *code)
{
    return (tag[0] | 0x20) == code[0];
}

/* What of a guess is among the codes. */
void take(const struct detect_guess &found, const char *const *codes, size_t n_codes, int divisor,
          struct detection *detection)
{
    for (int i = 0; i < DETECT_MOST; i++) {
        const char *same = nullptr;
        for (size_t c = 0; c < n_codes && found.codes[i][0]; c++) {
            if (!may_be_same(codes[c], found.codes[i]))
                continue;
            if (strcasecmp(codes[c], found.codes[i]) == 0) {
                same = codes[c];
                break;
            }
            if (!same && language_is_same(codes[c], found.codes[i]))
                same = codes[c];
        }
        if (same)
            detection->items[detection->n++] = {same, found.percents[i] / divisor};
    }
}

} // namespace

void detect_guess(const char *text, size_t bytes, bool is_html, struct detect_guess *guess)
{
    *guess = ask(text, bytes, is_html, 0, nullptr);
    if (!guess->codes[0][0]) {
        *guess = ask(text, bytes, is_html, CLD2::kCLDFlagBestEffort, nullptr);
        guess->is_reliable = false;
    }
}

void detect_judge(const struct detect_guess *guess, const char *const *codes, size_t n_codes,
                  struct detection *detection)
{
    *detection = {};
    detection->certain = {"", 0};
    if (guess->is_reliable)
        detection->certain = {guess->codes[0], guess->percents[0]};
    take(*guess, codes, n_codes, guess->is_reliable ? 1 : 2, detection);
}

void detect_languages(const char *text, size_t bytes, bool is_html, const char *const *codes,
                      size_t n_codes, struct detection *detection)
{
    const struct detect_guess strict = ask(text, bytes, is_html, 0, nullptr);
    char hint[128] = "";

    detect_judge(&strict, codes, n_codes, detection);
    if (detection->n > 0 || detection->certain.code[0])
        return;
    take(ask(text, bytes, is_html, CLD2::kCLDFlagBestEffort, nullptr), codes, n_codes, 2,
         detection);
    if (detection->n > 0 || n_codes > MANY)
        return;
    for (size_t i = 0; i < n_codes; i++)
        snprintf(hint + strlen(hint), sizeof(hint) - strlen(hint), "%s%s", i > 0 ? "," : "",
                 codes[i]);
    take(ask(text, bytes, is_html, CLD2::kCLDFlagBestEffort, hint), codes, n_codes, 4, detection);
}

bool detect_has_letters(const char *text, size_t bytes)
{
    UChar32 character;

    for (size_t at = 0; at < bytes;) {
        U8_NEXT(text, at, bytes, character);
        if (character > 0 && u_isalpha(character))
            return true;
    }
    return false;
}
