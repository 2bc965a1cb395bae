/* The search on the device against the CPU's (search/search.h): the same tokens from the same
 * logits, for sentences of different options in one batch, that join and leave. */
#include "suites.h"

#include <algorithm>
#include <memory>

#include "device/cuda/search.h"
#include "support.h"

extern "C" {
#include "kernels/kernels.h"
#include "search/search.h"
}

namespace
{
/* A constraint, here and on the device. */
struct rules {
    struct constraint *host;
    device_array<uint32_t> sets;
    device_array<uint8_t> next;
    device_array<struct constraint> device;

    rules(int vocabulary, bool bytes)
        : host(open(vocabulary, bytes)),
          sets(std::vector<uint32_t>(host->sets, host->sets + (bytes ? CONSTRAINT_STATES : 1) *
                                                                  CONSTRAINT_ROOMS * 2 *
                                                                  host->words)),
          next((size_t)CONSTRAINT_STATES * 256), device(1)
    {
        struct constraint copy = *host;
        copy.sets = sets;
        copy.next = host->next ? next.at : nullptr;
        if (host->next)
            next.put(std::vector<uint8_t>(host->next, host->next + CONSTRAINT_STATES * 256));
        device.put({copy});
    }
    ~rules()
    {
        constraint_close(host);
    }
    static struct constraint *open(int vocabulary, bool bytes)
    {
        static const int forbidden[] = {0};
        struct constraint_options options = {vocabulary, 1, forbidden, 1, bytes};
        struct constraint *constraint = nullptr;
        assert_int_equal(constraint_open(&options, &constraint), 0);
        return constraint;
    }
};

/* One sentence's search on both sides. */
struct sentence {
    struct search search;
    std::vector<struct search_node> nodes;
    std::vector<double> penalties;
    std::unique_ptr<device_array<struct search_node>> device_nodes;
    std::unique_ptr<device_array<double>> device_penalties;
};

struct batch {
    struct slots_shape shape;
    int vocabulary, n_slices;
    bool renormalize;
    rules constraint;
    std::vector<sentence> sentences; /* by slot */
    device_array<struct search> searches;
    device_array<int32_t> n_rows, n_groups, slots, beams, ids, places, lengths, path_rows;
    device_array<int32_t> state_before, state_after, groups, counts, paths, tokens, pages;
    device_array<uint32_t> step;
    int64_t n_steps = 0; /* as the host counts them */
    device_array<struct slice_scan> scans;
    device_array<struct candidate> best;
    device_array<struct continuation> merged;
    device_array<struct slot_end> ends;

    batch(const slots_shape &s, int v, bool bytes, bool renormalize_)
        : shape(s), vocabulary(v), n_slices((v + SEARCH_SLICE - 1) / SEARCH_SLICE),
          renormalize(renormalize_), constraint(v, bytes), sentences((size_t)s.n_slots),
          searches((size_t)s.n_slots), n_rows(1), n_groups(1), slots(rows()), beams(rows()),
          ids(rows()), places(rows()), lengths(rows()), path_rows(rows()), state_before(rows()),
          state_after(rows()), groups(3 * (size_t)s.n_slots), counts(rows()),
          paths(2 * rows() * (size_t)s.positions), tokens(rows() * (size_t)s.positions),
          pages((size_t)(SEARCH_PAGES * (1 + s.n_slots))), step(std::vector<uint32_t>(1, 0)),
          scans(rows() * (size_t)n_slices), best(scans.n * 2 * (size_t)s.beam),
          merged(rows() * 2 * (size_t)s.beam), ends((size_t)s.n_slots)
    {
    }
    size_t rows() const
    {
        return (size_t)(shape.n_slots * shape.beam);
    }
};
} // namespace

static struct acre_decoding random_decoding(const slots_shape &shape)
{
    struct acre_decoding decoding = {};
    decoding.beam_size = random_int(1, shape.beam);
    decoding.max_length = random_int(1, shape.positions - 1);
    decoding.min_length = random_int(0, 3);
    decoding.length_penalty = (float)random_int(-1, 2);
    return decoding;
}

