/* Happy path: read one character from as many tokens as it takes -> name it if it cannot be seen ->
 * write it to three streams in memory: as it is shown, as it is, and the whole sentence.
 * Failure modes: no memory: false. Bytes that are no character become labels of their own. */
#include "attention/labels.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/markup.h" /* markup_character() */
#include "common/unicode.h"

#define SPACE_MARK "\xe2\x90\xa3"    /* U+2423, an open box */
#define WORD_MARK "\xe2\x96\x81"     /* U+2581, what SentencePiece writes for a space */
#define DOTTED_CIRCLE "\xe2\x97\x8c" /* U+25CC, what an accent of its own stands on */
#define NO_CHARACTER "\xef\xbf\xbd"  /* U+FFFD */

enum { CHARACTER_BYTES = 4, SHOWN_BYTES = 16 };

/* ---- Marks ----------------------------------------------------------------------------------- */

/* Blanks, and what has no form or changes the order of what is around it. */
static bool is_invisible(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x80, 0xa0},     {0xad, 0xad},       {0x61c, 0x61c},   {0x115f, 0x1160}, {0x1680, 0x1680},
        {0x180e, 0x180e}, {0x2000, 0x200f},   {0x2028, 0x202f}, {0x205f, 0x206f}, {0x3000, 0x3000},
        {0x3164, 0x3164}, {0xfe00, 0xfe0f},   {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff0, 0xfffb},
        {0xfffe, 0xffff}, {0xe0000, 0xe0fff},
    };

    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

static bool is_accent(uint32_t code)
{
    return (code >= 0x300 && code <= 0x36f) || (code >= 0x1ab0 && code <= 0x1aff) ||
           (code >= 0x1dc0 && code <= 0x1dff) || (code >= 0x20d0 && code <= 0x20ff) ||
           (code >= 0xfe20 && code <= 0xfe2f);
}

/* What XML or HTML may not hold: control characters but white space, and what is no character. */
static bool is_forbidden(uint32_t code)
{
    const bool is_blank = code == '\t' || code == '\n' || code == '\r';

    return (code < ' ' && !is_blank) || (code >= 0x7f && code < 0xa0) || code == 0xfffe ||
           code == 0xffff;
}

/* How a character is shown. */
static enum attention_label_kind show(char shown[SHOWN_BYTES], const char *character, size_t n,
                                      bool is_first)
{
    uint32_t code;

    markup_character(character, &code);
    if (code == ' ') {
        strcpy(shown, SPACE_MARK);
        return LABEL_SPACE;
    }
    if (code < ' ' || code == 0x7f) { /* U+2400 on are pictures of them */
        snprintf(shown, SHOWN_BYTES, "\xe2\x90%c", code < ' ' ? 0x80 + (int)code : 0xa1);
        return LABEL_MARK;
    }
    if (is_invisible(code)) {
        snprintf(shown, SHOWN_BYTES, "U+%04X", (unsigned)code);
        return LABEL_MARK;
    }
    snprintf(shown, SHOWN_BYTES, "%s%.*s", is_first && is_accent(code) ? DOTTED_CIRCLE : "", (int)n,
             character);
    return LABEL_TEXT;
}

/* ---- Labels ---------------------------------------------------------------------------------- */

/* The byte that a token <0xHH> stands for, or -1. */
static int named_byte(const char *token)
{
    char *end;
    unsigned long byte;

    if (strlen(token) != 6 || strncmp(token, "<0x", 3) != 0)
        return -1;
    byte = strtoul(token + 3, &end, 16);
    return end == token + 5 && *end == '>' ? (int)byte : -1;
}

/* How many byte tokens, from the first on, are one character; 0 if they are none. */
static size_t read_character(const char *const *tokens, size_t n, char character[CHARACTER_BYTES])
{
    for (size_t i = 0; i < n && i < CHARACTER_BYTES; i++) {
        const int byte = named_byte(tokens[i]);

        if (byte < 0)
            return 0;
        character[i] = (char)byte;
        if (unicode_valid_bytes(character, i + 1) == i + 1)
            return i + 1;
    }
    return 0;
}

/* Texts of labels on their way; each label's are found by their lengths. */
struct writer {
    FILE *texts, *plain, *sentence;
};

static void put(const struct writer *writer, const char *text, const char *plain)
{
    fputs(text, writer->texts);
    fputs(plain, writer->plain);
}

/* The character itself, or how it is shown where a page may not hold it. */
static void put_in_sentence(const struct writer *writer, const char *character, const char *shown)
{
    uint32_t code;
    const size_t n = markup_character(character, &code);

    if (is_forbidden(code))
        fputs(shown, writer->sentence);
    else
        fwrite(character, 1, n, writer->sentence);
}

static enum attention_label_kind put_character(const struct writer *writer, const char *character,
                                               size_t n)
{
    char shown[SHOWN_BYTES];
    const enum attention_label_kind kind = show(shown, character, n, true);

    put(writer, shown, kind == LABEL_SPACE ? " " : shown);
    put_in_sentence(writer, character, shown);
    return kind;
}

