#include "sched/queue.h"

static size_t class_of(const struct sentence *sentence)
{
    size_t class = sentence->n_source / QUEUE_CLASS_TOKENS;
    return class < QUEUE_CLASSES ? class : QUEUE_CLASSES - 1;
}

void queue_put(struct queue *queue, struct sentence *sentence)
{
    size_t class = class_of(sentence);
    sentence->next = NULL;
    sentence->order = queue->next_order++;
    if (queue->head[class])
        queue->tail[class]->next = sentence;
    else
        queue->head[class] = sentence;
    queue->tail[class] = sentence;
    queue->n_sentences++;
    queue->n_tokens += sentence->n_source;
}

static struct sentence *pop(struct queue *queue, size_t class)
{
    struct sentence *sentence = queue->head[class];
    queue->head[class] = sentence->next;
    queue->n_sentences--;
    queue->n_tokens -= sentence->n_source;
    return sentence;
}

static size_t oldest_class(const struct queue *queue)
{
    size_t oldest = QUEUE_CLASSES;
    for (size_t class = 0; class < QUEUE_CLASSES; class ++) {
        const struct sentence *head = queue->head[class];
        if (head && (oldest == QUEUE_CLASSES || head->order < queue->head[oldest]->order))
            oldest = class;
    }
    return oldest;
}

struct take {
    size_t sentences_left, rows_left;
    struct sentence **out;
    size_t n;
};

static void take_class(struct queue *queue, size_t class, struct take *take)
{
    while (queue->head[class] && take->sentences_left > 0) {
        size_t rows = queue->head[class]->n_source + 1;
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
    size_t start = oldest_class(queue);
    if (start == QUEUE_CLASSES)
        return 0;
    for (size_t distance = 0; distance < QUEUE_CLASSES; distance++) {
        if (distance <= start)
            take_class(queue, start - distance, &take);
        if (distance > 0 && start + distance < QUEUE_CLASSES)
            take_class(queue, start + distance, &take);
    }
    return take.n;
}
