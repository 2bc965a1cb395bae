/* Every class of lengths has a pairing heap by turn, and all classes together one by deadline.
 * queue_take() begins with the earliest turn and goes on to classes of nearer lengths first.
 * Nothing here can fail. */
#include "sched/queue.h"

#include <stdbool.h>

/* ---- Pairing heaps: sentences linked through links[order] ------------------------------------ */

/* `previous` is the sibling before or, for a first child, the parent. A top has neither sibling
 * nor previous. */

enum order { BY_TURN, BY_DEADLINE };

static bool is_before(const struct sentence *a, const struct sentence *b, enum order order)
{
    uint64_t x = order == BY_TURN ? a->turn : a->deadline_ns;
    uint64_t y = order == BY_TURN ? b->turn : b->deadline_ns;
    return x != y ? x < y : a->order < b->order;
}

static struct sentence *meld(struct sentence *a, struct sentence *b, enum order order)
{
    if (!a || !b)
        return a ? a : b;
    struct sentence *top = is_before(a, b, order) ? a : b, *under = top == a ? b : a;
    struct sentence *child = top->links[order].child;
    under->links[order].previous = top;
    under->links[order].sibling = child;
    if (child)
        child->links[order].previous = under;
    top->links[order].child = under;
    return top;
}

/* Makes it a top; returns the sibling that came after it. */
static struct sentence *cut(struct sentence *sentence, enum order order)
{
    struct sentence *after = sentence->links[order].sibling;
    sentence->links[order].sibling = sentence->links[order].previous = NULL;
    return after;
}

/* What stood under `top`: its children, melded in pairs, then from the last pair on. */
static struct sentence *meld_children(const struct sentence *top, enum order order)
{
    struct sentence *pairs = NULL, *rest = NULL;
    for (struct sentence *a = top->links[order].child; a;) {
        struct sentence *b = cut(a, order), *next = b ? cut(b, order) : NULL;
        struct sentence *pair = meld(a, b, order);
        pair->links[order].sibling = pairs;
        pairs = pair;
        a = next;
    }
    while (pairs) {
        struct sentence *next = cut(pairs, order);
        rest = meld(rest, pairs, order);
        pairs = next;
    }
    return rest;
}

static void heap_put(struct sentence **heap, struct sentence *sentence, enum order order)
{
    sentence->links[order] = (struct sentence_links){.child = NULL};
    *heap = meld(*heap, sentence, order);
}

static void heap_remove(struct sentence **heap, struct sentence *sentence, enum order order)
{
    struct sentence *rest = meld_children(sentence, order);
    struct sentence *previous = sentence->links[order].previous, *after = cut(sentence, order);
    if (!previous) {
        *heap = rest;
        return;
    }
    if (previous->links[order].child == sentence)
        previous->links[order].child = after;
    else
        previous->links[order].sibling = after;
    if (after)
        after->links[order].previous = previous;
    *heap = meld(*heap, rest, order);
}

/* ---- The queue ------------------------------------------------------------------------------- */

static size_t class_of(const struct sentence *sentence)
{
    size_t class = sentence->n_source / QUEUE_CLASS_TOKENS;
    return class < QUEUE_CLASSES ? class : QUEUE_CLASSES - 1;
}

static struct sentence *earliest(const struct flow *flow)
{
    struct sentence *first = NULL;
    for (size_t class = 0; class < QUEUE_CLASSES; class ++) {
        struct sentence *top = flow->lists[class];
        if (top && (!first || is_before(top, first, BY_TURN)))
            first = top;
    }
    return first;
}

/* The caller's, whether anything waits in it or not; NULL: he has none. */
static const struct flow *own_flow(const struct queue *queue, uint64_t caller)
{
    for (size_t i = 0; i < queue->n_flows; i++)
        if (queue->flows[i].caller == caller)
            return &queue->flows[i];
    return NULL;
}

const struct flow *queue_flow(const struct queue *queue, uint64_t caller)
{
    const struct flow *own = own_flow(queue, caller);
    return own && own->first ? own : NULL;
}

/* Where nothing waits: of those that were in use the one with the earliest start, unless its caller
 * owes something and another is free; NULL: all are taken. */
