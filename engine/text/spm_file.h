/* spm_file.h - whether libsentencepiece can read a .spm file, and then texts, without harm.
 *
 * The library trusts a file in two things: that its normalisation tables stay within themselves
 * (charsmap.h), and that no more than 64 of its user-defined pieces begin one another; the rest it
 * checks itself. Pieces are UTF-8, as they are told to clients. The file is a protocol buffer, read
 * here as strictly as the library reads it or more so: what is accepted means the same to both. Any
 * thread.
 */
#ifndef TEXT_SPM_FILE_H
#define TEXT_SPM_FILE_H

#include <stddef.h>

#include "acre.h"

/* 0, ACRE_EMODEL if it is not sound or no protocol buffer, or ACRE_ENOMEM. `name` is what messages
 * call the file. */
int spm_file_check(const char *name, const char *data, size_t bytes, struct acre_err *err);

#endif
