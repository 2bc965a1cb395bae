#include "device/cuda/search.h"

/* ---- Rows of a step -------------------------------------------------------------------------- */

enum { PLACE_THREADS = 512, PLACE_WARPS = PLACE_THREADS / 32 };

/* The page of step number `step`, by which the host finds it, too. */
GPU_CODE int32_t *page_of(const step_pages &pages, const slots_shape &shape, uint32_t step)
{
    return pages.words + (int)(step % SEARCH_PAGES) * (1 + shape.n_slots);
}

/* The sum of x of the lanes before this one. */
GPU_CODE int sum_before(int x, int *total)
{
    int lane = (int)threadIdx.x % 32, sum = x;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        int other = __shfl_up_sync(ALL_LANES, sum, step);
        sum += lane >= step ? other : 0;
    }
    *total = __shfl_sync(ALL_LANES, sum, 31);
    return sum - x;
}

/* The same over the block; totals [PLACE_WARPS] for this sum alone. */
GPU_CODE int sum_before_in_block(int x, int32_t *totals, int *total)
{
    int of_warp, before = sum_before(x, &of_warp), sum = 0;
    if (threadIdx.x % 32 == 0)
        totals[threadIdx.x / 32] = of_warp;
    __syncthreads();
    for (int w = 0; w < PLACE_WARPS; w++) {
        before += w < (int)threadIdx.x / 32 ? totals[w] : 0;
        sum += totals[w];
    }
    *total = sum;
    return before;
}

GPU_CODE void put_row(const place_task &task, const struct search *search, int slot, int row, int b)
{
    int t = search->t;
    const struct search_node *node = search_node(search, t, b);
    task.slots[row] = slot;
    task.beams[row] = b;
    task.ids[row] = node->token;
    task.places[row] = t;
    task.lengths[row] = t + 1;
    task.path_rows[row] = turn_row(task.shape, slot, t, b);
    task.state_before[row] = turn_row(task.shape, slot, t + 1, t > 0 ? node->parent : 0);
    task.state_after[row] = turn_row(task.shape, slot, t, b);
}

/* A thread has every PLACE_THREADS-th slot. The two sums take turns: when one is written anew, all
 * have come past the barrier of the other. */
__global__ static void __launch_bounds__(PLACE_THREADS, 1) place_rows(place_task task)
{
    gpu_await_previous();
    gpu_layout layout = {gpu_shared(), 0};
    int32_t *rows_of = layout.take<int32_t>(PLACE_WARPS);
    int32_t *groups_of = layout.take<int32_t>(PLACE_WARPS);
    int n_rows = 0, n_groups = 0;
    uint32_t step = *task.pages.step;
    int32_t *page = page_of(task.pages, task.shape, step);
    for (int first = 0; first < task.shape.n_slots; first += PLACE_THREADS) {
        int slot = first + (int)threadIdx.x, rows, groups;
        int n = slot < task.shape.n_slots ? task.searches[slot].n_live : 0;
        int row = n_rows + sum_before_in_block(n, rows_of, &rows);
        int group = n_groups + sum_before_in_block(n > 0, groups_of, &groups);
        if (slot < task.shape.n_slots)
            page[1 + slot] = 0;
        for (int b = 0; b < n; b++)
            put_row(task, &task.searches[slot], slot, row + b, b);
        if (n > 0) {
            task.groups[3 * group] = slot;
            task.groups[3 * group + 1] = row;
            task.groups[3 * group + 2] = n;
        }
        n_rows += rows;
        n_groups += groups;
    }
    if (threadIdx.x == 0) {
        *task.n_rows = page[0] = n_rows;
        *task.n_groups = n_groups;
        *task.pages.step = step + 1;
    }
}

/* ---- Candidates ------------------------------------------------------------------------------ */

/* A warp has a slice: ids lane, lane + 32, ... */
enum { SCAN_WARPS = 4, LANE_IDS = SEARCH_SLICE / 32 };

GPU_CODE bool precedes(float logit, int id, float other_logit, int other_id)
{
    return logit > other_logit || (logit == other_logit && id < other_id);
}

