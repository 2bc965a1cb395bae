/* preset.h - the sizes of the published models, as configurations without a directory.
 *
 * The table is that of models/train/shape.py, which a test holds it to. A configuration is written
 * as config.json and read by config_parse(), so that it passes the same checks. Any thread.
 */
#ifndef MODEL_PRESET_H
#define MODEL_PRESET_H

#include "acre_bench.h"
#include "model/config.h"

/* Static. ACRE_EOPTION names those that there are. */
int preset_find(const char *name, const struct acre_preset **preset, struct acre_err *err);

/* areas: one of enum acre_areas; kinds: as of config_parse(). On success config_fini() frees what
 * config owns. */
int preset_config(const struct acre_preset *preset, size_t areas, int vocab_size,
                  const struct config_kind *const *kinds, struct config *config,
                  struct acre_err *err);

#endif
