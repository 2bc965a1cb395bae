/* Areas one by one: integral images, sums and deviations with the bits of the CPU's scalar kernels,
 * on lines and grids; keys of Eq. 9 and every mode of attention against the definition in double
 * precision (tests/support/area_reference.h); a step's against the whole sentence's. */
#include "suites.h"

#include <algorithm>

#include "device/cuda/attend_areas.h"
#include "support.h"

extern "C" {
#include "../support/area_reference.h"
}

namespace
{
/* Sentences of items, [R][H][D]. */
struct sentences {
    struct area_shape shape;
    std::vector<int32_t> first, of_row; /* [B + 1], [R] */
    std::vector<float> x;
    int longest;

    int n_rows() const
    {
        return first.back();
    }
    int numbers() const
    {
        return shape.n_heads * shape.head_width;
    }
};

/* Their rows on the device. */
struct device_rows {
    device_array<int32_t> n_rows, first, of_row, n_sentences;
    explicit device_rows(const sentences &s)
        : n_rows(std::vector<int32_t>(1, s.n_rows())), first(s.first), of_row(s.of_row),
          n_sentences(std::vector<int32_t>(1, (int)s.first.size() - 1))
    {
    }
    area_rows rows() const
    {
        return {n_rows, of_row, first, n_sentences, nullptr, nullptr, nullptr, 0, nullptr};
    }
};
} // namespace

static struct area_rule rule_of(const area_shape &shape)
{
    struct area_rule rule = {};
    rule.width = shape.width;
    rule.height = shape.height;
    rule.memory_height = shape.memory_height;
    return rule;
}

static area_shape random_shape(bool is_grid)
{
    area_shape shape = {random_int(1, 5), 1, 1, random_int(1, 2), 32};
    if (is_grid) {
        shape.memory_height = random_int(2, 5);
        shape.height = random_int(1, 3);
    }
    return shape;
}

static sentences make_sentences(const area_shape &shape, int n, int longest, float spread)
{
    sentences s = {shape, {0}, {}, {}, 0};
    for (int b = 0; b < n; b++) {
        int columns =
            std::max(1, (b == 0 ? longest : random_int(1, longest)) / shape.memory_height);
        int length = columns * shape.memory_height;
        s.longest = std::max(s.longest, length);
        s.first.push_back(s.first.back() + length);
        s.of_row.insert(s.of_row.end(), (size_t)length, b);
    }
    s.x = random_numbers((size_t)(s.n_rows() * s.numbers()), spread);
    return s;
}

/* ---- Integral images and features ------------------------------------------------------------ */

namespace
{
struct images {
    std::vector<float> integral, squares;
};

/* [planes][R][H][D] each. */
struct features {
    std::vector<float> sums, means, deviations, maxima;
};
} // namespace

static images run_images(const sentences &s)
{
    device_rows rows(s);
    device_array<float> x(s.x), integral(s.x.size()), squares(s.x.size());
    integral_launch(test_stream(),
                    {rows.rows(), s.shape, x, NUMBER_F32, s.numbers(), integral, squares},
                    (int)s.first.size(), s.longest, s.n_rows());
    test_wait();
    return {integral.get(), squares.get()};
}

static features run_features(const sentences &s)
{
    images images = run_images(s);
    size_t n = (size_t)(s.shape.width * s.shape.height) * s.x.size();
    device_rows rows(s);
    device_array<float> x(s.x), integral(images.integral), squares(images.squares);
    std::vector<float> zeros(n); /* void entries stay */
    device_array<float> sums(zeros), means(zeros), deviations(zeros), maxima(zeros);
    features_launch(test_stream(),
                    {rows.rows(), s.shape, x, integral, squares, sums, means, deviations, maxima,
                     NUMBER_F32, (size_t)s.n_rows()},
                    s.n_rows() + 2);
    test_wait();
    return {sums.get(), means.get(), deviations.get(), maxima.get()};
}

static void assert_same(const char *what, float got, float want)
{
    if (bits_of_float(got) != bits_of_float(want))
        fail_msg("%s: %.9g, not %.9g", what, (double)got, (double)want);
}

