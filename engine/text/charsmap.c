/* Happy path: list the trie's units -> follow every path from the root, as Darts does, and see that
 * each offset and string stays inside -> count, per path, the rules that fit one text.
 * Failure modes: an offset or string that leaves the table, a root that is no node, or a text that
 * more than 32 rules fit: ACRE_EMODEL. Work and memory are linear in the table's size. */
#include "text/charsmap.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "acre.h"
#include "base/mem.h"

enum {
    MAX_RULES = 32,          /* that fit one place: Normalizer::kMaxTrieResultsSize */
    MAX_STRING_BYTES = 1024, /* of what a rule puts there; NFKC needs 33 */
    ALIGNED = 0xFF,          /* a unit's children are within 256 units, aligned */
};

/* Darts-clone's trie. Unit i leads to the units base(i) ^ next byte that have this byte as label,
 * and if it ends a key, its value stands in unit base(i). Units with the highest bit are such
 * values and match no byte, but nobody looks at the root's label. */
struct trie {
    const unsigned char *units;
    size_t n;
};

static uint32_t read_u32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint32_t unit_at(const struct trie *trie, size_t i)
{
    return read_u32(trie->units + 4 * i);
}

static bool is_value(const struct trie *trie, size_t i)
{
    return unit_at(trie, i) >> 31;
}

static bool ends_key(const struct trie *trie, size_t i)
{
    return unit_at(trie, i) >> 8 & 1;
}

static size_t base_of(const struct trie *trie, size_t i)
{
    uint32_t unit = unit_at(trie, i);
    return i ^ (size_t)(unit >> 10) << (unit >> 6 & 8);
}

static bool stays_within(const struct trie *trie, const unsigned char *strings,
                         size_t strings_bytes)
{
    for (size_t i = 0; i < trie->n; i++) {
        if (i > 0 && is_value(trie, i))
            continue;
        size_t base = base_of(trie, i);
        if ((base | ALIGNED) >= trie->n)
            return false;
        size_t value = unit_at(trie, base) & 0x7FFFFFFF;
        if (!ends_key(trie, i))
            continue;
        if (value >= strings_bytes)
            return false;
        size_t left = strings_bytes - value;
        if (!memchr(strings + value, '\0', left < MAX_STRING_BYTES ? left : MAX_STRING_BYTES))
            return false;
    }
    return true;
}

/* What has_few_rules() works in, [trie.n] each. Units are named by number plus one, 0 is none. */
struct paths {
    uint32_t *first, *next; /* the units that base b leads to: a list for each b */
    uint32_t *todo;         /* bases whose list has to be gone through */
    uint8_t *most;          /* keys that end on the way to a base, at most, plus one; 0: no way */
    bool *is_waiting;       /* in `todo` */
    size_t n_todo;
};

static void list_units(const struct trie *trie, struct paths *paths)
{
    for (size_t i = 0; i < trie->n && (i | ALIGNED) < trie->n; i++) {
        if (is_value(trie, i))
            continue;
        size_t base = i ^ (unit_at(trie, i) & ALIGNED);
        paths->next[i] = paths->first[base];
        paths->first[base] = (uint32_t)i + 1;
    }
}

static void reach(struct paths *paths, size_t base, int most)
{
    if (paths->most[base] >= most)
        return;
    paths->most[base] = (uint8_t)most;
    if (!paths->is_waiting[base])
        paths->todo[paths->n_todo++] = (uint32_t)base;
    paths->is_waiting[base] = true;
}

/* Whether no text, however long, meets more than MAX_RULES ends of keys on its way from the root:
 * also where the way leads in circles. A base is gone through again only when more keys are found
 * to end before it, so that the time is linear. */
static bool has_few_rules(const struct trie *trie, struct paths *paths)
{
    list_units(trie, paths);
    reach(paths, base_of(trie, 0), 1);
    while (paths->n_todo > 0) {
        uint32_t base = paths->todo[--paths->n_todo];
        paths->is_waiting[base] = false;
        for (uint32_t name = paths->first[base]; name > 0; name = paths->next[name - 1]) {
            int most = paths->most[base] + ends_key(trie, name - 1);
            if (most > MAX_RULES + 1)
                return false;
            reach(paths, base_of(trie, name - 1), most);
        }
    }
    return true;
}

static int check_rules(const struct trie *trie)
{
    struct paths paths = {0};
    char *memory = mem_calloc(trie->n, 3 * sizeof(uint32_t) + sizeof(uint8_t) + sizeof(bool));
    if (!memory)
        return ACRE_ENOMEM;
    paths.first = (uint32_t *)(void *)memory;
    paths.next = paths.first + trie->n;
    paths.todo = paths.next + trie->n;
    paths.most = (uint8_t *)(paths.todo + trie->n);
    paths.is_waiting = (bool *)(paths.most + trie->n);
    bool is_sound = has_few_rules(trie, &paths);
    mem_free(memory);
    return is_sound ? 0 : ACRE_EMODEL;
}

/* Length of the trie, the trie, strings that end with NUL. */
int charsmap_check(const unsigned char *map, size_t bytes)
{
    if (bytes == 0)
        return 0;
    if (bytes < 4)
        return ACRE_EMODEL;
    size_t trie_bytes = read_u32(map), rest = bytes - 4;
    if (trie_bytes % 4 || trie_bytes == 0 || trie_bytes >= rest)
        return ACRE_EMODEL;
    struct trie trie = {map + 4, trie_bytes / 4};
    if (!stays_within(&trie, map + 4 + trie_bytes, rest - trie_bytes))
        return ACRE_EMODEL;
    return check_rules(&trie);
}
