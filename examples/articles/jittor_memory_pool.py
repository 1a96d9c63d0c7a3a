"""Article B, how often Jittor asks the system for memory: with its pool, and without it.

The article prints no listing. Jittor's own counter of allocations stands below the pool
(`use_stat_allocator=1`) or above it (`use_stat_allocator=2`), so that the same steps tell how often
tensors ask for memory, and how often the system is asked.
"""

import json

import jittor as jt

WARM_UP, STEPS = 3, 10


def count_allocations(counter, pool):
    """Return the allocations of some steps of training, by a counter below or above the pool."""
    with jt.flag_scope(use_stat_allocator=counter, use_sfrl_allocator=pool):
        jt.set_global_seed(0)
        model = jt.nn.Sequential(
            jt.nn.Linear(256, 256), jt.nn.ReLU(), jt.nn.Linear(256, 256), jt.nn.ReLU()
        )
        optimizer = jt.optim.SGD(model.parameters(), 0.01)
        data = jt.rand(512, 256)
        for step in range(WARM_UP + STEPS):
            if step == WARM_UP:
                before = jt.flags.stat_allocator_total_alloc_call
            optimizer.step((model(data) - data).sqr().mean())
            jt.sync_all(True)
        return jt.flags.stat_allocator_total_alloc_call - before


found = {
    "asked": count_allocations(counter=2, pool=1),
    "allocated": count_allocations(counter=1, pool=1),
    "asked_without_pool": count_allocations(counter=2, pool=0),
    "allocated_without_pool": count_allocations(counter=1, pool=0),
}
print(json.dumps(found))
