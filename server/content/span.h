/* span.h - looking ahead in a text, for those who find placeholders in it. No state, any thread.
 */
#ifndef SERVER_CONTENT_SPAN_H
#define SERVER_CONTENT_SPAN_H

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The text from a place to its end. */
struct span {
    const char *at;
    size_t n;
};

/* '\0' behind its end. */
static inline char peek(struct span s, size_t i)
{
    return i < s.n ? s.at[i] : '\0';
}

/* Of a word, as far as a byte tells. */
static inline bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static inline bool is_one_of(char c, const char *set)
{
    return c && strchr(set, c);
}

/* Behind the bytes from i on that are of `set`. */
static inline size_t skip(struct span s, size_t i, const char *set)
{
    while (is_one_of(peek(s, i), set))
        i++;
    return i;
}

static inline bool begins(struct span s, size_t i, const char *word)
{
    const size_t n = strlen(word);

    return i + n <= s.n && memcmp(s.at + i, word, n) == 0;
}

static inline bool is_blank(char c)
{
    return isspace((unsigned char)c);
}

#endif