/* The CPU's, of one sentence, all heads together as one vector. */
static void check_sentence(const sentences &s, int b, const images &images, const features &found)
{
    struct area_rule rule = rule_of(s.shape);
    int begin = s.first[(size_t)b];
    size_t l = (size_t)(s.first[(size_t)b + 1] - begin), d = (size_t)s.numbers();
    const float *x = &s.x[(size_t)begin * d];
    std::vector<float> squares(x, x + l * d), image(l * d), image2(l * d), sums(l * d),
        sums2(l * d);
    std::vector<float> columns(l * d), maxima(l * d), deviations(l * d);
    for (float &each : squares)
        each *= each;
    area_integral(&rule, l, d, x, d, image.data());
    area_integral(&rule, l, d, squares.data(), d, image2.data());
    for (size_t i = 0; i < l * d; i++) {
        assert_same("integral", images.integral[(size_t)begin * d + i], image[i]);
        assert_same("integral of squares", images.squares[(size_t)begin * d + i], image2[i]);
    }
    struct area_walk walk = {&rule, 0, 0, 0};
    while (area_next(&walk)) {
        area_sums(&walk, l, 0, l, d, image.data(), sums.data());
        area_sums(&walk, l, 0, l, d, image2.data(), sums2.data());
        area_extend(&walk, l, d, x, d, true, columns.data(), maxima.data());
        struct area_ends ends = {sums.data(), nullptr}, ends2 = {sums2.data(), nullptr};
        kernels_scalar.area_deviations(l * d, walk.width * walk.height, &ends, &ends2,
                                       deviations.data());
        for (size_t i = 0; i < l * d; i++) {
            size_t at = (walk.plane * (size_t)s.n_rows() + (size_t)begin) * d + i;
            if (!area_exists(&walk, l, i / d))
                continue;
            assert_same("sum", found.sums[at], sums[i]);
            assert_same("mean", found.means[at], sums[i] / (float)(walk.width * walk.height));
            assert_same("deviation", found.deviations[at], deviations[i]);
            assert_same("maximum", found.maxima[at], maxima[i]);
        }
    }
}

static void test_features(void **)
{
    for (int i = 0; i < 12; i++) {
        area_shape shape = random_shape(i % 2 == 1);
        sentences s = make_sentences(shape, 2, i == 0 ? 140 : random_int(1, 40), 1);
        images images = run_images(s);
        features found = run_features(s);
        for (int b = 0; b < 2; b++)
            check_sentence(s, b, images, found);
    }
    /* A grid of several blocks in both directions. */
    area_shape shape = {3, 3, 66, 1, 32};
    sentences s = make_sentences(shape, 1, 66 * 67, 1);
    check_sentence(s, 0, run_images(s), run_features(s));
}

static void test_feature_schedules(void **)
{
    sentences s = make_sentences({3, 2, 3, 1, 32}, 2, 24, 1);
    check_schedules("features", [&] {
        features f = run_features(s);
        f.sums.insert(f.sums.end(), f.deviations.begin(), f.deviations.end());
        return bytes_of(f.sums);
    });
}

/* ---- Attention ------------------------------------------------------------------------------- */

namespace
{
/* Self-attention of sentences; x of the sentences are the keys. */
struct attending {
    sentences s;
    enum area_key_mode key;
    enum area_value value;
    int top_k;
    bool sigmoid, is_causal;
    std::vector<float> query, values;                                 /* [R][H][D] */
    std::vector<float> fc1, fc1_bias, fc2, fc2_bias, heights, widths; /* as in area_reference.h */
};
} // namespace

static area_reference reference_of(const attending &a)
{
    area_reference reference = {};
    reference.rule = rule_of(a.s.shape);
    reference.rule.value = a.value;
    reference.rule.top_k = a.top_k;
    reference.rule.sigmoid = a.sigmoid;
    reference.key = a.key;
    reference.d = (size_t)a.s.shape.head_width;
    reference.fc1_weight = a.fc1.data(), reference.fc1_bias = a.fc1_bias.data();
    reference.fc2_weight = a.fc2.data(), reference.fc2_bias = a.fc2_bias.data();
    reference.height_embedding = a.heights.data(), reference.width_embedding = a.widths.data();
    return reference;
}

