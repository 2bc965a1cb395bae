/* Plain area attention against its definition in double precision (tests/support/area_reference.h):
 * of whole sentences, of a step over a cache, of a memory; by rows and by tiles; and the same bits
 * in any batch and in any order of threads. */
#include "suites.h"

#include <algorithm>

#include "device/cuda/attend.h"
#include "support.h"

extern "C" {
#include "../support/area_reference.h"
}

enum { AMPLE = 232448, SMALL = 65536 }; /* shared memory of a block, H200 and T4 */

namespace
{
/* How attention is computed. */
struct mode {
    enum number_type type;
    int n_heads, width, area_width; /* H, D, A */
    bool is_mean, is_causal;
    float spread;
};

/* Items of one head, and who attends to them. */
struct items {
    std::vector<float> keys, values; /* [L][D] */
};

/* Sentences with their queries, keys and values: rows of [3][H][D]. */
struct sentences {
    struct mode mode;
    std::vector<int32_t> first; /* [B + 1] */
    std::vector<float> qkv;     /* as the type rounds it */
};
} // namespace

static double bound_of(const mode &mode)
{
    return mode.type == NUMBER_F32 ? 1e-5 : mode.type == NUMBER_F16 ? 2e-3 : 1.2e-2;
}

static size_t bytes_of_type(enum number_type type)
{
    return type == NUMBER_F32 ? 4 : 2;
}

static std::vector<char> typed(enum number_type type, const std::vector<float> &x)
{
    return type == NUMBER_F32   ? bytes_of(x)
           : type == NUMBER_F16 ? bytes_of(narrowed<f16>(x))
                                : bytes_of(narrowed<bf16>(x));
}

static std::vector<float> floats_of(enum number_type type, const std::vector<char> &bytes)
{
    std::vector<float> x(bytes.size() / bytes_of_type(type));
    for (size_t i = 0; i < x.size(); i++)
        x[i] = load_number(bytes.data(), type, i);
    return x;
}

static std::vector<float> random_typed(const mode &mode, size_t n, float spread)
{
    return floats_of(mode.type, typed(mode.type, random_numbers(n, spread)));
}

static mode random_mode(enum number_type type, int i)
{
    const int widths[] = {32, 64, 128, random_int(1, 31), random_int(33, 63), 12, 18, 200};
    const float spreads[] = {0.3f, 0.05f, 1.0f};
    return {type,       random_int(1, 3), widths[i % 8],     random_int(1, 5),
            i % 4 == 1, i % 2 == 0,       spreads[i / 3 % 3]};
}

/* What one query gets, [D], of the first `seen` items. */
static std::vector<double> attend(const mode &mode, const items &items, const float *query,
                                  int seen)
{
    struct area_reference reference = {};
    reference.rule.width = mode.area_width;
    reference.rule.value = mode.is_mean ? AREA_VALUE_MEAN : AREA_VALUE_SUM;
    reference.key = AREA_KEY_MEAN;
    reference.d = (size_t)mode.width;
    std::vector<double> out((size_t)mode.width);
    struct area_memory memory =
        area_reference_open(&reference, (size_t)seen, items.keys.data(), items.values.data());
    area_reference_attend(&memory, query, nullptr, out.data(), nullptr);
    area_reference_close(&memory);
    return out;
}

/* ---- Sentences ------------------------------------------------------------------------------- */

static sentences make_sentences(const mode &mode, int n, int longest)
{
    sentences s = {mode, {0}, {}};
    for (int b = 0; b < n; b++)
        s.first.push_back(s.first.back() + (b == 0 ? longest : random_int(1, longest)));
    size_t row = (size_t)(mode.n_heads * mode.width);
    for (int r = 0; r < s.first.back(); r++) {
        std::vector<float> query = random_typed(mode, row, mode.spread);
        std::vector<float> keys_values = random_typed(mode, 2 * row, 1);
        s.qkv.insert(s.qkv.end(), query.begin(), query.end());
        s.qkv.insert(s.qkv.end(), keys_values.begin(), keys_values.end());
    }
    return s;
}

