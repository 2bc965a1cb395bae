/* load.h - reads a model's directory: configuration, tokenizer, weights. Private to the files of
 * this folder.
 */
#ifndef ENGINE_LOAD_H
#define ENGINE_LOAD_H

#include "engine.h"

/* Fills in the model's config, tokenizer, networks, one on each device that is well, constraint,
 * parameters and packed_bytes; its name and engine are there. What it has by then is
 * model_free()'s, also if it fails. */
int model_load(struct acre_engine *engine, const char *directory, struct acre_model *model,
               struct acre_err *err);

#endif
