/* The macros of kernels on the processor. A kernel without barriers and shuffles is a loop over its threads; with
   KILN_FIBERS each thread of a block is a fiber with a stack of its own, which yields where it waits for others. */
#define KILN_HOST 1
#define _GNU_SOURCE 1
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

typedef struct { unsigned int x, y, z; } KilnIndex;
static KilnIndex kiln_thread, kiln_block, kiln_threads, kiln_blocks;

#define KILN_KERNEL static
#define KILN_DEVICE static inline
#define KILN_SHARED static
#define KILN_THREAD_X kiln_thread.x
#define KILN_THREAD_Y kiln_thread.y
#define KILN_THREADS_X kiln_threads.x
#define KILN_BLOCK_X kiln_block.x
#define KILN_BLOCKS_X kiln_blocks.x
#define KILN_ALIGN(bytes) __attribute__((aligned(bytes)))
static inline float KILN_BITS(unsigned int bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#ifdef KILN_FIBERS
enum { KILN_READY, KILN_EXCHANGE, KILN_BARRIER, KILN_DONE };
/* Only the pages of a stack that are used take memory. */
enum { KILN_STACK = 64 << 10, KILN_WARP = 32 };
typedef struct {
    jmp_buf place;
    ucontext_t start;
    int state, started;
    KilnIndex index;
    /* Two, because a thread may reach its next shuffle before the others have read its value of the last one. */
    float given[2];
    unsigned int turn;
} KilnFiber;
static KilnFiber *kiln_fibers;
static char *kiln_stacks;
static unsigned int kiln_now;
static jmp_buf kiln_scheduler;
static void kiln_body(void);

static __attribute__((noinline)) void kiln_wait(int state)
{
    kiln_fibers[kiln_now].state = state;
    if (!_setjmp(kiln_fibers[kiln_now].place)) _longjmp(kiln_scheduler, 1);
}

static void KILN_SYNC(void) { kiln_wait(KILN_BARRIER); }

static float KILN_SHUFFLE_XOR(float value, int lane)
{
    unsigned int turn = kiln_fibers[kiln_now].turn++ & 1;
    kiln_fibers[kiln_now].given[turn] = value;
    kiln_wait(KILN_EXCHANGE);
    return kiln_fibers[kiln_now ^ (unsigned int)lane].given[turn];
}

static void kiln_first(void)
{
    kiln_body();
    kiln_fibers[kiln_now].state = KILN_DONE;
    _longjmp(kiln_scheduler, 1);
}

static __attribute__((noinline)) void kiln_resume(unsigned int fiber)
{
    kiln_now = fiber;
    kiln_thread = kiln_fibers[fiber].index;
    if (_setjmp(kiln_scheduler)) return;
    if (kiln_fibers[kiln_now].started) _longjmp(kiln_fibers[kiln_now].place, 1);
    kiln_fibers[kiln_now].started = 1;
    setcontext(&kiln_fibers[kiln_now].start);
}

/* Runs one block; 0 where all its threads reached the same barriers and all of each warp the same shuffles. */
static int kiln_run_block(unsigned int threads)
{
    for (unsigned int fiber = 0; fiber < threads; ++fiber) {
        KilnFiber *own = &kiln_fibers[fiber];
        own->state = KILN_READY;
        own->started = 0;
        own->turn = 0;
        own->index.x = fiber % kiln_threads.x;
        own->index.y = fiber / kiln_threads.x % kiln_threads.y;
        own->index.z = fiber / kiln_threads.x / kiln_threads.y;
        getcontext(&own->start);
        own->start.uc_stack.ss_sp = kiln_stacks + (size_t)fiber * KILN_STACK;
        own->start.uc_stack.ss_size = KILN_STACK;
        own->start.uc_link = 0;
        makecontext(&own->start, kiln_first, 0);
    }
    for (;;) {
        unsigned int waiting = 0;
        for (unsigned int warp = 0; warp < threads; warp += KILN_WARP) {
            unsigned int end = warp + KILN_WARP, exchanging;
            do {
                exchanging = 0;
                for (unsigned int fiber = warp; fiber < end; ++fiber)
                    if (kiln_fibers[fiber].state < KILN_BARRIER) kiln_resume(fiber);
                for (unsigned int fiber = warp; fiber < end; ++fiber)
                    exchanging += kiln_fibers[fiber].state == KILN_EXCHANGE;
                if (exchanging != 0 && exchanging != KILN_WARP) return 2;
            } while (exchanging != 0);
            for (unsigned int fiber = warp; fiber < end; ++fiber) waiting += kiln_fibers[fiber].state == KILN_BARRIER;
        }
        if (waiting == 0) return 0;
        if (waiting != threads) return 1;
        for (unsigned int fiber = 0; fiber < threads; ++fiber) kiln_fibers[fiber].state = KILN_READY;
    }
}
#endif
