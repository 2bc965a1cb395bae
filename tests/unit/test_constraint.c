/* The constraint's grammar of UTF-8, exhaustively: what it lets through is every character there
 * is and nothing else, the end token only between characters, no character begun that the length
 * limit cuts. The sets depend on state, room and end only, so one character from every state that
 * an empty hypothesis can be in stands for texts of any length. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "../support/random.h"
#include "search/constraint.h"

enum { END = 1, FIRST_BYTE = 2, N_SCALARS = 0x110000, ROOM = 10, MAX_BYTES = 4 };

static struct constraint *open_bytes(int vocab_size, const int *forbidden, int n_forbidden)
{
    struct constraint *constraint;
    struct constraint_options options = {.vocab_size = vocab_size,
                                         .end_token = END,
                                         .forbidden = forbidden,
                                         .n_forbidden = n_forbidden,
                                         .bytes = true};
    assert_int_equal(constraint_open(&options, &constraint), 0);
    return constraint;
}

static bool allows(const uint32_t *set, int id)
{
    return set[id / 32] >> (id % 32) & 1;
}

/* Bytes of the UTF-8 of a scalar value, by the table of RFC 3629. */
static int encode(uint32_t scalar, unsigned char *out)
{
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    int n = scalar < 0x80 ? 1 : scalar < 0x800 ? 2 : scalar < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, scalar >>= 6)
        out[i] = (unsigned char)(0x80 | (scalar & 0x3F));
    out[0] = (unsigned char)(lead[n] | scalar);
    return n;
}

/* The scalar value that bytes[n] spell if they are exactly one character; -1 if not. */
static long decode(const unsigned char *bytes, int n)
{
    static const unsigned char mask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    unsigned char again[MAX_BYTES];
    uint32_t scalar = bytes[0] & mask[n];
    for (int i = 1; i < n; i++)
        scalar = scalar << 6 | (bytes[i] & 0x3F);
    if (scalar >= N_SCALARS || (scalar >= 0xD800 && scalar <= 0xDFFF) ||
        encode(scalar, again) != n || memcmp(again, bytes, (size_t)n) != 0)
        return -1;
    return (long)scalar;
}

/* ---- Everything that may follow -------------------------------------------------------------- */

/* Walks all byte sequences that the constraint allows, until a character is complete. */
struct walk {
    const struct constraint *constraint;
    unsigned char bytes[MAX_BYTES];
    bool *seen; /* [N_SCALARS] */
    long n_seen;
    int room; /* tokens besides the end, before the first byte */
};

static void walk(struct walk *w, uint8_t state, int n);

static void walk_byte(struct walk *w, uint8_t state, int n, int byte)
{
    uint8_t next = constraint_next(w->constraint, state, FIRST_BYTE + byte);
    w->bytes[n] = (unsigned char)byte;
    if (next != 0) {
        if (n + 1 >= w->room || n + 1 >= MAX_BYTES)
            fail_msg("%02X %02X %02X: not complete after %d bytes, room for %d", w->bytes[0],
                     w->bytes[1], w->bytes[2], n + 1, w->room);
        walk(w, next, n + 1);
        return;
    }
    long scalar = decode(w->bytes, n + 1);
    if (scalar <= 0 || w->seen[scalar])
        fail_msg("%02X %02X %02X %02X (%d bytes): no character", w->bytes[0], w->bytes[1],
                 w->bytes[2], w->bytes[3], n + 1);
    w->seen[scalar] = true;
    w->n_seen++;
}

static void walk(struct walk *w, uint8_t state, int n)
{
    const uint32_t *set = constraint_allowed(w->constraint, state, w->room - n, true);
    const uint32_t *no_end = constraint_allowed(w->constraint, state, w->room - n, false);
    long before = w->n_seen;
    if (allows(set, END) != (n == 0) || allows(no_end, END) || allows(set, 0))
        fail_msg("end or pad allowed wrongly after %d bytes of a character", n);
    for (int byte = 0; byte < 256; byte++) {
        if (allows(set, FIRST_BYTE + byte) != allows(no_end, FIRST_BYTE + byte))
            fail_msg("byte %02X depends on the end token", (unsigned)byte);
        if (allows(set, FIRST_BYTE + byte))
            walk_byte(w, state, n, byte);
    }
    if (w->n_seen == before)
        fail_msg("nothing may follow after %d bytes of a character", n);
}

