#include "sched/queue.h"

#include <stdbool.h>

static size_t class_of(const struct sentence *sentence)
{
    size_t class = sentence->n_source / QUEUE_CLASS_TOKENS;
    return class < QUEUE_CLASSES ? class : QUEUE_CLASSES - 1;
}

static size_t rows_of(const struct sentence *sentence)
{
    return sentence->n_source + 1; /* the end token */
}

static bool is_before(const struct sentence *a, const struct sentence *b)
{
    return a->turn != b->turn ? a->turn < b->turn : a->order < b->order;
}

/* ---- Pairing heap: a list's sentences, linked through child and sibling -----------------------
 */

static struct sentence *meld(struct sentence *a, struct sentence *b)
{
    if (!a || !b)
        return a ? a : b;
    struct sentence *top = is_before(a, b) ? a : b, *under = top == a ? b : a;
    under->sibling = top->child;
    top->child = under;
    return top;
}

/* What remains without the top: its children, melded in pairs, then from the last pair on. */
static struct sentence *without_top(const struct sentence *top)
{
    struct sentence *pairs = NULL, *rest = NULL;
    for (struct sentence *a = top->child; a;) {
        struct sentence *b = a->sibling, *next = b ? b->sibling : NULL;
        a->sibling = NULL;
        if (b)
            b->sibling = NULL;
        struct sentence *pair = meld(a, b);
        pair->sibling = pairs;
        pairs = pair;
        a = next;
    }
    while (pairs) {
        struct sentence *next = pairs->sibling;
        pairs->sibling = NULL;
        rest = meld(rest, pairs);
        pairs = next;
    }
    return rest;
}

/* ---- The queue ------------------------------------------------------------------------------- */

void queue_put(struct queue *queue, struct sentence *sentences, size_t n)
{
    uint64_t turn = queue->clock;
    for (size_t i = 0; i < n; i++) {
        struct sentence *sentence = &sentences[i];
        struct sentence **list = &queue->lists[class_of(sentence)];
        sentence->child = sentence->sibling = NULL;
        sentence->turn = turn;
        sentence->order = queue->next_order++;
        *list = meld(*list, sentence);
        turn += rows_of(sentence);
        queue->n_tokens += sentence->n_source;
    }
    queue->n_sentences += n;
    if (n > 0)
        queue->clock += rows_of(&sentences[0]);
}

static struct sentence *pop(struct queue *queue, size_t class)
{
    struct sentence *sentence = queue->lists[class];
    queue->lists[class] = without_top(sentence);
    queue->n_sentences--;
    queue->n_tokens -= sentence->n_source;
    return sentence;
}

static size_t earliest_class(const struct queue *queue)
{
    size_t earliest = QUEUE_CLASSES;
    for (size_t class = 0; class < QUEUE_CLASSES; class ++) {
        const struct sentence *top = queue->lists[class];
        if (top && (earliest == QUEUE_CLASSES || is_before(top, queue->lists[earliest])))
            earliest = class;
    }
    return earliest;
}

struct take {
    size_t sentences_left, rows_left;
    struct sentence **out;
    size_t n;
};

static void take_class(struct queue *queue, size_t class, struct take *take)
{
    while (queue->lists[class] && take->sentences_left > 0) {
        size_t rows = rows_of(queue->lists[class]);
        if (take->n > 0 && rows > take->rows_left)
            return;
        take->out[take->n++] = pop(queue, class);
        take->sentences_left--;
        take->rows_left -= rows < take->rows_left ? rows : take->rows_left;
    }
}

size_t queue_take(struct queue *queue, size_t max_sentences, size_t max_rows, struct sentence **out)
{
    struct take take = {.sentences_left = max_sentences, .rows_left = max_rows, .out = out};
    size_t start = earliest_class(queue);
    if (start == QUEUE_CLASSES)
        return 0;
    if (max_sentences > 0 && queue->clock < queue->lists[start]->turn)
        queue->clock = queue->lists[start]->turn;
    for (size_t distance = 0; distance < QUEUE_CLASSES; distance++) {
        if (distance <= start)
            take_class(queue, start - distance, &take);
        if (distance > 0 && start + distance < QUEUE_CLASSES)
            take_class(queue, start + distance, &take);
    }
    return take.n;
}
