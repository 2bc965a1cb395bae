/* detect.h - which language a text is in, among those that matter (by CLD2).
 *
 * CLD2 knows 80 languages and cannot be told to choose among a few, so that it is asked up to three
 * times: as strict as it is, for its best guess, and with a hint of what the text may be. The
 * confidence says which of them it was. No state, any thread; the time is linear in the text.
 */
#ifndef SERVER_CONTENT_DETECT_H
#define SERVER_CONTENT_DETECT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DETECT_MOST = 3 };

struct detected {
    const char *code;
    int confidence; /* 0 to 100: the share of the text that is in it; half of that of a guess from
                     * little text, a quarter of it where a hint decided */
};

struct detection {
    struct detected items[DETECT_MOST]; /* of those asked about, borrowed; best first */
    size_t n;                           /* 0: none of them is likely */
    struct detected certain;            /* what it is without doubt, of all; or "". Static code */
};

/* What a text looks like, whichever languages matter. */
struct detect_guess {
    const char *codes[DETECT_MOST]; /* static, best first; "" is none */
    int percents[DETECT_MOST];
    int text_bytes; /* of words, without markup, digits and the like */
    bool is_reliable;
};

/* Among codes[n_codes], which compare without case. `text` is valid UTF-8. */
void detect_languages(const char *text, size_t bytes, bool is_html, const char *const *codes,
                      size_t n_codes, struct detection *detection);

/* The first of the questions, or the second where it has no answer; and what that says of
 * codes[n_codes]. */
void detect_guess(const char *text, size_t bytes, bool is_html, struct detect_guess *guess);
void detect_judge(const struct detect_guess *guess, const char *const *codes, size_t n_codes,
                  struct detection *detection);

/* Whether it has a letter at all, of any script. */
bool detect_has_letters(const char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