/* The search of the device begins as the CPU's does, with pointers of its own. */
static void enter(batch *b, int slot, const struct acre_decoding &decoding)
{
    sentence *s = &b->sentences[(size_t)slot];
    struct search_model model = {b->constraint.host, 1, 1, b->renormalize};
    s->nodes.assign(search_nodes(&decoding), {});
    s->penalties.assign(search_penalties(&decoding), 0);
    search_fill_penalties(decoding.length_penalty, 0, s->penalties.size(), s->penalties.data());
    search_init(&s->search, &model, &decoding, s->nodes.data(), s->penalties.data());
    s->device_nodes = std::make_unique<device_array<struct search_node>>(s->nodes.size());
    s->device_penalties = std::make_unique<device_array<double>>(s->penalties);
    cudaMemcpy(s->device_nodes->at, s->nodes.data(), sizeof(struct search_node),
               cudaMemcpyHostToDevice);
    struct search copy = s->search;
    copy.model.constraint = b->constraint.device;
    copy.nodes = *s->device_nodes;
    copy.penalties = *s->device_penalties;
    cudaMemcpy(b->searches + slot, &copy, sizeof(copy), cudaMemcpyHostToDevice);
    int32_t first = slot * b->shape.positions * b->shape.beam; /* the path of the first row */
    cudaMemcpy(b->paths + (size_t)(slot * b->shape.beam * b->shape.positions), &first,
               sizeof(first), cudaMemcpyHostToDevice);
}

static void enter(batch *b, int slot)
{
    enter(b, slot, random_decoding(b->shape));
}

static void place(batch *b)
{
    place_launch(test_stream(), {b->shape,
                                 b->searches,
                                 b->n_rows,
                                 b->n_groups,
                                 b->slots,
                                 b->beams,
                                 b->ids,
                                 b->places,
                                 b->lengths,
                                 b->path_rows,
                                 b->state_before,
                                 b->state_after,
                                 b->groups,
                                 {b->pages, b->step}});
    test_wait();
}

/* Rows are the live hypotheses in the order of slots, with paths along the trellis. */
static void check_rows(const batch &b)
{
    std::vector<int32_t> slots = b.slots.get(), ids = b.ids.get(), places = b.places.get();
    std::vector<int32_t> path_rows = b.path_rows.get(), paths = b.paths.get();
    std::vector<int32_t> groups = b.groups.get(), beams = b.beams.get();
    int row = 0, group = 0;
    for (int slot = 0; slot < b.shape.n_slots; slot++) {
        const struct search *search = &b.sentences[(size_t)slot].search;
        if (search->n_live > 0) {
            assert_int_equal(groups[(size_t)(3 * group)], slot);
            assert_int_equal(groups[(size_t)(3 * group + 1)], row);
            assert_int_equal(groups[(size_t)(3 * group + 2)], search->n_live);
            group++;
        }
        for (int live = 0; live < search->n_live; live++, row++) {
            assert_int_equal(slots[(size_t)row], slot);
            assert_int_equal(beams[(size_t)row], live);
            assert_int_equal(ids[(size_t)row], search_node(search, search->t, live)->token);
            assert_int_equal(places[(size_t)row], search->t);
            for (int t = search->t, node = live; t >= 0; t--) {
                int32_t want = (slot * b.shape.positions + t) * b.shape.beam + node;
                assert_int_equal(paths[(size_t)(path_rows[(size_t)row] * b.shape.positions + t)],
                                 want);
                node = search_node(search, t, node)->parent;
            }
        }
    }
    assert_int_equal(b.n_rows.get()[0], row);
    assert_int_equal(b.n_groups.get()[0], group);
}

/* In two calls, as a vocabulary in parts is. */
static void scan(batch *b, const std::vector<float> &logits)
{
    device_array<float> d_logits(logits);
    int half = b->n_slices / 2 * SEARCH_SLICE;
    for (int first : {0, half}) {
        int n = first == 0 && half > 0 ? half : b->vocabulary - first;
        if (first == 0 || half > 0)
            scan_launch(test_stream(),
                        {d_logits + first, b->vocabulary, first, n, b->searches, b->n_rows,
                         b->slots, b->beams, b->n_slices, b->scans, b->best, b->shape.beam},
                        (int)b->rows());
    }
    test_wait();
}

