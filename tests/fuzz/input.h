/* input.h - gives a fuzz target's bytes to readers that want a file or a directory. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A directory of this process in memory-backed storage where there is one; made at the first
 * call, and removed at exit. */
const char *input_directory(void);

/* Writes one file of that directory. */
void input_write(const char *name, const void *data, size_t size);

#endif