/* The best of all lanes' (logit, id), for all. */
GPU_CODE void best_of_warp(float *logit, int *id)
{
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        float other_logit = __shfl_xor_sync(ALL_LANES, *logit, step);
        int other_id = __shfl_xor_sync(ALL_LANES, *id, step);
        if (precedes(other_logit, other_id, *logit, *id)) {
            *logit = other_logit;
            *id = other_id;
        }
    }
}

GPU_CODE bool is_in(const uint32_t *set, int id)
{
    return set[id / 32] >> (id % 32) & 1;
}

/* Of a lane's logits those that are not taken yet: its best one's place, or -1. */
GPU_CODE int best_of_lane(const float *logits, uint32_t taken)
{
    int best = -1;
    float largest = -INFINITY;
#pragma unroll
    for (int j = 0; j < LANE_IDS; j++)
        if (!(taken >> j & 1) && logits[j] > largest) {
            largest = logits[j];
            best = j;
        }
    return best;
}

GPU_CODE float logit_at(const float *logits, int place)
{
    float logit = -INFINITY;
#pragma unroll
    for (int j = 0; j < LANE_IDS; j++)
        logit = j == place ? logits[j] : logit;
    return logit;
}

/* The best k of the logits of a warp, in order; returns how many there are. */
GPU_CODE int find_best(const float *logits, int first_id, int k, struct candidate *best)
{
    int lane = (int)threadIdx.x % 32, n = 0;
    uint32_t taken = 0;
    for (; n < k; n++) {
        int place = best_of_lane(logits, taken);
        int id = place < 0 ? INT32_MAX : first_id + lane + 32 * place, mine = id;
        float logit = logit_at(logits, place);
        best_of_warp(&logit, &id);
        if (id == INT32_MAX)
            break;
        if (id == mine)
            taken |= 1u << place;
        if (lane == 0) {
            best[n].id = id;
            best[n].logit = logit;
        }
    }
    return n;
}

__global__ static void __launch_bounds__(32 * SCAN_WARPS, 4) scan_logits(scan_task task)
{
    gpu_await_previous();
    int row = (int)blockIdx.x, lane = (int)threadIdx.x % 32;
    int start = (int)(blockIdx.y * SCAN_WARPS + threadIdx.x / 32) * SEARCH_SLICE;
    if (row >= *task.n_rows || start >= task.n_ids)
        return;
    const struct search *search = &task.searches[task.slots[row]];
    const uint32_t *allowed = constraint_allowed(
        search->model.constraint, search->state[task.beams[row]],
        search->decoding.max_length - search->t, search->t >= search->decoding.min_length);
    int wanted = search_wanted(search);
    const float *logits = task.logits + (size_t)row * (size_t)task.stride + start;
    float x[LANE_IDS], maximum = -INFINITY, sum = 0.0f;
#pragma unroll
    for (int j = 0; j < LANE_IDS; j++) {
        int i = lane + 32 * j, id = task.first_id + start + i;
        bool is_there = start + i < task.n_ids, may_follow = is_there && is_in(allowed, id);
        x[j] = is_there && (may_follow || !search->model.renormalize) ? logits[i] : -INFINITY;
        maximum = fmaxf(maximum, x[j]);
    }
    maximum = max_over<32>(maximum);
#pragma unroll
    for (int j = 0; j < LANE_IDS; j++) {
        int i = lane + 32 * j, id = task.first_id + start + i;
        sum += x[j] != -INFINITY ? expf(x[j] - maximum) : 0.0f; /* NaN stays */
        if (start + i >= task.n_ids || (wanted < 0 ? !is_in(allowed, id) : id != wanted))
            x[j] = -INFINITY;
    }
    sum = sum_over<32>(sum);
    size_t slice =
        (size_t)row * (size_t)task.n_slices + (size_t)((task.first_id + start) / SEARCH_SLICE);
    int n = find_best(x, task.first_id + start, 2 * search->decoding.beam_size,
                      task.best + slice * (size_t)(2 * task.beam));
    if (lane == 0) {
        task.scans[slice].maximum = maximum;
        task.scans[slice].sum = sum;
        task.scans[slice].n = n;
    }
}

/* ---- The next hypotheses --------------------------------------------------------------------- */