static advance_task advance_of(const batch *b)
{
    return {b->shape, b->searches, b->groups,           b->n_groups, b->n_slices,
            b->scans, b->best,     b->merged,           b->counts,   b->paths,
            b->ends,  b->tokens,   {b->pages, b->step}, nullptr,     nullptr,
            nullptr};
}

static void advance(batch *b)
{
    advance_launch(test_stream(), advance_of(b));
    test_wait();
}

/* The CPU's step of one sentence, from its rows' logits. Returns whether it goes on. */
static bool advance_on_cpu(batch *b, int slot, const float *logits)
{
    struct search *search = &b->sentences[(size_t)slot].search;
    std::vector<struct candidate> best((size_t)(search->n_live * 2 * search->decoding.beam_size));
    std::vector<struct logit_scan> scans((size_t)search->n_live);
    for (int live = 0; live < search->n_live; live++) {
        struct logit_scan *scan = &scans[(size_t)live];
        std::vector<float> row(logits + (size_t)live * (size_t)b->vocabulary,
                               logits + (size_t)(live + 1) * (size_t)b->vocabulary);
        search_scan(search, live, &best[(size_t)(live * 2 * search->decoding.beam_size)], scan);
        for (int id = 0; id < b->vocabulary && search->model.renormalize; id++)
            if (!(scan->allowed[id / 32] >> (id % 32) & 1))
                row[(size_t)id] = -INFINITY;
        kernels_scalar.scan_logits(row.size(), 0, row.data(), scan);
    }
    return search_advance(search, scans.data());
}

static void check_end(const batch &b, int slot)
{
    const struct search *search = &b.sentences[(size_t)slot].search;
    struct slot_end end = b.ends.get()[(size_t)slot];
    std::vector<int32_t> tokens = b.tokens.get();
    assert_int_equal(end.n_hypotheses, search->n_results);
    for (int i = 0; i < search->n_results; i++) {
        const struct search_result *want = &search->results[i];
        std::vector<int32_t> of((size_t)want->n_tokens + 1);
        search_tokens(search, want, of.data());
        assert_int_equal(end.n_tokens[i], want->n_tokens);
        check_near("score", fabs((double)end.score[i] - want->score), 1e-4);
        check_near("score", fabs((double)end.normalized_score[i] - want->normalized_score), 1e-4);
        assert_memory_equal(&tokens[(size_t)((slot * b.shape.beam + i) * b.shape.positions)],
                            of.data(), (size_t)want->n_tokens * sizeof(int32_t));
    }
}

/* What the host reads of the step that is done: how many rows it had, and who has ended. */
static void check_page(batch *b, int rows, const std::vector<bool> &has_ended)
{
    std::vector<int32_t> pages = b->pages.get();
    const int32_t *page = &pages[(size_t)(b->n_steps++ % SEARCH_PAGES * (1 + b->shape.n_slots))];
    assert_int_equal(page[0], rows);
    for (size_t slot = 0; slot < has_ended.size(); slot++)
        assert_int_equal(page[1 + slot], has_ended[slot]);
}

/* Decodes n sentences; slots that are free are entered again. The end token is likely. */
static void decode(batch *b, int n)
{
    for (int slot = 0; slot < b->shape.n_slots; slot++, n--)
        enter(b, slot);
    for (bool is_live = true; is_live;) {
        place(b);
        check_rows(*b);
        int rows = b->n_rows.get()[0], row = 0;
        std::vector<float> logits = random_numbers(b->rows() * (size_t)b->vocabulary, 3);
        for (int r = 0; r < (int)b->rows(); r++)
            logits[(size_t)(r * b->vocabulary + 1)] += 4;
        scan(b, logits);
        advance(b);
        is_live = false;
        std::vector<bool> has_ended((size_t)b->shape.n_slots);
        for (int slot = 0; slot < b->shape.n_slots; slot++) {
            int live = b->sentences[(size_t)slot].search.n_live;
            if (live == 0)
                continue;
            bool goes_on = advance_on_cpu(b, slot, &logits[(size_t)row * (size_t)b->vocabulary]);
            row += live;
            is_live |= goes_on;
            has_ended[(size_t)slot] = !goes_on;
            if (goes_on)
                continue;
            check_end(*b, slot);
            if (n-- > 0) {
                enter(b, slot);
                is_live = true;
            }
        }
        assert_int_equal(row, rows);
        check_page(b, rows, has_ended);
    }
}

