#include "search/constraint.h"

#include <string.h>

#include "base/mem.h"

/* States of UTF-8: between characters, or what the next byte must be. */
enum utf8_state {
    UTF8_START,
    UTF8_LAST,    /* one more 80..BF */
    UTF8_TWO,     /* two more */
    UTF8_THREE,   /* three more */
    UTF8_E0,      /* A0..BF, then one more */
    UTF8_ED,      /* 80..9F, then one more */
    UTF8_F0,      /* 90..BF, then two more */
    UTF8_F4,      /* 80..8F, then two more */
    N_UTF8_STATES /* CONSTRAINT_STATES */
};

static enum utf8_state after_start(int byte)
{
    if (byte < 0x80)
        return UTF8_START;
    if (byte < 0xE0)
        return UTF8_LAST;
    if (byte < 0xF0)
        return byte == 0xE0 ? UTF8_E0 : byte == 0xED ? UTF8_ED : UTF8_TWO;
    return byte == 0xF0 ? UTF8_F0 : byte == 0xF4 ? UTF8_F4 : UTF8_THREE;
}

static enum utf8_state after(enum utf8_state state, int byte)
{
    switch (state) {
    case UTF8_START:
        return after_start(byte);
    case UTF8_TWO:
    case UTF8_E0:
    case UTF8_ED:
        return UTF8_LAST;
    case UTF8_THREE:
    case UTF8_F0:
    case UTF8_F4:
        return UTF8_TWO;
    default:
        return UTF8_START;
    }
}

/* Continuation bytes that must follow before the text may end. */
static int bytes_owed(enum utf8_state state)
{
    static const int owed[N_UTF8_STATES] = {0, 1, 2, 3, 2, 2, 3, 3};
    return owed[state];
}

static bool byte_fits(enum utf8_state state, int byte)
{
    static const struct {
        int low, high;
    } range[N_UTF8_STATES] = {{0, 0},       {0x80, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF},
                              {0xA0, 0xBF}, {0x80, 0x9F}, {0x90, 0xBF}, {0x80, 0x8F}};
    if (state == UTF8_START)
        return (byte >= 0x01 && byte < 0x80) || (byte >= 0xC2 && byte <= 0xF4);
    return byte >= range[state].low && byte <= range[state].high;
}

static void set_bit(uint32_t *set, int id, bool value)
{
    uint32_t bit = UINT32_C(1) << (id % 32);
    set[id / 32] = value ? set[id / 32] | bit : set[id / 32] & ~bit;
}

static void allow_bytes(uint32_t *set, const struct constraint_options *options,
                        enum utf8_state state, int room)
{
    for (int id = CONSTRAINT_FIRST_BYTE; id < options->vocab_size; id++) {
        int byte = id - CONSTRAINT_FIRST_BYTE;
        bool fits =
            byte <= 0xFF && byte_fits(state, byte) && 1 + bytes_owed(after(state, byte)) <= room;
        set_bit(set, id, fits);
    }
}

static void fill_set(const struct constraint *constraint, const struct constraint_options *options,
                     size_t state, size_t room_class, bool end_allowed)
{
    size_t index = (state * CONSTRAINT_ROOMS + room_class) * 2 + (end_allowed ? 1 : 0);
    uint32_t *set = constraint->sets + index * constraint->words;
    memset(set, 0xFF, constraint->words * sizeof(*set));
    if (options->bytes) {
        for (int id = 0; id < CONSTRAINT_FIRST_BYTE; id++)
            set_bit(set, id, false);
        allow_bytes(set, options, (enum utf8_state)state, (int)room_class + 1);
    }
    for (int id = options->vocab_size; (size_t)id < 32 * constraint->words; id++)
        set_bit(set, id, false);
    set_bit(set, options->end_token, end_allowed && state == UTF8_START);
    for (int i = 0; i < options->n_forbidden; i++)
        set_bit(set, options->forbidden[i], false);
}

static void fill_next(uint8_t *next)
{
    for (int state = 0; state < N_UTF8_STATES; state++)
        for (int byte = 0; byte < 256; byte++)
            next[state * 256 + byte] = (uint8_t)after((enum utf8_state)state, byte);
}

int constraint_open(const struct constraint_options *options, struct constraint **out)
{
    struct constraint *constraint = mem_calloc(1, sizeof(*constraint));
    if (!constraint)
        return ACRE_ENOMEM;
    size_t n_states = options->bytes ? N_UTF8_STATES : 1;
    constraint->words = ((size_t)options->vocab_size + 31) / 32;
    constraint->sets =
        mem_alloc(n_states * CONSTRAINT_ROOMS * 2 * constraint->words * sizeof(uint32_t));
    if (options->bytes)
        constraint->next = mem_alloc(n_states * 256);
    if (!constraint->sets || (options->bytes && !constraint->next)) {
        constraint_close(constraint);
        return ACRE_ENOMEM;
    }
    if (options->bytes)
        fill_next(constraint->next);
    for (size_t state = 0; state < n_states; state++)
        for (size_t room = 0; room < CONSTRAINT_ROOMS; room++)
            for (int end = 0; end < 2; end++)
                fill_set(constraint, options, state, room, end != 0);
    *out = constraint;
    return 0;
}

void constraint_close(struct constraint *constraint)
{
    if (constraint) {
        mem_free(constraint->sets);
        mem_free(constraint->next);
    }
    mem_free(constraint);
}
