/* labels.h - how a sentence's tokens are shown to people.
 *
 * A label stands for one token, or for the adjacent byte tokens of one character. What cannot be
 * seen is named: a space token is ␣, a control character its picture, say ␊, another character its
 * number, say U+00A0. No state, any thread.
 */
#ifndef SERVER_ATTENTION_LABELS_H
#define SERVER_ATTENTION_LABELS_H

#include <stdbool.h>
#include <stddef.h>

enum attention_label_kind {
    LABEL_TEXT,
    LABEL_SPACE,
    LABEL_MARK, /* a special token, or the number of a character that cannot be seen */
    LABEL_BYTE, /* two hexadecimal digits: a byte that is no part of a character */
    LABEL_END   /* the end token */
};

struct attention_label {
    const char *text; /* UTF-8 */
    size_t text_bytes;
    const char *plain; /* what stands there in the sentence, without marks */
    size_t plain_bytes;
    enum attention_label_kind kind;
    size_t first, n_tokens; /* what it stands for */
};

struct attention_labels {
    struct attention_label *items; /* owned, [n] */
    size_t n;
    size_t *of_token;    /* owned, [tokens]: index of the label */
    char *texts, *plain; /* owned, of all labels one after the other */
    char *sentence;      /* owned: the text that was typed or translated, without the end token */
    size_t sentence_bytes;
};

/* Of a sentence's tokens, the last of which is the end token. False without memory. */
bool attention_labels_open(struct attention_labels *labels, const char *const *tokens, size_t n);
void attention_labels_close(struct attention_labels *labels);

/* The plain text of some tokens, one at least; borrowed and not terminated. */
const char *attention_labels_plain(const struct attention_labels *labels, size_t first,
                                   size_t n_tokens, size_t *bytes);

#endif