/* The first character of a token's rest, or a byte that is none. Returns its bytes. */
static size_t put_part(const struct writer *writer, const char *part, size_t rest, bool is_first)
{
    char shown[SHOWN_BYTES] = NO_CHARACTER;
    bool is_mark;
    size_t n;
    uint32_t code;

    if (unicode_valid_bytes(part, rest) == 0) {
        put(writer, shown, shown);
        fputs(shown, writer->sentence);
        return 1;
    }
    n = markup_character(part, &code);
    show(shown, part, n, is_first);
    is_mark = strcmp(shown, WORD_MARK) == 0;
    put(writer, shown, is_mark ? " " : shown);
    if (!is_mark)
        put_in_sentence(writer, part, shown);
    else if (ftell(writer->sentence) > 0) /* the first word's is SentencePiece's own */
        fputc(' ', writer->sentence);
    return n;
}

static enum attention_label_kind put_token(const struct writer *writer, const char *token)
{
    const size_t bytes = strlen(token);
    const bool is_special = bytes > 2 && token[0] == '<' && token[bytes - 1] == '>';

    for (size_t at = 0; at < bytes;)
        at += put_part(writer, token + at, bytes - at, at == 0);
    if (strcmp(token, WORD_MARK) == 0)
        return LABEL_SPACE;
    return is_special ? LABEL_MARK : LABEL_TEXT;
}

static enum attention_label_kind put_byte(const struct writer *writer, int byte)
{
    char shown[SHOWN_BYTES];

    snprintf(shown, sizeof(shown), "%02X", (unsigned)byte);
    put(writer, shown, NO_CHARACTER);
    fputs(NO_CHARACTER, writer->sentence);
    return LABEL_BYTE;
}

/* Fills `label`, but not where its texts are. */
static void put_label(const struct writer *writer, struct attention_label *label,
                      const char *const *tokens, size_t n, size_t at)
{
    char character[CHARACTER_BYTES];
    const size_t n_bytes = read_character(tokens + at, n - at, character);
    const int byte = named_byte(tokens[at]);
    const long texts = ftell(writer->texts), plain = ftell(writer->plain);

    *label = (struct attention_label){.first = at, .n_tokens = n_bytes > 0 ? n_bytes : 1};
    if (n_bytes > 0)
        label->kind = put_character(writer, character, n_bytes);
    else if (byte >= 0)
        label->kind = put_byte(writer, byte);
    else
        label->kind = put_token(writer, tokens[at]);
    if (at == n - 1)
        label->kind = LABEL_END;
    label->text_bytes = (size_t)(ftell(writer->texts) - texts);
    label->plain_bytes = (size_t)(ftell(writer->plain) - plain);
}

static bool put_labels(const struct writer *writer, struct attention_labels *labels,
                       const char *const *tokens, size_t n)
{
    for (size_t at = 0; at < n; labels->n++) {
        struct attention_label *label = &labels->items[labels->n];

        labels->sentence_bytes = (size_t)ftell(writer->sentence); /* in the end, without the last */
        put_label(writer, label, tokens, n, at);
        for (size_t end = at + label->n_tokens; at < end; at++)
            labels->of_token[at] = labels->n;
    }
    return !ferror(writer->texts) && !ferror(writer->plain) && !ferror(writer->sentence);
}

static bool fill(struct attention_labels *labels, const char *const *tokens, size_t n)
{
    size_t texts_bytes, plain_bytes, sentence_bytes;
    struct writer writer = {.texts = open_memstream(&labels->texts, &texts_bytes),
                            .plain = open_memstream(&labels->plain, &plain_bytes),
                            .sentence = open_memstream(&labels->sentence, &sentence_bytes)};
    bool is_whole = labels->items && labels->of_token && writer.texts && writer.plain &&
                    writer.sentence && put_labels(&writer, labels, tokens, n);

    if (writer.texts && fclose(writer.texts) != 0)
        is_whole = false;
    if (writer.plain && fclose(writer.plain) != 0)
        is_whole = false;
    if (writer.sentence && fclose(writer.sentence) != 0)
        is_whole = false;
    return is_whole;
}

bool attention_labels_open(struct attention_labels *labels, const char *const *tokens, size_t n)
{
    const char *text, *plain;

    *labels = (struct attention_labels){.items = calloc(n, sizeof(labels->items[0])),
                                        .of_token = calloc(n, sizeof(labels->of_token[0]))};
    if (!fill(labels, tokens, n)) {
        attention_labels_close(labels);
        return false;
    }
    text = labels->texts;
    plain = labels->plain;
    for (size_t i = 0; i < labels->n; i++) {
        labels->items[i].text = text;
        labels->items[i].plain = plain;
        text += labels->items[i].text_bytes;
        plain += labels->items[i].plain_bytes;
    }
    return true;
}

void attention_labels_close(struct attention_labels *labels)
{
    free(labels->items);
    free(labels->of_token);
    free(labels->texts);
    free(labels->plain);
    free(labels->sentence);
    *labels = (struct attention_labels){.items = NULL};
}

const char *attention_labels_plain(const struct attention_labels *labels, size_t first,
                                   size_t n_tokens, size_t *bytes)
{
    const struct attention_label *from = &labels->items[labels->of_token[first]];
    const struct attention_label *to = &labels->items[labels->of_token[first + n_tokens - 1]];

    *bytes = (size_t)(to->plain + to->plain_bytes - from->plain);
    if (from->kind == LABEL_TEXT && from->plain[0] == ' ' && *bytes > 1) {
        --*bytes; /* a piece that begins a word */
        return from->plain + 1;
    }
    return from->plain;
}
