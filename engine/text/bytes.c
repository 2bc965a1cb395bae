#include "text/bytes.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "text/utf8.h"

void bytes_name(struct byte_names *names)
{
    snprintf(names->of[BYTES_PAD], sizeof(names->of[0]), "<pad>");
    snprintf(names->of[BYTES_END], sizeof(names->of[0]), "</s>");
    for (unsigned byte = 0; byte < 256; byte++)
        snprintf(names->of[BYTES_FIRST + byte], sizeof(names->of[0]),
                 byte > 0x20 && byte < 0x7F ? "%c" : "<0x%02X>", byte);
}

int bytes_encode(const char *text, size_t text_bytes, struct tokens *out)
{
    int code = mem_reserve(&out->ids, &out->capacity, out->n + text_bytes, sizeof(*out->ids));
    if (code)
        return code;
    int32_t *ids = out->ids + out->n;
    for (size_t i = 0; i < text_bytes; i++)
        ids[i] = BYTES_FIRST + (unsigned char)text[i];
    out->n += text_bytes;
    return 0;
}

/* The byte that "<0xHH>" names, or -1. */
static int named_byte(const char *token, size_t token_bytes)
{
    static const char digits[] = "0123456789ABCDEFabcdef";
    if (token_bytes != 6 || memcmp(token, "<0x", 3) || token[5] != '>')
        return -1;
    int byte = 0;
    for (int i = 3; i < 5; i++) {
        const char *digit = memchr(digits, token[i], sizeof(digits) - 1);
        if (!digit)
            return -1;
        int value = (int)(digit - digits);
        byte = byte * 16 + (value < 16 ? value : value - 6);
    }
    return byte;
}

int bytes_encode_token(const char *token, size_t token_bytes, struct tokens *out)
{
    int byte = named_byte(token, token_bytes);
    if (byte >= 0)
        return tokens_append(out, BYTES_FIRST + byte);
    size_t end = 0;
    int32_t character = utf8_next(token, token_bytes, &end);
    if (character < 0 || end != token_bytes)
        return ACRE_EINPUT;
    return bytes_encode(token, token_bytes, out);
}

/* Copies `bytes` bytes to out[3 * bytes + 1], each part that is no UTF-8 as U+FFFD. */
static void copy_valid(const char *text, size_t bytes, char *out)
{
    for (size_t at = 0; at < bytes;) {
        size_t begin = at;
        int32_t character = utf8_next(text, bytes, &at);
        if (character < 0) {
            memcpy(out, "\xEF\xBF\xBD", 3);
            out += 3;
        } else if (character > 0) {
            memcpy(out, text + begin, at - begin);
            out += at - begin;
        }
    }
    *out = '\0';
}

char *bytes_decode(const int32_t *ids, size_t n)
{
    char *raw = mem_alloc(n), *text = mem_alloc(3 * n + 1);
    if (raw && text) {
        size_t bytes = 0;
        for (size_t i = 0; i < n; i++)
            if (ids[i] >= BYTES_FIRST && ids[i] < BYTES_VOCAB)
                raw[bytes++] = (char)(unsigned char)(ids[i] - BYTES_FIRST);
        copy_valid(raw, bytes, text);
    } else {
        mem_free(text);
        text = NULL;
    }
    mem_free(raw);
    return text;
}