/* Sentences b ... b + n - 1, alone in their batch: contexts [R][H][D]. */
static std::vector<float> run_sentences(const sentences &s, int b, int n, size_t shared_bytes)
{
    int begin = s.first[(size_t)b], c = s.mode.n_heads * s.mode.width, longest = 0;
    int m = s.first[(size_t)(b + n)] - begin;
    std::vector<int32_t> first, of_row, tiles;
    for (int i = 0; i <= n; i++)
        first.push_back(s.first[(size_t)(b + i)] - begin);
    for (int i = 0; i < n; i++) {
        int length = first[(size_t)i + 1] - first[(size_t)i];
        longest = std::max(longest, length);
        of_row.insert(of_row.end(), (size_t)length, i);
        for (int query = 0; query < length; query += ATTEND_TILE)
            tiles.insert(tiles.end(), {i, query});
    }
    int n_tiles = (int)tiles.size() / 2;
    std::vector<float> qkv(&s.qkv[(size_t)begin * 3 * (size_t)c],
                           &s.qkv[0] + (size_t)(begin + m) * 3 * (size_t)c);
    device_array<char> d_qkv(typed(s.mode.type, qkv));
    device_array<char> context((size_t)(m * c) * bytes_of_type(s.mode.type));
    device_array<int32_t> d_first(first), d_of_row(of_row), d_tiles(tiles);
    device_array<int32_t> n_rows(std::vector<int32_t>(1, m));
    device_array<int32_t> d_n_tiles(std::vector<int32_t>(1, n_tiles));
    attend_task task = {};
    task.items_of = ITEMS_OF_SENTENCE;
    task.query = d_qkv.at, task.context = context.at;
    task.query_stride = 3 * c, task.context_stride = c;
    task.n_heads = s.mode.n_heads, task.head_width = s.mode.width;
    task.area_width = s.mode.area_width, task.is_mean = s.mode.is_mean;
    task.max_length = longest;
    task.n_rows = n_rows;
    task.sentences = d_of_row, task.first = d_first, task.is_causal = s.mode.is_causal;
    task.tiles = d_tiles, task.n_tiles = d_n_tiles;
    attend_sentences_launch(test_stream(), s.mode.type, task, m + 1, n_tiles + 1, shared_bytes);
    test_wait();
    return floats_of(s.mode.type, context.get());
}

/* One head of one sentence. */
static items items_of_sentence(const sentences &s, int b, int head)
{
    int h = s.mode.n_heads, d = s.mode.width;
    items items;
    for (int r = s.first[(size_t)b]; r < s.first[(size_t)b + 1]; r++) {
        const float *key = &s.qkv[(size_t)(((r * 3 + 1) * h + head) * d)];
        items.keys.insert(items.keys.end(), key, key + d);
        items.values.insert(items.values.end(), key + h * d, key + h * d + d);
    }
    return items;
}

static std::vector<double> expected_of_sentences(const sentences &s)
{
    int h = s.mode.n_heads, d = s.mode.width;
    std::vector<double> all((size_t)(s.first.back() * h * d));
    for (int b = 0; b + 1 < (int)s.first.size(); b++)
        for (int head = 0; head < h; head++) {
            items items = items_of_sentence(s, b, head);
            int length = s.first[(size_t)b + 1] - s.first[(size_t)b];
            for (int i = 0; i < length; i++) {
                int r = s.first[(size_t)b] + i;
                std::vector<double> one =
                    attend(s.mode, items, &s.qkv[(size_t)((r * 3 * h + head) * d)],
                           s.mode.is_causal ? i + 1 : length);
                std::copy(one.begin(), one.end(), &all[(size_t)((r * h + head) * d)]);
            }
        }
    return all;
}

static const enum number_type types[] = {NUMBER_F32, NUMBER_F16, NUMBER_BF16};

static void check_sentences(const sentences &s, size_t shared_bytes)
{
    std::vector<float> context = run_sentences(s, 0, (int)s.first.size() - 1, shared_bytes);
    check_near("sentences", distance(context, expected_of_sentences(s)), bound_of(s.mode));
}

static void test_sentences(void **)
{
    for (enum number_type type : types)
        for (int i = 0; i < 24; i++)
            check_sentences(make_sentences(random_mode(type, i), 3, random_int(1, 20)), AMPLE);
}

