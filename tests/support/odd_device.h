/* odd_device.h - the CPU device with the habits of devices that work behind the host's back: it can
 * be lost, and it can tell of what has ended one step late. One pair at a time in a process. */
#ifndef TESTS_ODD_DEVICE_H
#define TESTS_ODD_DEVICE_H

#include "device/device.h"

struct odd_habits {
    long lost_after; /* polls of all its streams together that are good; -1: all */
    bool is_late;    /* runs_ahead is 1 */
};

/* Fails the test if there is no memory. The caller owns it: device_close(). */
struct device *odd_device_open(const struct odd_habits *habits);

/* Beside that one: of the same habits, but never lost. */
struct device *odd_device_open_second(void);

#endif