static attending make_attending(const sentences &s, enum area_key_mode key, enum area_value value)
{
    attending a = {s, key, value, 0, false, false, {}, {}, {}, {}, {}, {}, {}, {}};
    size_t d = (size_t)s.shape.head_width;
    area_reference reference = reference_of(a);
    size_t inputs = area_reference_inputs(&reference);
    a.query = random_numbers(s.x.size(), 0.3f);
    a.values = random_numbers(s.x.size(), 1);
    a.fc1 = random_numbers(d * inputs, 1 / sqrtf((float)inputs + 1));
    a.fc2 = random_numbers(d * d, 1 / sqrtf((float)d));
    a.fc1_bias = random_numbers(d, 0.1f), a.fc2_bias = random_numbers(d, 0.1f);
    a.heights = random_numbers((size_t)s.shape.height * (d / 2), 0.3f);
    a.widths = random_numbers((size_t)s.shape.width * (d / 2), 0.3f);
    return a;
}

static bool is_sum(enum area_key_mode key)
{
    return key == AREA_KEY_SUM || key == AREA_KEY_SAMPLE_SUM;
}

static bool has_deviation(enum area_key_mode key)
{
    return key == AREA_KEY_CONCAT || key == AREA_KEY_SUM;
}

static bool is_dense(const attending &a)
{
    return !a.fc1.empty();
}

static bool is_largest(enum area_key_mode key)
{
    return key == AREA_KEY_MAX || key == AREA_KEY_MAX_CONCAT;
}

namespace
{
/* The parts of the dense layers as kernels want them, as load would fold them. */
struct folded {
    std::vector<float> base, feature; /* [D,D], inputs as rows: W1's part of means or maxima; of
                                       * deviations */
    std::vector<float> turn;          /* [D,D]: q' = q · turn, W2 */
    std::vector<float> constants;     /* [planes][D] */
};
} // namespace

static folded fold(const attending &a)
{
    size_t d = (size_t)a.s.shape.head_width, half = d / 2, inputs = a.fc1.size() / d;
    folded f = {std::vector<float>(d * d), std::vector<float>(d * d), a.fc2, {}};
    if (!is_dense(a)) {
        f.constants.resize(1);
        return f;
    }
    size_t second = is_sum(a.key) ? 0 : d, sizes = is_sum(a.key) ? 0 : inputs - 2 * half;
    for (size_t n = 0; n < d; n++)
        for (size_t k = 0; k < d; k++) {
            f.base[k * d + n] = a.fc1[n * inputs + k];
            if (has_deviation(a.key))
                f.feature[k * d + n] = a.fc1[n * inputs + second + k];
        }
    if (is_largest(a.key))
        f.feature = f.base;
    for (int h = 0; h < a.s.shape.height; h++)
        for (int w = 0; w < a.s.shape.width; w++)
            for (size_t n = 0; n < d; n++) {
                double sum = (double)a.fc1_bias[n];
                for (size_t i = 0; i < half; i++) {
                    sum += (double)a.fc1[n * inputs + sizes + i] * a.heights[(size_t)h * half + i];
                    sum += (double)a.fc1[n * inputs + sizes + half + i] *
                           a.widths[(size_t)w * half + i];
                }
                f.constants.push_back((float)sum);
            }
    return f;
}

/* Everything that a pass over sentences, or the steps of one, works on. */
namespace
{
struct workspace {
    device_array<float> base, integral, squares, keys, values, turned, context, items, value_items;
    size_t planes;
    workspace(const sentences &s, size_t planes_, size_t rows)
        : base(rows * (size_t)s.numbers()), integral(base.n), squares(base.n),
          keys(planes_ * base.n), values(planes_ * base.n), turned(s.x.size()), context(s.x.size()),
          items(base.n), value_items(base.n), planes(planes_)
    {
    }
};
} // namespace