enum { ADVANCE_WARPS = 4, ADVANCE_THREADS = 32 * ADVANCE_WARPS, LANE_SLICES = 16 };

/* log of the sum of exp over all slices: in an order that the slices' number alone decides. */
GPU_CODE float log_sum(const struct slice_scan *scans, int n_slices)
{
    float maximum = -INFINITY, sum = 0.0f;
    for (int s = (int)threadIdx.x % 32; s < n_slices; s += 32)
        maximum = fmaxf(maximum, scans[s].maximum);
    maximum = max_over<32>(maximum);
    for (int s = (int)threadIdx.x % 32; s < n_slices; s += 32)
        if (scans[s].maximum > -INFINITY)
            sum = fmaf(scans[s].sum, expf(scans[s].maximum - maximum), sum);
    return maximum + logf(sum_over<32>(sum));
}

/* A warp merges the candidates of one row: the best k, best first. Each lane keeps how many of its
 * slices' candidates have been taken. */
GPU_CODE int merge_slices(const advance_task &task, int row, int b, float score, int k,
                          struct continuation *merged)
{
    int lane = (int)threadIdx.x % 32, n = 0;
    const struct slice_scan *scans = task.scans + (size_t)row * (size_t)task.n_slices;
    const struct candidate *best =
        task.best + (size_t)row * (size_t)task.n_slices * (size_t)(2 * task.shape.beam);
    float total = log_sum(scans, task.n_slices);
    uint8_t taken[LANE_SLICES] = {};
    for (; n < k; n++) {
        float logit = -INFINITY;
        int id = INT32_MAX, mine = -1;
#pragma unroll
        for (int j = 0; j < LANE_SLICES; j++) {
            int s = lane + 32 * j;
            if (s >= task.n_slices || taken[j] >= scans[s].n)
                continue;
            struct candidate head = best[s * 2 * task.shape.beam + taken[j]];
            if (mine < 0 || precedes(head.logit, head.id, logit, id)) {
                logit = head.logit;
                id = head.id;
                mine = j;
            }
        }
        int my_id = id;
        best_of_warp(&logit, &id);
        if (id == INT32_MAX)
            break;
#pragma unroll
        for (int j = 0; j < LANE_SLICES; j++)
            taken[j] += j == mine && id == my_id;
        if (lane == 0) {
            merged[n].score = score + (logit - total);
            merged[n].b = b;
            merged[n].token = id;
        }
    }
    return n;
}

/* As rank() in search/search.c: the best `most` continuations of all live hypotheses. */
GPU_CODE int rank(const struct search *search, const struct continuation *merged, int stride,
                  const int32_t *counts, int most, struct continuation *ranked)
{
    int n = 0;
    for (int b = 0; b < search->n_live; b++)
        for (int i = 0; i < counts[b]; i++) {
            struct continuation c = merged[b * stride + i];
            if (n == most && !search_precedes(&c, &ranked[n - 1]))
                break;
            int place = n < most ? n++ : n - 1;
            for (; place > 0 && search_precedes(&c, &ranked[place - 1]); place--)
                ranked[place] = ranked[place - 1];
            ranked[place] = c;
        }
    return n;
}

/* Hypotheses go on along their parents' paths. */
GPU_CODE void extend_paths(const advance_task &task, const struct search *search, int slot)
{
    int t = search->t;
    for (int b = (int)threadIdx.x / 32; b < search->n_live; b += ADVANCE_WARPS) {
        int parent = search_node(search, t, b)->parent;
        const int32_t *from =
            task.paths + (size_t)turn_row(task.shape, slot, t - 1, parent) * task.shape.positions;
        int32_t *to = task.paths + (size_t)turn_row(task.shape, slot, t, b) * task.shape.positions;
        for (int i = (int)threadIdx.x % 32; i < t; i += 32)
            to[i] = from[i];
        if (threadIdx.x % 32 == 0)
            to[t] = cache_row(task.shape, slot, t, b);
    }
}

