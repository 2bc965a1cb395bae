/* Happy path: an engine worker's translator_on_done() puts its item on the list and wakes the loop
 * -> on_wake() takes the list and counts each item off.
 *
 * Failure modes: none once it is open. A translate that was closed early is freed with the last of
 * its items. */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "serve/translate_internal.h"

/* ---- The list -------------------------------------------------------------------------------- */

/* A thread that found both lists empty wakes the loop, after the lock: the loop may run at once. */
static void wake(struct translator *translator)
{
    static const uint64_t one = 1;

    if (write(translator->wake_fd, &one, sizeof(one)) < 0)
        return; /* cannot be: only 2^64 - 2 unread wake-ups are refused */
}

void translator_on_done(void *user)
{
    struct item *item = user;
    struct translator *translator = item->translate->translator;
    bool is_first;

    uv_mutex_lock(&translator->lock);
    is_first = !translator->finished && !translator->news;
    item->next = translator->finished;
    translator->finished = item;
    uv_mutex_unlock(&translator->lock);
    if (is_first)
        wake(translator);
}

void translator_on_next(void *user)
{
    struct item *item = user;
    struct translate *translate = item->translate;
    struct translator *translator = translate->translator;
    bool is_first;

    uv_mutex_lock(&translator->lock);
    is_first = !translator->finished && !translator->news;
    if (!translate->has_news) {
        translate->next_news = translator->news;
        translator->news = translate;
    }
    translate->has_news = true;
    uv_mutex_unlock(&translator->lock);
    if (is_first)
        wake(translator);
}

/* Takes it off the list that begins with it. Until then has_news keeps workers from its link, and
 * what they bring it is told with the rest. */
static struct translate *leave_news(struct translator *translator, struct translate *news)
{
    struct translate *next;

    uv_mutex_lock(&translator->lock);
    next = news->next_news;
    news->has_news = false;
    uv_mutex_unlock(&translator->lock);
    return next;
}

/* News first: an item that is finished may be the last of its translate. */
static void take_finished(struct translator *translator)
{
    struct translate *news, *next_news;
    struct item *item, *next;

    uv_mutex_lock(&translator->lock);
    item = translator->finished;
    news = translator->news;
    translator->finished = NULL;
    translator->news = NULL;
    uv_mutex_unlock(&translator->lock);
    for (; news; news = next_news) {
        next_news = leave_news(translator, news);
        translate_tell_news(news);
    }
    for (; item; item = next) {
        next = item->next; /* the item may go with its translate */
        item->translate->n_finished++;
        translate_settle(item->translate);
    }
}

static void on_wake(uv_poll_t *wake, int status, int events)
{
    struct translator *translator = wake->data;
    uint64_t n;

    (void)status;
    (void)events;
    if (read(translator->wake_fd, &n, sizeof(n)) == sizeof(n))
        take_finished(translator);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static void do_nothing(uv_work_t *work)
{
    (void)work;
}

static void on_warm(uv_work_t *work, int status)
{
    struct translator *translator = work->data;

    (void)status;
    translator->n_submitting--;
}

int translator_open(uv_loop_t *loop, struct acre_engine *engine, struct translator **out,
                    struct acre_err *err)
{
    struct translator *translator = calloc(1, sizeof(*translator));

    if (!translator)
        return error_set_no_memory(err);
    translator->loop = loop;
    turns_init(&translator->splitting, loop, 1, &translator->n_submitting);
    turns_init(&translator->working, loop, TURNS_HALF, &translator->n_submitting);
    translator->engine = engine;
    if (uv_mutex_init(&translator->lock) != 0)
        goto err_after_alloc;
    translator->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (translator->wake_fd < 0)
        goto err_after_mutex;
    if (uv_poll_init(loop, &translator->wake, translator->wake_fd) != 0)
        goto err_after_eventfd;
    translator->wake.data = translator;
    uv_poll_start(&translator->wake, UV_READABLE, on_wake);
    /* libuv starts its pool with the first work, and aborts if it cannot: that shall be now. */
    translator->warm_up.data = translator;
    uv_queue_work(loop, &translator->warm_up, do_nothing, on_warm);
    translator->n_submitting++;
    *out = translator;
    return 0;

err_after_eventfd:
    close(translator->wake_fd);
err_after_mutex:
    uv_mutex_destroy(&translator->lock);
err_after_alloc:
    free(translator);
    return error_set(err, ACRE_EIO, "the event loop cannot be set up");
}

bool translator_uses(const struct translator *translator, const struct acre_model *model)
{
    for (const struct translate *each = translator->translates; each; each = each->sibling)
        for (size_t i = 0; i < each->n_routes; i++)
            if (each->routes[i].request.model == model)
                return true;
    return false;
}

void translator_settle(struct translator *translator)
{
    while (translator && translator->n_submitting > 0)
        uv_run(translator->loop, UV_RUN_ONCE);
}

void translator_close(struct translator *translator)
{
    if (!translator)
        return;
    take_finished(translator);
    uv_close((uv_handle_t *)&translator->wake, NULL);
}

void translator_free(struct translator *translator)
{
    if (!translator)
        return;
    close(translator->wake_fd);
    uv_mutex_destroy(&translator->lock);
    free(translator);
}
