#include "fibre.h"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define BEGIN_SWITCH(fake, bottom, bytes) __sanitizer_start_switch_fiber(fake, bottom, bytes)
#define END_SWITCH(fake, bottom, bytes) __sanitizer_finish_switch_fiber(fake, bottom, bytes)
#else
#define BEGIN_SWITCH(fake, bottom, bytes) ((void)(fake), (void)(bottom), (void)(bytes))
#define END_SWITCH(fake, bottom, bytes) ((void)(fake), (void)(bottom), (void)(bytes))
#endif

static void *scheduler; /* where fibres leave to */
static void *scheduler_fake_stack;
static const void *scheduler_bottom;
static size_t scheduler_bytes;

static void map_stack(fibre *f)
{
    void *stack = mmap(nullptr, FIBRE_STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) {
        perror("no memory for a fibre's stack");
        abort();
    }
    f->stack = (char *)stack;
}

#if defined(__x86_64__)

extern "C" void fibre_switch(void **save, void *load);
asm(".text\n.globl fibre_switch\n.type fibre_switch,@function\nfibre_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
    ".size fibre_switch,.-fibre_switch\n");

/* As if the fibre had switched away just before entry(): six registers, and where to return to. */
static void make_context(fibre *f, void (*entry)())
{
    void **top = (void **)(f->stack + FIBRE_STACK_BYTES);
    top[-1] = nullptr;
    top[-2] = (void *)entry;
    for (int i = 3; i <= 8; i++)
        top[-i] = nullptr;
    f->context = top - 8;
}

static void switch_to_fibre(fibre *f)
{
    fibre_switch(&scheduler, f->context);
}

static void switch_to_scheduler(fibre *f)
{
    fibre_switch(&f->context, scheduler);
}

#else
#include <ucontext.h>

static ucontext_t scheduler_context;

static void make_context(fibre *f, void (*entry)())
{
    ucontext_t *context = f->context ? (ucontext_t *)f->context : new ucontext_t;
    getcontext(context);
    context->uc_stack.ss_sp = f->stack;
    context->uc_stack.ss_size = FIBRE_STACK_BYTES;
    context->uc_link = nullptr;
    makecontext(context, entry, 0);
    f->context = context;
    (void)scheduler;
}

static void switch_to_fibre(fibre *f)
{
    swapcontext(&scheduler_context, (ucontext_t *)f->context);
}

static void switch_to_scheduler(fibre *f)
{
    swapcontext((ucontext_t *)f->context, &scheduler_context);
}
#endif

void fibre_start(fibre *f, void (*entry)())
{
    if (!f->stack)
        map_stack(f);
    make_context(f, entry);
}

void fibre_entered()
{
    END_SWITCH(nullptr, &scheduler_bottom, &scheduler_bytes);
}

void fibre_resume(fibre *f)
{
    BEGIN_SWITCH(&scheduler_fake_stack, f->stack, FIBRE_STACK_BYTES);
    switch_to_fibre(f);
    END_SWITCH(scheduler_fake_stack, nullptr, nullptr);
}

void fibre_leave(fibre *f, bool for_ever)
{
    BEGIN_SWITCH(for_ever ? nullptr : &f->fake_stack, scheduler_bottom, scheduler_bytes);
    switch_to_scheduler(f);
    END_SWITCH(f->fake_stack, &scheduler_bottom, &scheduler_bytes);
}
