/* A hash table of chains, whose entries are also in a list by their last use. An entry is one
 * block: its key, then the source's tokens, then what is in sentence.tokens.
 *
 * Happy path: cache_get() finds an entry, moves it to the front, and copies it out. Failure modes:
 * without memory for a copy a sentence is not found, and is translated; without memory for an entry
 * it is not kept. */
#include "cache.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#include "base/mem.h"

enum { BYTES_PER_CHAIN = 1024, BLOCK_BYTES = 16 /* what malloc adds to a block, about */ };

struct kept_hypothesis {
    size_t n_tokens;
    float score;
};

struct entry {
    struct entry *next;          /* of its chain */
    struct entry *newer, *older; /* by use */
    uint64_t hash, model;
    struct acre_decoding decoding;
    bool is_aligned;
    size_t first_item;         /* alignments differ by it */
    int32_t last, first_token; /* of the source; of the translation's prefix, -1: it has none */
    size_t n_source, n_hypotheses, n_tokens;
    int32_t *source, *tokens; /* in this block */
    struct kept_hypothesis hypotheses[];
};

struct cache {
    pthread_mutex_t lock; /* guards all that follows */
    size_t bytes, max_bytes;
    struct entry **chains; /* owned */
    size_t n_chains;       /* a power of two */
    uint64_t seed;         /* so that nobody can choose sentences of one chain */
    struct entry *newest, *oldest;
};

/* ---- Keys ------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ (hash >> 32);
}

static int32_t first_token(const struct sentence *sentence)
{
    return sentence->prefix.n > 0 ? sentence->translation[0] : -1;
}

/* Equal reals have equal bits, but for zeros, whose signs the sum makes one. */
static uint32_t bits_of(float real)
{
    uint32_t bits;
    real += 0.0F;
    memcpy(&bits, &real, sizeof(bits));
    return bits;
}

static uint64_t mix_decoding(uint64_t hash, const struct acre_decoding *decoding)
{
#define MIX_INT(name, min, max, help) hash = mix(hash, (uint32_t)decoding->name);
#define MIX_REAL(name, min, max, help) hash = mix(hash, bits_of(decoding->name));
    ACRE_DECODING_OPTIONS(MIX_INT, MIX_REAL)
#undef MIX_INT
#undef MIX_REAL
    return hash;
}

/* Of all that is_for() compares: else whoever varies what is left out fills one chain. */
static uint64_t hash_of(const struct cache *cache, uint64_t model, const struct sentence *sentence)
{
    uint64_t hash = mix_decoding(mix(cache->seed, model), &sentence->decoding);
    hash = mix(mix(hash, sentence->is_aligned), sentence->first_item);
    hash = mix(mix(hash, (uint32_t)sentence->last), (uint32_t)first_token(sentence));
    for (size_t i = 0; i < sentence->n_source; i++)
        hash = mix(hash, (uint32_t)sentence->source[i]);
    return hash;
}

static bool is_same_decoding(const struct acre_decoding *a, const struct acre_decoding *b)
{
#define AND_SAME(name, min, max, help) &&a->name == b->name
    return true ACRE_DECODING_OPTIONS(AND_SAME, AND_SAME);
#undef AND_SAME
}

static bool is_for(const struct entry *entry, uint64_t model, const struct sentence *sentence)
{
    return entry->model == model && entry->is_aligned == sentence->is_aligned &&
           entry->first_item == sentence->first_item && entry->n_source == sentence->n_source &&
           entry->last == sentence->last && entry->first_token == first_token(sentence) &&
           is_same_decoding(&entry->decoding, &sentence->decoding) &&
           memcmp(entry->source, sentence->source, entry->n_source * sizeof(*entry->source)) == 0;
}

static struct entry **chain_of(struct cache *cache, uint64_t hash)
{
    return &cache->chains[hash & (cache->n_chains - 1)];
}

static struct entry *find(struct cache *cache, uint64_t hash, uint64_t model,
                          const struct sentence *sentence)
{
    struct entry *entry = *chain_of(cache, hash);
    while (entry && (entry->hash != hash || !is_for(entry, model, sentence)))
        entry = entry->next;
    return entry;
}

/* ---- The list by use ------------------------------------------------------------------------- */

static void unlink_entry(struct cache *cache, struct entry *entry)
{
    *(entry->newer ? &entry->newer->older : &cache->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &cache->oldest) = entry->newer;
}

static void link_newest(struct cache *cache, struct entry *entry)
{
    entry->newer = NULL;
    entry->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = entry;
    cache->newest = entry;
}

static size_t entry_bytes(size_t n_hypotheses, size_t n_source, size_t n_tokens)
{
    return sizeof(struct entry) + n_hypotheses * sizeof(struct kept_hypothesis) +
           (n_source + n_tokens) * sizeof(int32_t);
}

static size_t bytes_of(const struct entry *entry)
{
    return entry_bytes(entry->n_hypotheses, entry->n_source, entry->n_tokens) + BLOCK_BYTES;
}

static void drop(struct cache *cache, struct entry *entry)
{
    struct entry **link = chain_of(cache, entry->hash);
    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    unlink_entry(cache, entry);
    cache->bytes -= bytes_of(entry);
    mem_free(entry);
}

static void add(struct cache *cache, struct entry *entry)
{
    struct entry **chain = chain_of(cache, entry->hash);
    entry->next = *chain;
    *chain = entry;
    link_newest(cache, entry);
    cache->bytes += bytes_of(entry);
    while (cache->bytes > cache->max_bytes)
        drop(cache, cache->oldest);
}