/* Several tiles, with every width; one and two tiles of items in shared memory. */
static void test_long_sentences(void **)
{
    for (int a = 1; a <= 5; a++) {
        mode mode = {a % 2 ? NUMBER_F16 : NUMBER_BF16, 1, 32, a, a == 3, a % 3 == 1, 0.3f};
        check_sentences(make_sentences(mode, 1, random_int(62, 70)), AMPLE);
        mode.type = NUMBER_F16;
        mode.width = 64;
        check_sentences(make_sentences(mode, 1, random_int(124, 133)), SMALL);
    }
}

/* Wider areas, wide heads, and what shared memory has no room for in tiles: by rows. */
static void test_by_rows(void **)
{
    for (int a : {6, 9, 16})
        check_sentences(make_sentences({NUMBER_F16, 2, 32, a, a == 9, false, 0.3f}, 2, 23), AMPLE);
    check_sentences(make_sentences({NUMBER_F16, 1, 384, 2, false, false, 0.1f}, 2, 9), AMPLE);
    check_sentences(make_sentences({NUMBER_F32, 2, 256, 3, true, true, 0.1f}, 2, 9), AMPLE);
    check_sentences(make_sentences({NUMBER_F16, 1, 128, 3, false, true, 0.1f}, 2, 30), SMALL);
}

static void test_sentences_alone(void **)
{
    for (enum number_type type : types) {
        sentences s = make_sentences(random_mode(type, 1), 3, random_int(30, 70));
        int b = random_int(0, 2), c = s.mode.n_heads * s.mode.width;
        std::vector<float> all = run_sentences(s, 0, 3, AMPLE);
        std::vector<float> alone = run_sentences(s, b, 1, AMPLE);
        assert_memory_equal(alone.data(), &all[(size_t)(s.first[(size_t)b] * c)],
                            alone.size() * sizeof(float));
        assert_true(run_sentences(s, 0, 3, SMALL) == all || type == NUMBER_F32);
    }
}

static void test_sentence_schedules(void **)
{
    for (int a : {1, 4}) {
        sentences tiles = make_sentences({NUMBER_F16, 1, 32, a, false, true, 0.3f}, 2, 70);
        sentences rows = make_sentences({NUMBER_F32, 2, 32, a, true, false, 0.3f}, 2, 12);
        check_schedules("tiles", [&] { return bytes_of(run_sentences(tiles, 0, 2, AMPLE)); });
        check_schedules("rows", [&] { return bytes_of(run_sentences(rows, 0, 2, AMPLE)); });
    }
}

static void test_sentence_barriers(void **)
{
    /* Two tiles of items in turn need three, before the first is written again. */
    sentences tiles = make_sentences({NUMBER_F16, 1, 32, 4, false, false, 0.3f}, 1, 140);
    sentences rows = make_sentences({NUMBER_F32, 1, 32, 4, true, false, 0.3f}, 1, 140);
    sentences wide = make_sentences({NUMBER_F32, 1, 256, 4, true, false, 0.3f}, 1, 10);
    check_barriers("tiles", [&] { return bytes_of(run_sentences(tiles, 0, 1, AMPLE)); });
    check_barriers("tiles, few", [&] { return bytes_of(run_sentences(tiles, 0, 1, 45000)); });
    check_barriers("rows", [&] { return bytes_of(run_sentences(rows, 0, 1, AMPLE)); });
    check_barriers("wide rows", [&] { return bytes_of(run_sentences(wide, 0, 1, AMPLE)); });
}

/* ---- Steps ----------------------------------------------------------------------------------- */

namespace
{
/* Rows of a step that share beginnings of their paths, as hypotheses of a beam do. */
struct step {
    struct mode mode;
    int m, longest;
    std::vector<float> qkv, cache;       /* [R][3][H][D], [numbers][2][H][D] */
    std::vector<int32_t> paths, lengths; /* [R][longest], [R] */
};
} // namespace