/* Keys and values of areas of the rows; x, values of the rows go in, items are found by rows. */
static void prepare(const attending &a, const folded &f, const area_rows &rows, const float *x,
                    const float *values, workspace *work, size_t plane_rows, int n_sentences)
{
    const sentences &s = a.s;
    cudaStream_t stream = test_stream();
    int c = s.numbers(), d = s.shape.head_width, max_rows = s.n_rows();
    device_array<float> base_w(f.base), feature_w(f.feature), constants(f.constants);
    device_array<float> base_rows((size_t)(max_rows * c));
    items_launch(stream, {rows, c, x, NUMBER_F32, c, work->items}, max_rows);
    items_launch(stream, {rows, c, values, NUMBER_F32, c, work->value_items}, max_rows);
    if (is_dense(a) && has_deviation(a.key))
        integral_launch(stream, {rows, s.shape, x, NUMBER_F32, c, work->integral, work->squares},
                        n_sentences, s.longest, max_rows);
    if (is_dense(a) && !is_largest(a.key)) {
        head_product_launch(stream,
                            {rows.n_rows, s.shape.n_heads, d, x, NUMBER_F32, c, base_w,
                             base_rows.at, NUMBER_F32, c},
                            max_rows);
        items_launch(stream, {rows, c, base_rows.at, NUMBER_F32, c, work->base}, max_rows);
    }
    feature_task features = {rows,    s.shape, nullptr, nullptr,    nullptr,   nullptr,
                             nullptr, nullptr, nullptr, NUMBER_F32, plane_rows};
    if (is_dense(a)) {
        bool has_images = has_deviation(a.key);
        area_keys_launch(stream,
                         {rows, s.shape, is_largest(a.key), work->base, work->items,
                          has_images ? work->integral.at : nullptr,
                          has_images ? work->squares.at : nullptr, feature_w, constants,
                          work->keys.at, NUMBER_F32, plane_rows},
                         max_rows);
    } else if (is_largest(a.key)) {
        features.items = work->items;
        features.maxima = work->keys.at;
        features_launch(stream, features, max_rows);
    }
    if (a.value == AREA_VALUE_MAX) {
        features.items = work->value_items;
        features.maxima = work->values.at;
        features_launch(stream, features, max_rows);
    }
    test_wait();
}

static attend_areas_task task_of(const attending &a, const area_rows &rows, const workspace &work,
                                 size_t plane_rows)
{
    attend_areas_task task = {};
    int c = a.s.numbers();
    task.rows = rows;
    task.shape = a.s.shape;
    task.value = a.value, task.top_k = a.top_k, task.sigmoid = a.sigmoid;
    task.is_causal = a.is_causal;
    task.query_stride = task.turned_stride = task.context_stride = c;
    task.key_stride = task.value_stride = (size_t)c, task.plane_rows = plane_rows;
    task.has_key_planes = a.key != AREA_KEY_MEAN;
    task.has_value_planes = a.value == AREA_VALUE_MAX;
    task.keys = task.has_key_planes ? work.keys.at : work.items.at;
    task.values = task.has_value_planes ? work.values.at : work.value_items.at;
    task.context = work.context.at;
    task.max_length = a.s.longest;
    return task;
}

/* Contexts of the rows; query[R] stand on the device. */
static void attend(const attending &a, const folded &f, attend_areas_task task, const float *query,
                   workspace *work, int max_rows)
{
    int c = a.s.numbers(), d = a.s.shape.head_width;
    device_array<float> turn(is_dense(a) ? f.turn : std::vector<float>(1));
    device_array<float> bias(a.fc2_bias);
    task.query = task.turned = query;
    if (is_dense(a)) {
        head_product_launch(test_stream(),
                            {task.rows.n_rows, a.s.shape.n_heads, d, query, NUMBER_F32, c, turn,
                             work->turned.at, NUMBER_F32, c},
                            max_rows);
        task.turned = work->turned.at;
        task.query_bias = a.sigmoid ? bias.at : nullptr;
    }
    attend_areas_launch(test_stream(), NUMBER_F32, task, max_rows);
    test_wait();
}

static std::vector<float> run(const attending &a)
{
    const sentences &s = a.s;
    size_t planes = (size_t)(s.shape.width * s.shape.height);
    folded f = fold(a);
    device_rows rows(s);
    device_array<float> x(s.x), values(a.values), query(a.query);
    workspace work(s, planes, (size_t)s.n_rows());
    prepare(a, f, rows.rows(), x, values, &work, (size_t)s.n_rows(), (int)s.first.size());
    attend(a, f, task_of(a, rows.rows(), work, (size_t)s.n_rows()), query, &work, s.n_rows() + 1);
    return work.context.get();
}

