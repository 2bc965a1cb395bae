#include "fallback.h"

#include <stdio.h>

bool fallback_works(const struct acre_engine *engine)
{
    return engine->fallback && scheduler_health(engine->scheduler, NULL) != 0;
}

static void tell(struct acre_engine *engine)
{
    struct acre_err err = {.code = 0};
    char line[1200];
    if (atomic_exchange(&engine->is_loss_told, true) || !engine->options.log)
        return;
    scheduler_health(engine->scheduler, &err);
    snprintf(line, sizeof(line), "device lost: %s; going on with %s", err.text,
             engine->fallback->name);
    engine->options.log(engine->options.log_user, ACRE_LOG_WARNING, line);
}

static int submit(struct acre_model *model, const struct plan_text *texts, size_t n,
                  struct acre_err *err)
{
    const struct acre_model *other = model->fallback;
    return scheduler_submit(other->engine->scheduler, other->served, texts, n, err);
}

bool fallback_takes(struct acre_model *model, struct sentence *sentence)
{
    const struct plan_text text = {sentence, 1};
    if (sentence->status != ACRE_EDEVICE || sentence->is_retried || !fallback_works(model->engine))
        return false;
    tell(model->engine);
    sentence->is_retried = true;
    sentence->status = 0;
    if (submit(model, &text, 1, NULL) == 0)
        return true;
    sentence->status = ACRE_EDEVICE;
    return false;
}

int fallback_submit(struct acre_model *model, const struct plan_text *texts, size_t n,
                    struct acre_err *err)
{
    int status = scheduler_submit(model->engine->scheduler, model->served, texts, n, err);
    if (status != ACRE_EDEVICE || !model->fallback)
        return status;
    tell(model->engine);
    return submit(model, texts, n, err);
}

/* The first one does nothing once its device is lost. */
void fallback_cancel(struct acre_model *model, struct sentence *sentences, size_t n)
{
    scheduler_cancel(model->engine->scheduler, sentences, n);
    if (fallback_works(model->engine))
        scheduler_cancel(model->engine->fallback->scheduler, sentences, n);
}