static step make_step(const mode &mode, int m, int longest)
{
    size_t row = (size_t)(mode.n_heads * mode.width);
    step s = {mode, m, longest, {}, random_typed(mode, (size_t)(m * longest) * 2 * row, 1), {}, {}};
    s.paths.assign((size_t)(m * longest), -1);
    for (int r = 0; r < m; r++) {
        std::vector<float> query = random_typed(mode, row, mode.spread);
        std::vector<float> keys_values = random_typed(mode, 2 * row, 1);
        s.qkv.insert(s.qkv.end(), query.begin(), query.end());
        s.qkv.insert(s.qkv.end(), keys_values.begin(), keys_values.end());
        s.lengths.push_back(r == 0 ? longest : random_int(1, longest));
        for (int i = 0; i < s.lengths[(size_t)r]; i++) {
            int ancestor = i == s.lengths[(size_t)r] - 1 ? r : random_int(0, r);
            if (i == s.lengths[(size_t)ancestor] - 1) /* its row writes that one in this step */
                ancestor = r;
            s.paths[(size_t)(r * longest + i)] = i * m + ancestor;
        }
    }
    return s;
}

/* Rows r ... r + n - 1 in a launch of their own: their contexts, and what they wrote. */
static std::vector<float> run_step(const step &s, int r, int n)
{
    int c = s.mode.n_heads * s.mode.width;
    size_t item = 2 * (size_t)c * bytes_of_type(s.mode.type);
    std::vector<char> numbers = typed(s.mode.type, s.cache);
    device_array<char> qkv(typed(s.mode.type, s.qkv)), cache(numbers.size());
    device_array<char> context((size_t)(n * c) * bytes_of_type(s.mode.type));
    std::vector<int32_t> path_rows;
    for (int i = 0; i < n; i++)
        path_rows.push_back(r + i);
    device_array<int32_t> paths(s.paths), lengths(s.lengths), d_path_rows(path_rows);
    device_array<int32_t> n_rows(std::vector<int32_t>(1, n));
    for (int i = r; i < r + n; i++) /* what earlier steps wrote */
        for (int m = 0; m < s.lengths[(size_t)i] - 1; m++) {
            size_t at = (size_t)s.paths[(size_t)(i * s.longest + m)] * item;
            cudaMemcpy(cache.at + at, &numbers[at], item, cudaMemcpyHostToDevice);
        }
    attend_task task = {};
    task.items_of = ITEMS_OF_STEP;
    task.query = qkv.at + (size_t)(r * 3 * c) * bytes_of_type(s.mode.type);
    task.context = context.at;
    task.query_stride = 3 * c, task.context_stride = c;
    task.n_heads = s.mode.n_heads, task.head_width = s.mode.width;
    task.area_width = s.mode.area_width, task.is_mean = s.mode.is_mean;
    task.max_length = s.longest;
    task.n_rows = n_rows;
    task.items = cache.at;
    task.paths = n > 1 ? paths.at : paths + r * s.longest, task.path_stride = s.longest;
    task.path_rows = n > 1 ? d_path_rows.at : nullptr;
    task.lengths = lengths + r;
    attend_step_launch(test_stream(), s.mode.type, task, n + 1);
    test_wait();
    std::vector<float> result = floats_of(s.mode.type, context.get());
    /* The new items are where later steps look for them, unless a barrier is left out. */
    for (int i = r; i < r + n && emulate::test.skipped_site < 0; i++) {
        int last = s.lengths[(size_t)i] - 1;
        std::vector<char> stored(item);
        cudaMemcpy(stored.data(), cache.at + (size_t)s.paths[(size_t)(i * s.longest + last)] * item,
                   item, cudaMemcpyDeviceToHost);
        std::vector<float> want(&s.qkv[(size_t)((i * 3 + 1) * c)],
                                &s.qkv[0] + (size_t)((i * 3 + 3) * c));
        assert_true(floats_of(s.mode.type, stored) == want);
    }
    return result;
}

static std::vector<double> expected_of_step(const step &s)
{
    int h = s.mode.n_heads, d = s.mode.width;
    std::vector<double> all;
    for (int r = 0; r < s.m; r++)
        for (int head = 0; head < h; head++) {
            items items;
            int length = s.lengths[(size_t)r];
            for (int m = 0; m < length; m++) {
                size_t at = (size_t)((s.paths[(size_t)(r * s.longest + m)] * 2 * h + head) * d);
                const float *key =
                    m == length - 1 ? &s.qkv[(size_t)(((r * 3 + 1) * h + head) * d)] : &s.cache[at];
                items.keys.insert(items.keys.end(), key, key + d);
                items.values.insert(items.values.end(), key + h * d, key + h * d + d);
            }
            std::vector<double> one =
                attend(s.mode, items, &s.qkv[(size_t)((r * 3 * h + head) * d)], length);
            all.insert(all.end(), one.begin(), one.end());
        }
    return all;
}

