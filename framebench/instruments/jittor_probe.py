"""Jittor's memory in numbers. Jittor prints these counters but has no Python interface to them, so a few lines of C++ are
compiled against its headers, once per installation: the result stays in Jittor's own cache.

The pool holds every variable, on the CPU and on the GPU. It rounds sizes up to 512 bytes, and leaves a large block whole where
the rest would be small, so its "in use" lies up to a tenth above the variables' bytes. What oneDNN allocates for itself
(reordered weights and activations, workspaces) lies outside it: only host.rss sees that.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType

import jittor_utils
from jittor import compiler

SOURCE = """
#include <set>
#include "memory_profiler.h"
#include "var_holder.h"
#include "mem/allocator/sfrl_allocator.h"
namespace jittor {
// @pyjt(pool_reset_peak)
inline void pool_reset_peak() { memory_profiler.clear(); }
// @pyjt(pool_peak)
inline int64 pool_peak() { return (int64)memory_profiler.max_used_memory_size; }
// @pyjt(var_peak)
inline int64 var_peak() { return (int64)memory_profiler.max_memory_size; }
// @pyjt(pool_in_use)
inline int64 pool_in_use() {
    int64 used = 0;
    for (auto& a : SFRLAllocator::sfrl_allocators) used += a->used_memory;
    return used;
}
// @pyjt(held_bytes)
inline int64 held_bytes() {
    std::set<void*> seen; // views and detached copies share their memory
    int64 bytes = 0;
    for (auto* holder : hold_vars)
        if (holder->var->mem_ptr && seen.insert(holder->var->mem_ptr).second) bytes += holder->var->size;
    return bytes;
}
}
"""


@cache
def probe() -> ModuleType:
    """All in bytes: `held_bytes()` of the variables that Python refers to, `pool_in_use()`, and `pool_peak()` since
    `pool_reset_peak()`, which grows only while `jt.flags.profile_memory_enable` is 1."""
    return jittor_utils.compile_module(SOURCE, compiler.cc_flags)