static const struct flow *empty_flow(const struct queue *queue)
{
    const struct flow *empty = NULL;
    for (size_t i = 0; i < queue->n_flows; i++)
        if (!queue->flows[i].first && (!empty || queue->flows[i].start < empty->start))
            empty = &queue->flows[i];
    if (queue->n_flows < QUEUE_FLOWS && (!empty || empty->start > queue->clock))
        return &queue->flows[queue->n_flows];
    return empty;
}

/* The caller's own, or an empty one, or somebody else's where all are taken. */
static const struct flow *flow_of(const struct queue *queue, uint64_t caller)
{
    const struct flow *flow = own_flow(queue, caller);
    flow = flow ? flow : empty_flow(queue);
    return flow ? flow : &queue->flows[caller % QUEUE_FLOWS];
}

/* Where what the caller puts now would start. */
static uint64_t start_of(const struct queue *queue, const struct flow *flow, uint64_t caller)
{
    bool is_kept = flow->first || (flow->caller == caller && flow->start > queue->clock);
    return is_kept ? flow->start : queue->clock;
}

static struct flow *enter_flow(struct queue *queue, uint64_t caller)
{
    size_t index = (size_t)(flow_of(queue, caller) - queue->flows);
    struct flow *flow = &queue->flows[index];
    if (!flow->first)
        *flow = (struct flow){.caller = caller, .start = start_of(queue, flow, caller)};
    queue->n_flows += index == queue->n_flows;
    return flow;
}

void queue_charge(struct queue *queue, uint64_t caller, uint64_t n_rows)
{
    if (n_rows > 0 && (own_flow(queue, caller) || empty_flow(queue)))
        enter_flow(queue, caller)->start += n_rows;
}

static void put(struct queue *queue, struct flow *flow, struct sentence *sentence)
{
    sentence->queue = queue;
    sentence->flow = flow;
    sentence->order = queue->next_order++;
    heap_put(&flow->lists[class_of(sentence)], sentence, BY_TURN);
    if (sentence->deadline_ns != 0)
        heap_put(&queue->deadlines, sentence, BY_DEADLINE);
    if (!flow->first || is_before(sentence, flow->first, BY_TURN))
        flow->first = sentence;
    if (flow->end < sentence->turn + sentence_source_rows(sentence))
        flow->end = sentence->turn + sentence_source_rows(sentence);
    flow->n_sentences++;
    flow->n_tokens += sentence->n_source;
    flow->n_rows += sentence_source_rows(sentence);
    flow->work += sentence->work;
    queue->n_sentences++;
    queue->n_tokens += sentence->n_source;
    queue->work += sentence->work;
}

void queue_put(struct queue *queue, struct sentence *sentences, size_t n)
{
    struct flow *flow = NULL;
    uint64_t turn = 0, next_clock = 0;
    for (size_t i = 0; i < n; i++) {
        struct sentence *sentence = &sentences[i];
        if (sentence->is_cached)
            continue;
        if (!flow) {
            flow = enter_flow(queue, sentence->caller);
            turn = flow->clock;
            next_clock = turn + sentence_source_rows(sentence);
        }
        sentence->turn = turn;
        put(queue, flow, sentence);
        turn += sentence_source_rows(sentence);
    }
    if (flow)
        flow->clock = next_clock;
}

void queue_remove(struct sentence *sentence)
{
    struct queue *queue = sentence->queue;
    struct flow *flow = sentence->flow;
    heap_remove(&flow->lists[class_of(sentence)], sentence, BY_TURN);
    if (sentence->deadline_ns != 0)
        heap_remove(&queue->deadlines, sentence, BY_DEADLINE);
    if (flow->first == sentence)
        flow->first = earliest(flow);
    flow->n_sentences--;
    flow->n_tokens -= sentence->n_source;
    flow->n_rows -= sentence_source_rows(sentence);
    flow->work -= sentence->work;
    queue->n_sentences--;
    queue->n_tokens -= sentence->n_source;
    queue->work -= sentence->work;
    sentence->queue = NULL;
}

struct sentence *queue_take_expired(struct queue *queue, uint64_t now_ns)
{
    struct sentence *next = queue->deadlines;
    if (!next || next->deadline_ns > now_ns)
        return NULL;
    queue_remove(next);
    return next;
}

/* ---- Who is next ----------------------------------------------------------------------------- */

static const struct flow *next_flow(const struct queue *queue)
{
    const struct flow *next = NULL;
    for (size_t i = 0; i < queue->n_flows; i++) {
        const struct flow *flow = &queue->flows[i];
        if (!flow->first)
            continue;
        if (!next || flow->start < next->start ||
            (flow->start == next->start && flow->first->order < next->first->order))
            next = flow;
    }
    return next;
}

