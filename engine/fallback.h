/* fallback.h - what is left when the device is lost is decoded on the CPU, by an engine inside the
 * engine that has the same models. Private to the files of this folder.
 *
 * A sentence that ends with ACRE_EDEVICE enters the other engine's queue, once; later texts go
 * there at once. Only one of the two schedulers has a sentence at a time, but either may be told
 * that it is cancelled: one whose device is lost touches none that it has handed back. Where there
 * are several devices, all must be lost: until then what one of them leaves goes to the others
 * (plan.h).
 */
#ifndef ENGINE_FALLBACK_H
#define ENGINE_FALLBACK_H

#include "engine.h"

/* Whether there is another engine, and it is the one that works now. */
bool fallback_works(const struct acre_engine *engine);

/* Whether the sentence, which has ended, goes on there instead. */
bool fallback_takes(struct acre_model *model, struct sentence *sentence);

/* scheduler_submit() of the engine that works. */
int fallback_submit(struct acre_model *model, const struct plan_text *texts, size_t n,
                    struct acre_err *err);
void fallback_cancel(struct acre_model *model, struct sentence *sentences, size_t n);

#endif
