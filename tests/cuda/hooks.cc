/* hooks.cc - what -fsanitize=thread calls at every access of a kernel, without its run time: linked
 * into the race build only. */
#include <cstddef>

#include "emulate.h"

void on_access(const void *at, size_t bytes, bool is_write, const void *pc);

namespace
{
struct announce {
    announce()
    {
        emulate::sees_accesses = true;
    }
} announce;
} // namespace

#define HOOK(name, bytes, is_write)                                                                \
    extern "C" void name(void *at)                                                                 \
    {                                                                                              \
        on_access(at, bytes, is_write, __builtin_return_address(0));                               \
    }
#define HOOKS(bytes)                                                                               \
    HOOK(__tsan_read##bytes, bytes, false)                                                         \
    HOOK(__tsan_write##bytes, bytes, true)                                                         \
    HOOK(__tsan_unaligned_read##bytes, bytes, false)                                               \
    HOOK(__tsan_unaligned_write##bytes, bytes, true)
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

extern "C" void __tsan_read_range(void *at, size_t bytes)
{
    on_access(at, bytes, false, __builtin_return_address(0));
}

extern "C" void __tsan_write_range(void *at, size_t bytes)
{
    on_access(at, bytes, true, __builtin_return_address(0));
}

extern "C" void __tsan_func_entry(void *)
{
}

extern "C" void __tsan_func_exit()
{
}

extern "C" void __tsan_init()
{
}

extern "C" void __tsan_vptr_update(void **, void *)
{
}

/* The host's own flag (memory.cu); kernels have no atomic variables of C++. */
extern "C" unsigned char __tsan_atomic8_load(const volatile unsigned char *at, int)
{
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

extern "C" void __tsan_atomic8_store(volatile unsigned char *at, unsigned char value, int)
{
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);
}