struct sentence *queue_first(const struct queue *queue)
{
    const struct flow *next = next_flow(queue);
    return next ? next->first : NULL;
}

static bool has_room(const struct queue_room *left, const struct sentence *sentence)
{
    return left->sentences > 0 && sentence_source_rows(sentence) <= left->source_rows &&
           sentence_load(sentence) <= left->load;
}

static void subtract(size_t *left, size_t amount)
{
    *left -= amount < *left ? amount : *left;
}

/* The flow's earliest turn, then what is of the nearest class, the shorter one of two. */
static struct sentence *next_of(struct flow *flow, uint64_t n_takes)
{
    if (flow->n_takes != n_takes) {
        flow->n_takes = n_takes;
        flow->class = class_of(flow->first);
        return flow->first;
    }
    for (size_t distance = 0;; distance++) {
        if (distance <= flow->class && flow->lists[flow->class - distance])
            return flow->lists[flow->class - distance];
        if (flow->class + distance < QUEUE_CLASSES && flow->lists[flow->class + distance])
            return flow->lists[flow->class + distance];
    }
}

/* The flow's clock does not stand behind its first sentence. */
static void take(struct queue *queue, struct flow *flow, struct sentence *sentence)
{
    if (sentence == flow->first && flow->clock < sentence->turn)
        flow->clock = sentence->turn;
    queue_remove(sentence);
    flow->start += sentence_source_rows(sentence);
    if (queue->clock < flow->start)
        queue->clock = flow->start;
}

size_t queue_take(struct queue *queue, const struct queue_room *room, struct sentence **out)
{
    struct queue_room left = *room;
    const struct flow *next;
    size_t n = 0;
    queue->n_takes++;
    while (left.sentences > 0 && (next = next_flow(queue))) {
        struct flow *flow = &queue->flows[next - queue->flows];
        struct sentence *sentence = next_of(flow, queue->n_takes);
        if (n > 0 && !has_room(&left, sentence))
            break;
        take(queue, flow, sentence);
        out[n++] = sentence;
        left.sentences--;
        subtract(&left.source_rows, sentence_source_rows(sentence));
        subtract(&left.load, sentence_load(sentence));
    }
    return n;
}

/* ---- What waits ------------------------------------------------------------------------------ */

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* As much work as `n_rows` of the flow's rows have on average. */
static uint64_t work_of(const struct flow *flow, uint64_t n_rows)
{
    if (n_rows >= flow->n_rows)
        return flow->work;
    return (uint64_t)((double)flow->work / (double)flow->n_rows * (double)n_rows);
}

/* Of the caller's own texts, before the sentence that begins `n_rows` after where the clock stands.
 * From the turn that is next to the clock there is a row for each unit of time. Many texts share
 * what follows, as if they were spread evenly over it. */
static uint64_t own_rows_before(const struct flow *own, uint64_t n_rows)
{
    uint64_t to_clock = own->clock > own->first->turn ? own->clock - own->first->turn : 0;
    uint64_t least = smaller(to_clock + n_rows, own->n_rows), all = own->end - own->first->turn;
    if (to_clock + n_rows >= all)
        return own->n_rows;
    uint64_t even = (uint64_t)((double)own->n_rows * (double)(to_clock + n_rows) / (double)all);
    return least > even ? least : even;
}

/* Of another flow, before what starts then: at least a sentence. */
static uint64_t rows_before(const struct flow *flow, uint64_t start)
{
    uint64_t first = sentence_source_rows(flow->first);
    if (flow->start > start)
        return 0;
    return start - flow->start < first ? first : smaller(start - flow->start, flow->n_rows);
}

uint64_t queue_work_before(const struct queue *queue, uint64_t caller, uint64_t n_rows)
{
    const struct flow *own = flow_of(queue, caller);
    uint64_t n_own = own->first ? own_rows_before(own, n_rows) : 0;
    uint64_t work = own->first ? work_of(own, n_own) : 0;
    uint64_t start = start_of(queue, own, caller) + n_own + n_rows;
    for (size_t i = 0; i < queue->n_flows; i++)
        if (queue->flows[i].first && &queue->flows[i] != own)
            work += work_of(&queue->flows[i], rows_before(&queue->flows[i], start));
    return work;
}
