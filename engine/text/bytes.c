#include "text/bytes.h"

#include <stdio.h>
#include <string.h>
#include <unicode/unorm2.h>
#include <unicode/ustring.h>

#include "base/mem.h"
#include "text/utf8.h"

enum {
    FIRST_MARK = 0x300, /* no character below it composes with one before it */
    MAX_PART = 32,      /* more characters than Unicode's stream-safe format has in one part; a part
                         * is cut there, as sorting its marks takes the square of its length */
    MAX_COMPOSED = 9 * 2 * MAX_PART, /* bytes: three times its UTF-16 (UAX 15, 12), each to three */
};

void bytes_name(struct byte_names *names)
{
    snprintf(names->of[BYTES_PAD], sizeof(names->of[0]), "<pad>");
    snprintf(names->of[BYTES_END], sizeof(names->of[0]), "</s>");
    for (unsigned byte = 0; byte < 256; byte++)
        snprintf(names->of[BYTES_FIRST + byte], sizeof(names->of[0]),
                 byte > 0x20 && byte < 0x7F ? "%c" : "<0x%02X>", byte);
}

/* ---- Composing ------------------------------------------------------------------------------- */

/* Where the part ends that begins at `at`. */
static size_t part_end(const UNormalizer2 *nfc, const char *text, size_t text_bytes, size_t at)
{
    size_t end = at;
    utf8_next(text, text_bytes, &end);
    for (int i = 1; i < MAX_PART && end < text_bytes; i++) {
        size_t next = end;
        int32_t character = utf8_next(text, text_bytes, &next);
        if (character < FIRST_MARK || unorm2_hasBoundaryBefore(nfc, character))
            break;
        end = next;
    }
    return end;
}

/* Writes the part in NFC to composed[MAX_COMPOSED]; returns its bytes, 0 after a failure. */
static size_t compose(const UNormalizer2 *nfc, const char *part, size_t bytes, char *composed)
{
    UChar plain[2 * MAX_PART], units[MAX_COMPOSED / 3];
    UErrorCode status = U_ZERO_ERROR;
    int32_t n, n_bytes;
    u_strFromUTF8(plain, 2 * MAX_PART, &n, part, (int32_t)bytes, &status);
    n = unorm2_normalize(nfc, plain, n, units, MAX_COMPOSED / 3, &status);
    u_strToUTF8(composed, MAX_COMPOSED, &n_bytes, units, n, &status);
    return U_SUCCESS(status) ? (size_t)n_bytes : 0;
}

int bytes_compose(const char *text, size_t text_bytes, bytes_part_fn *part, void *user)
{
    UErrorCode error = U_ZERO_ERROR;
    const UNormalizer2 *nfc = unorm2_getNFCInstance(&error);
    int status = U_SUCCESS(error) ? 0 : ACRE_ENOMEM;
    for (size_t at = 0, end; at < text_bytes && !status; at = end) {
        char composed[MAX_COMPOSED];
        end = part_end(nfc, text, text_bytes, at);
        size_t n = compose(nfc, text + at, end - at, composed);
        status = n ? part(user, (struct acre_range){at, end - at}, composed, n) : ACRE_ENOMEM;
    }
    return status;
}

static int append_bytes(struct tokens *out, const char *text, size_t bytes)
{
    int status = mem_reserve(&out->ids, &out->capacity, out->n + bytes, sizeof(*out->ids));
    for (size_t i = 0; i < bytes && !status; i++)
        out->ids[out->n++] = BYTES_FIRST + (unsigned char)text[i];
    return status;
}

static int append_part(void *user, struct acre_range source, const char *composed, size_t bytes)
{
    (void)source;
    return append_bytes(user, composed, bytes);
}

/* Characters below U+0300, the first that NFC may change, are as they are. */
static bool is_composed(const char *text, size_t text_bytes)
{
    for (size_t i = 0; i < text_bytes; i++)
        if ((unsigned char)text[i] >= 0xCC)
            return false;
    return true;
}

int bytes_encode(const char *text, size_t text_bytes, struct tokens *out)
{
    return is_composed(text, text_bytes) ? append_bytes(out, text, text_bytes)
                                         : bytes_compose(text, text_bytes, append_part, out);
}

/* ---- Tokens as people write them ------------------------------------------------------------- */

int bytes_named(const char *token, size_t token_bytes)
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
    int byte = bytes_named(token, token_bytes);
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