/* ---- Copies ---------------------------------------------------------------------------------- */

static size_t numbers_of(const struct sentence *sentence)
{
    size_t n = 0;
    for (size_t i = 0; i < sentence->n_hypotheses; i++)
        n += (sentence->is_aligned ? 2 : 1) * sentence->hypotheses[i].n_tokens;
    return n;
}

static struct entry *make(uint64_t hash, uint64_t model, const struct sentence *sentence)
{
    size_t n_hypotheses = sentence->n_hypotheses, n_tokens = numbers_of(sentence);
    struct entry *entry = mem_alloc(entry_bytes(n_hypotheses, sentence->n_source, n_tokens));
    if (!entry)
        return NULL;
    *entry = (struct entry){
        .hash = hash,
        .model = model,
        .decoding = sentence->decoding,
        .is_aligned = sentence->is_aligned,
        .first_item = sentence->first_item,
        .last = sentence->last,
        .first_token = first_token(sentence),
        .n_source = sentence->n_source,
        .n_hypotheses = n_hypotheses,
        .n_tokens = n_tokens,
        .source = (int32_t *)(void *)&entry->hypotheses[n_hypotheses],
    };
    entry->tokens = entry->source + entry->n_source;
    memcpy(entry->source, sentence->source, entry->n_source * sizeof(*entry->source));
    memcpy(entry->tokens, sentence->tokens, n_tokens * sizeof(*entry->tokens));
    for (size_t i = 0; i < n_hypotheses; i++)
        entry->hypotheses[i] = (struct kept_hypothesis){sentence->hypotheses[i].n_tokens,
                                                        sentence->hypotheses[i].score};
    return entry;
}

/* The sentence's own, laid out as the batch does it. */
static bool copy_out(const struct entry *entry, struct sentence *sentence)
{
    sentence->hypotheses = mem_alloc(entry->n_hypotheses * sizeof(*sentence->hypotheses));
    sentence->tokens = mem_alloc(entry->n_tokens * sizeof(*sentence->tokens));
    if (!sentence->hypotheses || !sentence->tokens) {
        sentence_fini(sentence);
        sentence->hypotheses = NULL;
        sentence->tokens = NULL;
        return false;
    }
    const int32_t *place =
        memcpy(sentence->tokens, entry->tokens, entry->n_tokens * sizeof(*sentence->tokens));
    for (size_t i = 0; i < entry->n_hypotheses; i++) {
        const struct kept_hypothesis *from = &entry->hypotheses[i];
        struct sentence_hypothesis *to = &sentence->hypotheses[i];
        *to = (struct sentence_hypothesis){place, from->n_tokens, from->score, NULL};
        place += from->n_tokens;
        to->alignment = entry->is_aligned ? place : NULL;
        place += entry->is_aligned ? from->n_tokens : 0;
    }
    sentence->n_hypotheses = entry->n_hypotheses;
    sentence->status = 0;
    return true;
}

/* ---- The cache ------------------------------------------------------------------------------- */

bool cache_get(struct cache *cache, uint64_t model, struct sentence *sentence)
{
    uint64_t hash = hash_of(cache, model, sentence);
    pthread_mutex_lock(&cache->lock);
    struct entry *entry = find(cache, hash, model, sentence);
    if (entry) {
        unlink_entry(cache, entry);
        link_newest(cache, entry);
    }
    bool is_cached = entry && copy_out(entry, sentence);
    pthread_mutex_unlock(&cache->lock);
    return is_cached;
}

/* The same sentence may be decoded twice at a time; the first one done is kept. */
void cache_put(struct cache *cache, uint64_t model, const struct sentence *sentence)
{
    uint64_t hash = hash_of(cache, model, sentence);
    struct entry *entry = make(hash, model, sentence);
    if (!entry)
        return;
    pthread_mutex_lock(&cache->lock);
    if (find(cache, hash, model, sentence))
        mem_free(entry);
    else
        add(cache, entry);
    pthread_mutex_unlock(&cache->lock);
}

size_t cache_bytes(struct cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    size_t bytes = cache->bytes;
    pthread_mutex_unlock(&cache->lock);
    return bytes;
}

struct cache *cache_open(size_t max_bytes)
{
    struct cache *cache = mem_calloc(1, sizeof(*cache));
    if (!cache)
        return NULL;
    pthread_mutex_init(&cache->lock, NULL);
    if (getrandom(&cache->seed, sizeof(cache->seed), 0) < 0)
        cache->seed = (uintptr_t)cache;
    cache->n_chains = 1;
    while (cache->n_chains < max_bytes / BYTES_PER_CHAIN)
        cache->n_chains *= 2;
    cache->chains = mem_calloc(cache->n_chains, sizeof(*cache->chains));
    cache->bytes = sizeof(*cache) + cache->n_chains * sizeof(*cache->chains);
    cache->max_bytes = max_bytes > cache->bytes ? max_bytes : cache->bytes;
    if (cache->chains)
        return cache;
    cache_close(cache);
    return NULL;
}

void cache_close(struct cache *cache)
{
    if (!cache)
        return;
    for (struct entry *entry = cache->newest, *older; entry; entry = older) {
        older = entry->older;
        mem_free(entry);
    }
    mem_free(cache->chains);
    pthread_mutex_destroy(&cache->lock);
    mem_free(cache);
}