static std::vector<float> one_head(const attending &a, const std::vector<float> &x, int begin,
                                   int length, int head)
{
    int c = a.s.numbers(), d = a.s.shape.head_width;
    std::vector<float> rows;
    for (int r = begin; r < begin + length; r++)
        rows.insert(rows.end(), &x[(size_t)(r * c + head * d)], &x[0] + r * c + head * d + d);
    return rows;
}

/* Also how near top-k comes to choosing otherwise. */
static std::vector<double> expected(const attending &a, double *margin)
{
    int c = a.s.numbers(), d = a.s.shape.head_width;
    area_reference reference = reference_of(a);
    std::vector<double> all(a.query.size());
    *margin = 1;
    for (size_t b = 0; b + 1 < a.s.first.size(); b++)
        for (int head = 0; head < a.s.shape.n_heads; head++) {
            int begin = a.s.first[b], length = a.s.first[b + 1] - begin;
            std::vector<float> k = one_head(a, a.s.x, begin, length, head);
            std::vector<float> v = one_head(a, a.values, begin, length, head);
            for (int i = 0; i < length; i++) {
                size_t at = (size_t)((begin + i) * c + head * d);
                size_t l = (size_t)(a.is_causal ? i + 1 : length);
                struct area_memory memory = area_reference_open(&reference, l, k.data(), v.data());
                area_reference_attend(&memory, &a.query[at], nullptr, &all[at], nullptr);
                *margin = std::min(*margin, area_reference_margin(&memory, &a.query[at], nullptr));
                area_reference_close(&memory);
            }
        }
    return all;
}

static const enum area_key_mode keys[] = {AREA_KEY_MEAN,       AREA_KEY_MAX, AREA_KEY_CONCAT,
                                          AREA_KEY_MAX_CONCAT, AREA_KEY_SUM, AREA_KEY_SAMPLE_CONCAT,
                                          AREA_KEY_SAMPLE_SUM};

static attending random_attending(int i)
{
    bool is_grid = i % 3 == 2;
    enum area_key_mode key = keys[i % 7];
    /* Deviations of areas whose items are alike are rounding noise, which grows with the squares.
     */
    float spread = has_deviation(key) ? 0.2f : 1.0f;
    sentences s = make_sentences(random_shape(is_grid), 2, random_int(1, 24), spread);
    attending a = make_attending(s, key, (enum area_value)(i / 7 % 3));
    a.top_k = i % 4 == 1 ? random_int(1, 9) : 0;
    a.sigmoid = i % 5 == 2;
    a.is_causal = !is_grid && i % 2 == 1;
    return a;
}

static void test_modes(void **)
{
    int n_checked = 0;
    for (int i = 0; i < 63; i++) {
        attending a = random_attending(i);
        double margin;
        std::vector<double> want = expected(a, &margin);
        if (margin < 1e-4)
            continue; /* rounding decides which areas count */
        check_near("areas", distance(run(a), want), has_deviation(a.key) ? 1e-4 : 2e-5);
        n_checked++;
    }
    assert_true(n_checked > 40);
}

static void test_areas_alone(void **)
{
    for (int i = 0; i < 7; i++) {
        attending a = random_attending(i), alone = a;
        int c = a.s.numbers(), begin = a.s.first[1];
        std::vector<float> all = run(a);
        auto second = [&](const std::vector<float> &x) {
            return std::vector<float>(x.begin() + begin * c, x.end());
        };
        alone.s.first = {0, a.s.first[2] - begin};
        alone.s.of_row.assign((size_t)alone.s.first[1], 0);
        alone.s.x = second(a.s.x), alone.query = second(a.query), alone.values = second(a.values);
        assert_true(run(alone) == second(all));
    }
}

/* Steps of one hypothesis, on a path that jumps about the cache: the last rows of causal passes
 * over what there is so far. Keys of areas that end with a new item are appended. */