static void test_steps(void **)
{
    for (enum number_type type : types)
        for (int i = 0; i < 24; i++) {
            int longest = i % 6 == 5 ? random_int(120, 140) : random_int(1, 40);
            mode mode = random_mode(type, i);
            mode.area_width = i % 8 == 7 ? random_int(6, 16) : mode.area_width;
            step s = make_step(mode, random_int(1, 5), longest);
            std::vector<float> context = run_step(s, 0, s.m);
            check_near("step", distance(context, expected_of_step(s)), bound_of(s.mode));
        }
}

static void test_steps_alone(void **)
{
    for (enum number_type type : types) {
        step s = make_step(random_mode(type, 2), 5, 40);
        int r = random_int(0, 4), c = s.mode.n_heads * s.mode.width;
        std::vector<float> all = run_step(s, 0, 5), alone = run_step(s, r, 1);
        assert_memory_equal(alone.data(), &all[(size_t)(r * c)], alone.size() * sizeof(float));
        check_schedules("step", [&] { return bytes_of(run_step(s, 0, 5)); });
    }
    step s = make_step({NUMBER_F16, 1, 64, 4, false, false, 0.3f}, 3, 140);
    check_barriers("step", [&] { return bytes_of(run_step(s, 0, 3)); });
}

/* ---- Memories -------------------------------------------------------------------------------- */

namespace
{
/* Slots with items, and groups of queries that attend to them. */
struct memory {
    struct mode mode;
    sentences items;             /* the queries in it are not used */
    std::vector<int32_t> groups; /* [n][3]: slot, first row, rows */
    std::vector<float> query;    /* [R][H][D] */
    int most_rows;
};
} // namespace

enum { SLOTS = 4, POSITIONS = 90 };

static memory make_memory(const mode &mode, int n_groups, int longest)
{
    memory m = {mode, make_sentences(mode, SLOTS, longest), {}, {}, 1};
    int row = 0;
    for (int g = 0; g < n_groups; g++) {
        int n = random_int(1, 9);
        m.groups.insert(m.groups.end(), {SLOTS - 1 - g, row, n});
        m.most_rows = std::max(m.most_rows, n);
        row += n;
    }
    m.query = random_typed(mode, (size_t)(row * mode.n_heads * mode.width), mode.spread);
    return m;
}

/* What store_memory reads: keys and values without the queries. */
static std::vector<float> keys_values_of(const sentences &s)
{
    size_t c = (size_t)(s.mode.n_heads * s.mode.width);
    std::vector<float> rows;
    for (size_t r = 0; r < (size_t)s.first.back(); r++)
        rows.insert(rows.end(), &s.qkv[(3 * r + 1) * c], &s.qkv[0] + 3 * (r + 1) * c);
    return rows;
}

