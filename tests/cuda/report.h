/* report.h - what the emulator found, counted and, unless a test expects it, printed. */
#ifndef TESTS_CUDA_REPORT_H
#define TESTS_CUDA_REPORT_H

/* Prints the first few of each kind, with block and thread; in an address after it, where: for
 * addr2line. */
void report(int *count, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