static void test_steps(void **)
{
    for (int i = 0; i < 7; i++) {
        area_shape shape = {random_int(1, 5), 1, 1, 2, 32};
        sentences s = make_sentences(shape, 1, i == 2 ? 70 : 12, 1);
        attending a = make_attending(s, keys[i], i % 2 ? AREA_VALUE_MAX : AREA_VALUE_SUM);
        a.is_causal = true;
        a.sigmoid = i % 3 == 1;
        std::vector<float> whole = run(a);
        int n = s.n_rows(), c = s.numbers(), cache_rows = 2 * n + 1;
        attending step = a;
        step.s.first = {0, 1};
        step.s.of_row = {0};
        step.s.x.resize((size_t)c), step.query.resize((size_t)c);
        folded f = fold(a);
        workspace work(step.s, (size_t)shape.width, (size_t)cache_rows);
        std::vector<int32_t> path;
        for (int m = 0; m < n; m++)
            path.push_back((2 * m + 1) * (m % 2 ? 1 : -1) + (m % 2 ? 0 : cache_rows));
        for (int32_t &each : path)
            each %= cache_rows;
        path.insert(path.begin(), (size_t)n, -1); /* of another row */
        device_array<int32_t> paths(path), path_rows(std::vector<int32_t>(1, 1)),
            n_rows(std::vector<int32_t>(1, 1)), lengths(1);
        device_array<float> x(s.x), values(a.values), query(a.query);
        for (int m = 0; m < n; m++) {
            lengths.put(std::vector<int32_t>(1, m + 1));
            area_rows rows = {n_rows,  nullptr,   nullptr, nullptr, paths,
                              lengths, path_rows, n,       nullptr};
            prepare(step, f, rows, x + m * c, values + m * c, &work, (size_t)cache_rows, 1);
            attend_areas_task task = task_of(step, rows, work, (size_t)cache_rows);
            task.max_length = n;
            attend(step, f, task, query + m * c, &work, 1);
            std::vector<float> now = work.context.get();
            std::vector<double> want(whole.begin() + m * c, whole.begin() + (m + 1) * c);
            check_near("step", distance(now, want), 5e-6);
        }
    }
}

/* The published way: keys are means and values sums, both as vectors of all areas. */
static void test_published_way(void **)
{
    attending a =
        make_attending(make_sentences({4, 1, 1, 2, 32}, 2, 30, 1), AREA_KEY_MEAN, AREA_VALUE_SUM);
    double margin;
    std::vector<double> want = expected(a, &margin);
    const sentences &s = a.s;
    device_rows rows(s);
    size_t n = 4 * s.x.size();
    device_array<float> x(s.x), v(a.values), query(a.query), image(s.x.size()), means(n), sums(n);
    for (int part = 0; part < 2; part++) {
        integral_launch(
            test_stream(),
            {rows.rows(), s.shape, part ? v.at : x.at, NUMBER_F32, s.numbers(), image, nullptr}, 2,
            s.longest, s.n_rows());
        features_launch(test_stream(),
                        {rows.rows(), s.shape, nullptr, image, nullptr, part ? sums.at : nullptr,
                         part ? nullptr : means.at, nullptr, nullptr, NUMBER_F32,
                         (size_t)s.n_rows()},
                        s.n_rows());
    }
    workspace work(s, 1, (size_t)s.n_rows());
    attend_areas_task task = task_of(a, rows.rows(), work, (size_t)s.n_rows());
    task.has_key_planes = task.has_value_planes = true;
    task.keys = means.at, task.values = sums.at;
    attend(a, {}, task, query, &work, s.n_rows());
    check_near("published way", distance(work.context.get(), want), 2e-5);
}

static void test_area_barriers(void **)
{
    attending a =
        make_attending(make_sentences({3, 1, 1, 1, 32}, 1, 20, 1), AREA_KEY_CONCAT, AREA_VALUE_SUM);
    a.top_k = 5;
    check_schedules("areas", [&] { return bytes_of(run(a)); });
    check_barriers("areas", [&] { return bytes_of(run(a)); });
    a.key = AREA_KEY_MEAN;
    a.fc1.clear();
    check_barriers("mean areas", [&] { return bytes_of(run(a)); });
}

int areas_suite()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_features),      cmocka_unit_test(test_feature_schedules),
        cmocka_unit_test(test_modes),         cmocka_unit_test(test_areas_alone),
        cmocka_unit_test(test_steps),         cmocka_unit_test(test_published_way),
        cmocka_unit_test(test_area_barriers),
    };
    return cmocka_run_group_tests_name("areas", tests, NULL, NULL);
}
