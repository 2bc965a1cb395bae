/* bench_preset.h - acre bench --preset: what area attention costs, as a table beside the paper's.
 *
 * Main thread, which does the measuring as well.
 */
#ifndef SERVER_CLI_BENCH_PRESET_H
#define SERVER_CLI_BENCH_PRESET_H

#include "acre_bench.h"

/* Measures options->preset and prints the table. Returns an exit status. */
int bench_preset(const struct acre_bench_options *options, bool as_json);

/* Prints what presets there are, and their sizes. */
int bench_preset_list(bool as_json);

#endif
