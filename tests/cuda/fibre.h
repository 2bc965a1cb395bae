/* fibre.h - threads of a GPU as fibres of one CPU thread: each has a stack and runs until it
 * leaves.
 *
 * The scheduler resumes a fibre, the fibre leaves to the scheduler. On x86-64 a switch is a dozen
 * instructions, elsewhere ucontext. The address sanitizer is told of every stack. One scheduler at
 * a time; the emulator's lock sees to that.
 */
#ifndef TESTS_CUDA_FIBRE_H
#define TESTS_CUDA_FIBRE_H

#include <cstddef>

struct fibre {
    char *stack = nullptr; /* mapped at the first start, kept for the next */
    void *context = nullptr;
    void *fake_stack = nullptr; /* the address sanitizer's */
};

enum { FIBRE_STACK_BYTES = 256 * 1024 };

/* Makes it begin with entry(), which must end with fibre_leave(f, true). */
void fibre_start(fibre *f, void (*entry)());
void fibre_entered(); /* what entry() calls first */

void fibre_resume(fibre *f);
void fibre_leave(fibre *f, bool for_ever);

static inline bool fibre_owns(const fibre *f, const void *at)
{
    const char *p = (const char *)at;
    return p >= f->stack && p < f->stack + FIBRE_STACK_BYTES;
}

#endif
