/* Counts what malloc has handed out: preloaded into a process, which asks `counted_bytes` and `counted_peak`. The bytes of a
 * block are those it may use (malloc_usable_size(3)). The peak is the most since `count_peak_anew`. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stddef.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t), __libc_free(void *);

static long handed_out, most;

static void *given(void *block) {
    if (block) {
        long now = __atomic_add_fetch(&handed_out, (long)malloc_usable_size(block), __ATOMIC_RELAXED);
        if (now > most) most = now; /* threads that race here are off by one block at most */
    }
    return block;
}

static void taken(void *block) {
    if (block) __atomic_sub_fetch(&handed_out, (long)malloc_usable_size(block), __ATOMIC_RELAXED);
}

void *malloc(size_t size) { return given(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) { return given(__libc_calloc(count, size)); }
void *memalign(size_t alignment, size_t size) { return given(__libc_memalign(alignment, size)); }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
void free(void *block) { taken(block); __libc_free(block); }

void *realloc(void *block, size_t size) {
    long before = block ? (long)malloc_usable_size(block) : 0;
    void *moved = __libc_realloc(block, size);
    if (moved || !size) __atomic_sub_fetch(&handed_out, before, __ATOMIC_RELAXED);
    return given(moved);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = memalign(alignment, size);
    return *block ? 0 : ENOMEM;
}

long counted_bytes(void) { return handed_out; }
long counted_peak(void) { return most; }
long count_peak_anew(void) { return most = handed_out; }
