// An allocator laid over Jittor's pool, in the place of the one that Jittor makes for `use_stat_allocator = 2`, and a few readings
// that Jittor has no Python interface to. Compiled against Jittor's headers by jittor_probe.py.
#include <algorithm>
#include <cstddef>
#include <set>
#include <unordered_map>
#include "graph.h"
#include "mem/allocator/sfrl_allocator.h"
#include "mem/allocator/stat_allocator.h"
#include "mem/swap.h"
#include "op.h"
#include "var_holder.h"
namespace jittor {
struct pair_hash { // as in allocator.cc
    template <class T1, class T2>
    std::size_t operator() (const std::pair<T1, T2>& p) const { return std::hash<T1>()(p.first) ^ std::hash<T2>()(p.second); }
};
extern std::unordered_map<pair<string, Allocator*>, unique_ptr<Allocator>, pair_hash> allocators;

static int64 used, peak; // bytes given out, by what was asked for: the pool's blocks are larger
static int64 largest; // block that was asked for since the last reset
static int64 reserved_peak; // of the pool, free blocks included; some strategies empty it within a step
static bool noting; // the rest of these only where a step is explained
static int64 bound;
static vector<string> makers; // operators, by block taken
static vector<int64> noted; // block, bytes (-1: given back), variable, latest node before `bound` that it is computed from

static int64 latest(Var* v) { // through those that are fused away
    int64 found = 0, steps = 0;
    vector<Op*> ahead;
    if (v->input()) ahead.push_back(v->input());
    while (ahead.size() && steps++ < 1000) {
        auto* op = ahead.back();
        ahead.pop_back();
        for (auto* x : op->inputs()) {
            if (x->id < bound) found = std::max(found, x->id);
            else if (!x->mem_ptr && x->input()) ahead.push_back(x->input());
        }
    }
    return found;
}

struct Block {
    int64 bytes;
    int users; // views share a block: it is given back with the last of them
};

struct Watched : Allocator {
    Allocator* pool;
    std::unordered_map<size_t, Block> blocks;
    Watched(Allocator* pool) : pool(pool) {}
    uint64 flags() const override { return pool->flags(); }
    const char* name() const override { return "watched"; }
    void gc() override { pool->gc(); mirror(); }
    void mirror() { // builds that swap compare these with their limit
        used_memory = pool->used_memory;
        unused_memory = pool->unused_memory;
    }
    void* alloc(size_t size, size_t& allocation) override {
        void* memory = pool->alloc(size, allocation);
        mirror();
        if (!memory) return memory;
        blocks[allocation] = {(int64)size, 1};
        peak = std::max(peak, used += size);
        largest = std::max<int64>(largest, size);
        reserved_peak = std::max<int64>(reserved_peak, used_memory + unused_memory);
        if (noting) note_taken(size, allocation);
        return memory;
    }
    void note_taken(size_t size, size_t& allocation) {
        // a variable hands over its own field; anything else that allocates does not look like one
        auto* var = (Var*)((char*)&allocation - offsetof(Var, allocation));
        bool is_var = (size_t)var->size == size && var->num * var->dsize() == (int64)size;
        int64 from = is_var && var->id > bound ? latest(var) : 0;
        makers.push_back(is_var && var->input() ? var->input()->name_ex() : "");
        for (int64 n : {(int64)allocation, (int64)size, is_var ? var->id : (int64)0, from}) noted.push_back(n);
    }
    void free(void* memory, size_t size, const size_t& allocation) override {
        size_t id = allocation;
        pool->free(memory, size, allocation);
        mirror();
        auto block = blocks.find(id);
        if (block == blocks.end() || --block->second.users) return;
        used -= block->second.bytes;
        blocks.erase(block);
        if (noting) for (int64 n : {(int64)id, (int64)-1, (int64)0, (int64)0}) noted.push_back(n);
    }
    bool share_with(size_t size, size_t allocation) override {
        if (!pool->share_with(size, allocation)) return false;
        blocks[allocation].users++;
        return true;
    }
};
static Watched* watched;

// @pyjt(watch)
inline void watch() {
    if (watched) return;
    auto* pool = get_allocator();
    watched = new Watched(pool);
    allocators[pair<string, Allocator*>(typeid(StatAllocator).name(), pool)] = unique_ptr<Allocator>(watched);
    if (cpu_allocator == pool) cpu_allocator = watched; // which arrays from outside take their memory from
}
inline int64 elsewhere() { // what Python refers to and another allocator gave: on a GPU the arrays from outside
    std::set<void*> seen;
    int64 bytes = 0;
    for (auto* holder : hold_vars) {
        auto* v = holder->var;
        if (v->mem_ptr && v->allocator != watched && seen.insert(v->mem_ptr).second) bytes += v->size;
    }
    return bytes;
}
// @pyjt(used_bytes)
inline int64 used_bytes() { return used + elsewhere(); }
// @pyjt(reset_peak)
inline void reset_peak() { peak = used; reserved_peak = largest = 0; }
// @pyjt(largest_block)
inline int64 largest_block() { return largest; }
// @pyjt(peak_bytes)
inline int64 peak_bytes() { return peak + elsewhere(); }
// @pyjt(peak_reserved)
inline int64 peak_reserved() { return reserved_peak; }
// @pyjt(source)
inline string source() { // the name of the allocator that the watched pool takes its memory from
    auto* pool = watched ? dynamic_cast<SFRLAllocator*>(watched->pool) : nullptr;
    return pool ? pool->underlying->name() : "";
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
// @pyjt(count_nodes)
inline int64 count_nodes() { return total_node; }
// @pyjt(begin_recording)
inline void begin_recording() { noted.clear(); makers.clear(); bound = 1ll << 60; noting = true; }
// @pyjt(trace_backward)
inline void trace_backward() { bound = total_node; }
// @pyjt(end_recording)
inline vector<int64> end_recording() { noting = false; return noted; }
// @pyjt(operators)
inline vector<string> operators() { return makers; }
// @pyjt(held)
inline vector<int64> held() { // block (negative: not of the watched pool), bytes, variable
    vector<int64> found;
    std::set<void*> seen;
    for (auto* holder : hold_vars) {
        auto* v = holder->var;
        if (!v->mem_ptr || !seen.insert(v->mem_ptr).second) continue;
        for (int64 n : {v->allocator == watched ? (int64)v->allocation : (int64)-1, v->size, v->id}) found.push_back(n);
    }
    return found;
}
}
