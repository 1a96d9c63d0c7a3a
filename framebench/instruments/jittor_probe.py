"""Jittor's memory pool in numbers. Jittor prints these counters but has no Python interface to them, so a few lines of C++
are compiled against its headers, once per installation: the result stays in Jittor's own cache.

The pool holds every variable, on the CPU and on the GPU. It rounds sizes up to 512 bytes. What oneDNN allocates for itself
(reordered weights and activations, workspaces) lies outside it and is seen by host.rss only.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType

import jittor_utils
from jittor import compiler

SOURCE = """
#include "memory_profiler.h"
#include "mem/allocator/sfrl_allocator.h"
namespace jittor {
// @pyjt(pool_reset_peak)
inline void pool_reset_peak() { memory_profiler.clear(); }
// @pyjt(pool_peak)
inline int64 pool_peak() { return (int64)memory_profiler.max_used_memory_size; }
// @pyjt(pool_in_use)
inline int64 pool_in_use() {
    int64 used = 0;
    for (auto& a : SFRLAllocator::sfrl_allocators) used += a->used_memory;
    return used;
}
}
"""


@cache
def probe() -> ModuleType:
    """`pool_in_use()` in bytes; `pool_peak()` since `pool_reset_peak()`, updated only while profile_memory_enable is 1."""
    return jittor_utils.compile_module(SOURCE, compiler.cc_flags)