static void test_decoding(void **)
{
    for (int i = 0; i < 4; i++) {
        batch b({random_int(1, 6), i == 0 ? 1 : random_int(2, 6), 12}, i == 1 ? 1500 : 90, false,
                i % 2 == 1);
        decode(&b, 12);
    }
}

/* The host finds the page of every step, however many there were before. */
static void test_very_many_steps(void **)
{
    for (int64_t n : {(int64_t)INT32_MAX - 2, (int64_t)UINT32_MAX - 2}) {
        batch b({3, 2, 12}, 90, false, false);
        b.n_steps = n;
        b.step.put({(uint32_t)n});
        decode(&b, 6);
        assert_true(b.n_steps > n + SEARCH_PAGES);
    }
}

static void test_bytes(void **)
{
    batch b({3, 4, 14}, 258, true, true);
    decode(&b, 8);
}

static void test_wide_beam(void **)
{
    batch b({1, MAX_BEAM, 6}, 700, false, false);
    decode(&b, 2);
}

/* Empty slots of a batch. */
static void leave(batch *b, int slot)
{
    struct search empty = {};
    cudaMemcpy(b->searches + slot, &empty, sizeof(empty), cudaMemcpyHostToDevice);
}

/* Two steps of a batch with more slots than a block has threads. */
static result two_steps()
{
    const int n = 1030;
    random_seed(5);
    batch b({n, 2, 10}, 520, false, true);
    for (int slot = 0; slot < n; slot++)
        leave(&b, slot);
    for (int slot : {0, 1, n - 1})
        enter(&b, slot);
    std::vector<int32_t> all;
    for (int step = 0; step < 2; step++) {
        place(&b);
        scan(&b, random_numbers(b.rows() * (size_t)b.vocabulary, 3));
        advance(&b);
        for (const struct search &search : b.searches.get())
            for (int live = 0; live < search.n_live; live++)
                all.push_back((int32_t)bits_of_float(search.score[live]));
    }
    return bytes_of(all);
}

static void test_search_schedules(void **)
{
    check_schedules("search", two_steps);
    check_barriers("search", two_steps);
}

/* A sentence whose tokens are given, beside one that waits. */
static result forced_steps(bool with_rows)
{
    batch b({2, 1, 12}, 40, false, false);
    struct acre_decoding decoding = {};
    decoding.beam_size = 1;
    decoding.max_length = 8;
    enter(&b, 0, decoding);
    enter(&b, 1, decoding);
    for (int32_t token : {7, 30, 7}) {
        struct search *search = &b.sentences[1].search;
        struct continuation only = {};
        only.score = search->score[0];
        only.token = token;
        search_go_on(search, &only, 1);
        force_launch(test_stream(), {advance_of(&b), 1, token});
        test_wait();
        if (with_rows) {
            place(&b);
            check_rows(b);
        }
    }
    return bytes_of(b.paths.get());
}

static void test_forced_tokens(void **)
{
    check_schedules("forced", [] { return forced_steps(true); });
    check_barriers("forced", [] { return forced_steps(false); });
}

static void test_many_slots(void **)
{
    batch b({1030, 1, 3}, 40, false, false);
    for (int slot = 0; slot < 1030; slot++)
        slot % 2 ? leave(&b, slot) : enter(&b, slot);
    place(&b);
    check_rows(b);
}

int search_suite()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decoding),
        cmocka_unit_test(test_very_many_steps),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_wide_beam),
        cmocka_unit_test(test_search_schedules),
        cmocka_unit_test(test_many_slots),
        cmocka_unit_test(test_forced_tokens),
    };
    return cmocka_run_group_tests_name("search", tests, NULL, NULL);
}
