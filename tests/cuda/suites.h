/* suites.h - the tests of one program, which is built three times: see rules.mk. */
#ifndef TESTS_CUDA_SUITES_H
#define TESTS_CUDA_SUITES_H

/* Each returns how many of its tests failed. */
int emulator_suite();
int linear_suite();
int norm_suite();
int attend_suite();
int areas_suite();
int lstm_suite();
int search_suite();
int graphs_suite();
int replays_suite() __attribute__((weak)); /* not in `make engine`, which has no models */
int barriers_suite();                      /* of all barriers that were left out */
int device_suite();                        /* the last: it gives the GPU up */

#endif