/* A thread writes one result: it walks back along the trellis. */
GPU_CODE void put_results(const advance_task &task, const struct search *search, int slot)
{
    struct slot_end *end = &task.ends[slot];
    for (int i = (int)threadIdx.x; i < search->n_results; i += ADVANCE_THREADS) {
        const struct search_result *result = &search->results[i];
        int32_t *tokens =
            task.tokens + (size_t)(slot * task.shape.beam + i) * (size_t)task.shape.positions;
        end->n_tokens[i] = result->n_tokens;
        end->score[i] = result->score;
        end->normalized_score[i] = result->normalized_score;
        for (int t = result->n_tokens, b = result->b; t > 0; t--) {
            const struct search_node *node = search_node(search, t, b);
            tokens[t - 1] = node->token;
            b = node->parent;
            if (task.alignment && task.is_aligned[slot])
                task.alignments[tokens - task.tokens + t - 1] =
                    task.alignment[cache_row(task.shape, slot, t - 1, b)];
        }
    }
    if (threadIdx.x == 0) {
        end->n_hypotheses = search->n_results;
        page_of(task.pages, task.shape, *task.pages.step - 1)[1 + slot] = 1;
    }
}

/* A block has a slot. */
__global__ static void __launch_bounds__(ADVANCE_THREADS, 1) advance_slots(advance_task task)
{
    gpu_await_previous();
    if ((int)blockIdx.x >= *task.n_groups)
        return;
    const int32_t *group = task.groups + 3 * blockIdx.x;
    int slot = group[0], first_row = group[1], n_rows = group[2], stride = 2 * task.shape.beam;
    struct search *search = &task.searches[slot];
    gpu_layout layout = {gpu_shared(), 0};
    struct continuation *ranked = layout.take<struct continuation>((size_t)stride);
    int k = 2 * search->decoding.beam_size;
    for (int b = (int)threadIdx.x / 32; b < n_rows; b += ADVANCE_WARPS) {
        int row = first_row + b;
        int n = merge_slices(task, row, b, search->score[b], k,
                             task.merged + (size_t)row * (size_t)stride);
        if (threadIdx.x % 32 == 0)
            task.merged_counts[row] = n;
    }
    __syncthreads(); /* the continuations of all hypotheses are there */
    if (threadIdx.x == 0) {
        int n = rank(search, task.merged + (size_t)first_row * (size_t)stride, stride,
                     task.merged_counts + first_row, k, ranked);
        search_decide(search, ranked, n);
    }
    __syncthreads(); /* and so is the next step */
    if (search->n_live > 0)
        extend_paths(task, search, slot);
    else
        put_results(task, search, slot);
}

/* One block. */
__global__ static void __launch_bounds__(ADVANCE_THREADS, 1) force_slot(force_task task)
{
    gpu_await_previous();
    struct search *search = &task.advance.searches[task.slot];
    if (threadIdx.x == 0) {
        struct continuation only;
        only.score = search->score[0];
        only.b = 0;
        only.token = task.token;
        search_go_on(search, &only, 1);
    }
    __syncthreads();
    extend_paths(task.advance, search, task.slot);
}

/* ---- Launches -------------------------------------------------------------------------------- */

void place_launch(cudaStream_t stream, const place_task &task)
{
    gpu_layout layout;
    layout.take<int32_t>(PLACE_WARPS);
    layout.take<int32_t>(PLACE_WARPS);
    gpu_launch(stream, place_rows, dim3(1), PLACE_THREADS, layout.bytes, task);
}

void scan_launch(cudaStream_t stream, const scan_task &task, int max_rows)
{
    int slices = (task.n_ids + SEARCH_SLICE - 1) / SEARCH_SLICE;
    dim3 grid((unsigned)max_rows, (unsigned)((slices + SCAN_WARPS - 1) / SCAN_WARPS));
    gpu_launch(stream, scan_logits, grid, 32 * SCAN_WARPS, 0, task);
}

void advance_launch(cudaStream_t stream, const advance_task &task)
{
    gpu_layout layout;
    layout.take<struct continuation>((size_t)(2 * task.shape.beam));
    gpu_launch(stream, advance_slots, dim3((unsigned)task.shape.n_slots), ADVANCE_THREADS,
               layout.bytes, task);
}

void force_launch(cudaStream_t stream, const force_task &task)
{
    gpu_launch(stream, force_slot, dim3(1), ADVANCE_THREADS, 0, task);
}
