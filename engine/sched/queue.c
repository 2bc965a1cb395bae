/* Every class of lengths has a pairing heap by turn, and all classes together one by deadline.
 * queue_take() begins with the earliest turn and goes on to classes of nearer lengths first.
 * Nothing here can fail. */
#include "sched/queue.h"

#include <stdbool.h>

/* ---- Pairing heaps: sentences linked through links[order] ------------------------------------
 * `previous` is the sibling before or, for a first child, the parent. A top has neither sibling
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

void queue_put(struct queue *queue, struct sentence *sentences, size_t n)
{
    uint64_t turn = queue->clock, next_clock = turn;
    for (size_t i = 0; i < n; i++) {
        struct sentence *sentence = &sentences[i];
        if (sentence->is_known)
            continue;
        if (turn == queue->clock)
            next_clock = turn + sentence_source_rows(sentence);
        queue->n_sentences++;
        sentence->queue = queue;
        sentence->turn = turn;
        sentence->order = queue->next_order++;
        heap_put(&queue->lists[class_of(sentence)], sentence, BY_TURN);
        if (sentence->deadline_ns != 0)
            heap_put(&queue->deadlines, sentence, BY_DEADLINE);
        turn += sentence_source_rows(sentence);
        queue->n_tokens += sentence->n_source;
    }
    queue->clock = next_clock;
}

void queue_remove(struct sentence *sentence)
{
    struct queue *queue = sentence->queue;
    heap_remove(&queue->lists[class_of(sentence)], sentence, BY_TURN);
    if (sentence->deadline_ns != 0)
        heap_remove(&queue->deadlines, sentence, BY_DEADLINE);
    queue->n_sentences--;
    queue->n_tokens -= sentence->n_source;
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

struct sentence *queue_first(const struct queue *queue)
{
    struct sentence *first = NULL;
    for (size_t class = 0; class < QUEUE_CLASSES; class ++) {
        struct sentence *top = queue->lists[class];
        if (top && (!first || is_before(top, first, BY_TURN)))
            first = top;
    }
    return first;
}

struct take {
    struct queue_room left;
    struct sentence **out;
    size_t n;
};

static bool has_room(const struct take *take, const struct sentence *sentence)
{
    const struct queue_room *left = &take->left;
    return left->sentences > 0 &&
           (take->n == 0 || (sentence_source_rows(sentence) <= left->source_rows &&
                             sentence_load(sentence) <= left->load));
}

static void subtract(size_t *left, size_t amount)
{
    *left -= amount < *left ? amount : *left;
}

/* False: the next one does not fit. */
static bool take_class(struct queue *queue, size_t class, struct take *take)
{
    struct sentence *next;
    while ((next = queue->lists[class])) {
        if (!has_room(take, next))
            return false;
        queue_remove(next);
        take->out[take->n++] = next;
        take->left.sentences--;
        subtract(&take->left.source_rows, sentence_source_rows(next));
        subtract(&take->left.load, sentence_load(next));
    }
    return true;
}

size_t queue_take(struct queue *queue, const struct queue_room *room, struct sentence **out)
{
    struct take take = {.left = *room, .out = out};
    const struct sentence *first = queue_first(queue);
    if (!first || room->sentences == 0)
        return 0;
    if (queue->clock < first->turn)
        queue->clock = first->turn;
    size_t start = class_of(first);
    for (size_t distance = 0; distance < QUEUE_CLASSES; distance++) {
        if (distance <= start && !take_class(queue, start - distance, &take))
            break;
        if (distance > 0 && start + distance < QUEUE_CLASSES &&
            !take_class(queue, start + distance, &take))
            break;
    }
    return take.n;
}
