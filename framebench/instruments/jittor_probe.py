"""Jittor's memory in numbers. Jittor prints these counters but has no Python interface to them, so a few lines of C++ are
compiled against its headers, once per installation: the result stays in Jittor's own cache.

Counted are the bytes of variables, each memory block once. The blocks of the pool are larger, by up to 1 MiB each and
differently after every step: their sum varied by 5 % where the variables' did not vary by a byte. What oneDNN allocates for
itself (reordered weights and activations, workspaces) is in neither: only host.rss sees that.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType

import jittor_utils
from jittor import compiler

SOURCE = """
#include <set>
#include "graph.h"
#include "memory_profiler.h"
#include "mem/swap.h"
#include "op.h"
#include "var_holder.h"
#include "mem/allocator/sfrl_allocator.h"
namespace jittor {
// @pyjt(reset_peak)
inline void reset_peak() { memory_profiler.clear(); }
// @pyjt(peak_bytes)
inline int64 peak_bytes() { return (int64)memory_profiler.max_memory_size; }
// @pyjt(held_bytes)
inline int64 held_bytes() {
    std::set<void*> seen; // views and detached copies share their memory
    int64 bytes = 0;
    for (auto* holder : hold_vars)
        if (holder->var->mem_ptr && seen.insert(holder->var->mem_ptr).second) bytes += holder->var->size;
    return bytes;
}
// @pyjt(kept_arrays)
inline int kept_arrays(int64 size) {
    std::vector<Node*> nodes;
    auto mark = ++tflag_count;
    for (auto* holder : hold_vars)
        if (holder->var->tflag != mark) {
            holder->var->tflag = mark;
            nodes.push_back(holder->var);
        }
    bfs_both(nodes, [](Node*) { return true; });
    std::set<void*> seen;
    for (auto* node : nodes)
        if (node->is_var() && node->var()->size == size && node->var()->mem_ptr) seen.insert(node->var()->mem_ptr);
    return seen.size();
}
// @pyjt(swapped_bytes)
inline int64 swapped_bytes() { return swap_total; }
}
"""


@cache
def probe() -> ModuleType:
    """`held_bytes()` of the variables that Python refers to; `peak_bytes()` of all variables, those inside the graph included,
    when the pool was fullest since `reset_peak()`. The peak moves only while `jt.flags.profile_memory_enable` is 1."""
    return jittor_utils.compile_module(SOURCE, compiler.cc_flags)
