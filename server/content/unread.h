/* unread.h - what a model cannot read, and so is to be kept: words with letters that it has not met
 * ("Дмитрий"), numbers that normalising would change ("10⁸" into "108"), and signs. No state, any
 * thread.
 */
#ifndef SERVER_CONTENT_UNREAD_H
#define SERVER_CONTENT_UNREAD_H

#include <stdbool.h>
#include <stddef.h>

#include "content/known.h"

/* Bytes of the word at `at`, or of several with such letters; 0 if none begins there. A term of a
 * glossary with any of its words goes before. Time is linear over a text. */
size_t unread_word(const char *text, size_t bytes, size_t at, const struct known *known);

/* Bytes of signs, within a word, too: "word¹", "Name™"; 0 if there are none, or if terms have them.
 */
size_t unread_signs(const char *text, size_t bytes, size_t at, const struct known *known);

/* Bytes of the letter at `at` that looks like an apostrophe, which models read in its place:
 * "donʼt"; 0 if it is none, or if the model reads it or terms have the word. */
size_t unread_apostrophe(const char *text, size_t bytes, size_t at, const struct known *known);

/* Of one that a reference stands for. */
bool unread_character(uint32_t character, const struct known *known);

/* Whether it is a word that begins with the bytes at `at`, and no sign. */
bool unread_is_word(const char *text, size_t bytes, size_t at);

#endif
