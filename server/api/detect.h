/* detect.h - the language of a call's texts, where the call does not say it.
 *
 * Each text is in the language that it is without doubt. What is short or leaves doubt is in that
 * of all texts together, which are looked at as one; but for that it neither stays as it is nor is
 * refused, unless it looks like it itself. Loop thread, but for detect_look().
 */
#ifndef SERVER_API_DETECT_H
#define SERVER_API_DETECT_H

#include <stdbool.h>

#include "common/error.h"
#include "content/detect.h"

struct acre_model;
struct call;

/* What a text is in. */
struct found {
    char code[24];  /* a source's tag; or the target's, if: */
    bool is_kept;   /* it is in the target's language already, and stays as it is */
    int confidence; /* 0 to 100 */
    struct detect_guess guess;
};

/* The texts of a call as one, among all languages of this server. One without letters is any
 * language's: it is in that of detect_take_default(). -1: no memory. */
int detect_texts(const struct call *call, struct detection *detection, struct srv_error *error);

/* What is said of texts of which nothing is known, with confidence 0: English, if models read it
 * and it can be translated into the call's target, else the first that can. */
void detect_take_default(const struct call *call, const struct acre_model *model,
                         struct detection *detection);

/* Whether there are several texts to look at, each by itself, before detect_source(); and doing so:
 * it takes long, and any thread may. */
bool detect_must_look(const struct call *call);
void detect_look(struct call *call);

/* Finds call->found among the languages that `model`, which the call names, reads; NULL: that any
 * does. Of a model that reads one language that is the source, with confidence 0 where a text looks
 * like another. Refuses a text whose language is none of them, or cannot be told: an assumed one
 * would be shown to users as a finding. */
int detect_source(struct call *call, const struct acre_model *model, struct srv_error *error);

#endif