/* Groups g ... g + n - 1. Sentence b is kept in slot b + 1, of one more. */
static std::vector<float> run_memory(const memory &m, int g, int n)
{
    int c = m.mode.n_heads * m.mode.width, rows = m.items.first.back();
    size_t number = bytes_of_type(m.mode.type), slot = (size_t)POSITIONS * 2 * (size_t)c;
    int begin = m.groups[(size_t)(3 * g + 1)];
    int end = m.groups[(size_t)(3 * (g + n - 1) + 1)] + m.groups[(size_t)(3 * (g + n - 1) + 2)];
    std::vector<int32_t> groups(&m.groups[(size_t)(3 * g)], &m.groups[0] + 3 * (g + n));
    std::vector<int32_t> of_row, slots, lengths(1, -1);
    for (int b = 0; b < SLOTS; b++) {
        lengths.push_back(m.items.first[(size_t)b + 1] - m.items.first[(size_t)b]);
        of_row.insert(of_row.end(), (size_t)lengths.back(), b);
        slots.push_back(b + 1);
    }
    for (int i = 0; i < n; i++) {
        groups[(size_t)(3 * i)] += 1;
        groups[(size_t)(3 * i + 1)] -= begin;
    }
    device_array<char> keys_values(typed(m.mode.type, keys_values_of(m.items)));
    device_array<char> kept((SLOTS + 1) * slot * number);
    device_array<char> query(typed(
        m.mode.type, std::vector<float>(&m.query[(size_t)(begin * c)], &m.query[0] + end * c)));
    device_array<char> context((size_t)((end - begin) * c) * number);
    device_array<int32_t> d_of_row(of_row), d_slots(slots), d_lengths(lengths), d_groups(groups);
    device_array<int32_t> first(m.items.first), n_rows(std::vector<int32_t>(1, rows));
    device_array<int32_t> n_groups(std::vector<int32_t>(1, n));
    store_memory_launch(test_stream(), m.mode.type,
                        {keys_values.at, keys_values.at + (size_t)c * number, c, 2 * c, 2 * c,
                         kept.at, slot, d_of_row, first, d_slots, n_rows},
                        rows + 2);
    attend_task task = {};
    task.items_of = ITEMS_OF_MEMORY;
    task.query = query.at, task.context = context.at;
    task.query_stride = task.context_stride = c;
    task.n_heads = m.mode.n_heads, task.head_width = m.mode.width;
    task.area_width = m.mode.area_width, task.is_mean = m.mode.is_mean;
    task.max_length = POSITIONS;
    task.n_rows = n_rows;
    task.items = kept.at, task.slot_stride = slot, task.lengths = d_lengths;
    task.slots = d_groups, task.n_groups = n_groups;
    attend_memory_launch(test_stream(), m.mode.type, task, n + 1, m.most_rows);
    test_wait();
    return floats_of(m.mode.type, context.get());
}

static std::vector<double> expected_of_memory(const memory &m)
{
    int h = m.mode.n_heads, d = m.mode.width;
    std::vector<double> all(m.query.size());
    for (size_t g = 0; g < m.groups.size(); g += 3)
        for (int head = 0; head < h; head++) {
            int b = m.groups[g], length = m.items.first[(size_t)b + 1] - m.items.first[(size_t)b];
            items items = items_of_sentence(m.items, b, head);
            for (int r = m.groups[g + 1]; r < m.groups[g + 1] + m.groups[g + 2]; r++) {
                size_t at = (size_t)((r * h + head) * d);
                std::vector<double> one = attend(m.mode, items, &m.query[at], length);
                std::copy(one.begin(), one.end(), &all[at]);
            }
        }
    return all;
}

static void test_memories(void **)
{
    for (enum number_type type : types)
        for (int i = 0; i < 12; i++) {
            int longest = i % 6 == 5 ? POSITIONS : random_int(1, 30);
            memory m = make_memory(random_mode(type, i), random_int(1, 3), longest);
            std::vector<float> context = run_memory(m, 0, (int)m.groups.size() / 3);
            check_near("memory", distance(context, expected_of_memory(m)), bound_of(m.mode));
        }
}

static void test_memories_alone(void **)
{
    for (enum number_type type : types) {
        memory m = make_memory(random_mode(type, 1), 3, 40);
        int g = random_int(0, 2), c = m.mode.n_heads * m.mode.width;
        std::vector<float> all = run_memory(m, 0, 3), alone = run_memory(m, g, 1);
        assert_memory_equal(alone.data(), &all[(size_t)(m.groups[(size_t)(3 * g + 1)] * c)],
                            alone.size() * sizeof(float));
        check_schedules("memory", [&] { return bytes_of(run_memory(m, 0, 3)); });
    }
}

int attend_suite()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_long_sentences),
        cmocka_unit_test(test_by_rows),
        cmocka_unit_test(test_sentences_alone),
        cmocka_unit_test(test_sentence_schedules),
        cmocka_unit_test(test_sentence_barriers),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_steps_alone),
        cmocka_unit_test(test_memories),
        cmocka_unit_test(test_memories_alone),
    };
    return cmocka_run_group_tests_name("attend", tests, NULL, NULL);
}