static struct walk walk_all(const struct constraint *constraint, int room)
{
    struct walk w = {.constraint = constraint, .room = room};
    w.seen = calloc(N_SCALARS, sizeof(*w.seen));
    walk(&w, 0, 0);
    return w;
}

static int bytes_of(uint32_t scalar)
{
    unsigned char bytes[MAX_BYTES];
    return encode(scalar, bytes);
}

/* Exactly the characters that fit the room, U+0000 and surrogates left out. */
static void room_decides_the_characters(void **state)
{
    (void)state;
    struct constraint *constraint = open_bytes(258, NULL, 0);
    for (int room = 1; room <= 6; room++) {
        struct walk w = walk_all(constraint, room);
        for (uint32_t scalar = 0; scalar < N_SCALARS; scalar++) {
            bool surrogate = scalar >= 0xD800 && scalar <= 0xDFFF;
            bool wanted = scalar > 0 && !surrogate && bytes_of(scalar) <= room;
            if (w.seen[scalar] != wanted)
                fail_msg("U+%04X with room for %d bytes: %s", (unsigned)scalar, room,
                         wanted ? "cannot be reached" : "allowed");
        }
        free(w.seen);
    }
    constraint_close(constraint);
}

/* The first characters decide nothing for those after them: random texts, byte by byte, with the
 * room that is left; every one ends complete. */
static void random_texts_end_complete(void **state)
{
    (void)state;
    struct constraint *constraint = open_bytes(258, NULL, 0);
    random_seed(3);
    for (int round = 0; round < 20000; round++) {
        int left = (int)random_pick(1, 12);
        uint8_t at = 0;
        for (; left > 0; left--) {
            const uint32_t *set = constraint_allowed(constraint, at, left, true);
            int id;
            do
                id = (int)random_pick(FIRST_BYTE, 257);
            while (!allows(set, id));
            at = constraint_next(constraint, at, id);
        }
        assert_int_equal(at, 0);
    }
    constraint_close(constraint);
}

static void forbidden_bytes_never_come(void **state)
{
    (void)state;
    int forbidden[] = {0, FIRST_BYTE + 'x', FIRST_BYTE + 0xE4};
    struct constraint *constraint = open_bytes(300, forbidden, 3);
    struct walk w = walk_all(constraint, ROOM);
    for (uint32_t scalar = 1; scalar < N_SCALARS; scalar++) {
        unsigned char bytes[MAX_BYTES];
        encode(scalar, bytes);
        bool surrogate = scalar >= 0xD800 && scalar <= 0xDFFF;
        assert_int_equal(w.seen[scalar], !surrogate && bytes[0] != 'x' && bytes[0] != 0xE4);
    }
    for (int id = FIRST_BYTE + 256; id < 300; id++) /* ids that are no byte */
        assert_false(allows(constraint_allowed(constraint, 0, ROOM, true), id));
    free(w.seen);
    constraint_close(constraint);
}

/* ---- Token vocabularies ---------------------------------------------------------------------- */

static void tokens_are_free_but_for_the_forbidden(void **state)
{
    (void)state;
    random_seed(4);
    for (int round = 0; round < 300; round++) {
        int vocab_size = (int)random_pick(3, 200), end = (int)random_pick(0, 2);
        int forbidden[10], n_forbidden = (int)random_pick(0, 10);
        bool is_forbidden[200] = {false};
        for (int i = 0; i < n_forbidden; i++) {
            forbidden[i] = (int)random_pick(0, (size_t)vocab_size - 1);
            is_forbidden[forbidden[i]] = true;
        }
        struct constraint_options options = {.vocab_size = vocab_size,
                                             .end_token = end,
                                             .forbidden = forbidden,
                                             .n_forbidden = n_forbidden};
        struct constraint *constraint;
        assert_int_equal(constraint_open(&options, &constraint), 0);
        for (int id = 0; id < vocab_size; id++) {
            bool end_allowed = random_pick(0, 1);
            const uint32_t *set =
                constraint_allowed(constraint, 0, (int)random_pick(1, 600), end_allowed);
            assert_int_equal(allows(set, id), !is_forbidden[id] && (id != end || end_allowed));
            assert_int_equal(constraint_next(constraint, 0, id), 0);
        }
        constraint_close(constraint);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(room_decides_the_characters),
        cmocka_unit_test(random_texts_end_complete),
        cmocka_unit_test(forbidden_bytes_never_come),
        cmocka_unit_test(tokens_are_free_but_for_the_forbidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
