/* memory.h - the emulator's device and shared memory, and what is known of every part of it.
 *
 * In the race build each grain of two bytes knows who wrote it last and who has read it since, by
 * block, thread and the barriers that these had passed. Two accesses of which one writes are a race
 * unless the same thread made both, or a barrier of their block, or of their warp, or a launch came
 * in between. So threads of kernels must not write single bytes side by side. In the address
 * sanitizer's build the host may not touch device memory at all.
 */
#ifndef TESTS_CUDA_MEMORY_H
#define TESTS_CUDA_MEMORY_H

#include <cstddef>
#include <cstdint>

/* Who makes an access. Numbers of blocks and barriers are never given twice. */
struct actor {
    uint32_t launch; /* the first block of the present launch */
    uint32_t
        first_block; /* of the launches that may be under way, but for those of other streams */
    uint32_t block, epoch, warp_clock;
    uint32_t thread;
    int device;
};

/* is_host: pinned, the host's as well, and every device's. */
void *memory_take(size_t bytes, bool is_host, int device);
bool memory_give(void *memory); /* false: it was not taken */
enum { ALL_DEVICES = -1 };
size_t memory_held(int device);
bool memory_is_closed_at(const void *at); /* in the address sanitizer's build */
void memory_open();                       /* device memory is the device's, */
void memory_close();                      /* and nobody's */
void memory_written(const void *at, size_t bytes);
bool memory_has(const void *at, size_t bytes); /* inside of one allocation */

/* Shared memory of a block, as NaNs. */
char *shared_begin(size_t bytes, size_t n_warps, uint32_t block);
void shared_end();
char *shared_memory();
void shared_forbid(size_t begin, size_t end);

/* One access, in the race build. */
void memory_access(const actor *who, const void *at, size_t bytes, bool is_write, const void *pc);
void memory_unwritten(const void *at, size_t bytes); /* until it is written */

#endif
