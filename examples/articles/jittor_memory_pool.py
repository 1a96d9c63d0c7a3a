"""Article B, how often Jittor asks the system for memory and frees it: with its pool, and without.

The article prints no listing. Jittor's own counters of allocations and releases stand below the
pool (`use_stat_allocator=1`) or above it (`use_stat_allocator=2`), so that the same steps tell how
often tensors call, and how often the system is called. Before the steps, with a pool that has
nothing yet, six small arrays tell how many bytes the system gives for theirs.
"""

import json

import jittor as jt

WARM_UP, STEPS = 3, 10
ARRAYS, NUMBERS = 6, 1024  # arrays of 4 KiB


def read_counters():
    """Return the allocations and the releases so far."""
    return jt.flags.stat_allocator_total_alloc_call, jt.flags.stat_allocator_total_free_call


def count_calls(counter, pool):
    """Return the allocations and the releases of some steps of training.

    The counters are below the pool or above it.
    """
    with jt.flag_scope(use_stat_allocator=counter, use_sfrl_allocator=pool):
        jt.set_global_seed(0)
        model = jt.nn.Sequential(
            jt.nn.Linear(256, 256), jt.nn.ReLU(), jt.nn.Linear(256, 256), jt.nn.ReLU()
        )
        optimizer = jt.optim.SGD(model.parameters(), 0.01)
        data = jt.rand(512, 256)
        for step in range(WARM_UP + STEPS):
            if step == WARM_UP:
                before = read_counters()
            optimizer.step((model(data) - data).sqr().mean())
            jt.sync_all(True)
        return [after - first for after, first in zip(read_counters(), before)]


def count_bytes_given(pool):
    """Return the bytes that the system gives while small arrays are made and held."""
    with jt.flag_scope(use_stat_allocator=1, use_sfrl_allocator=pool):
        jt.gc()
        before = jt.flags.stat_allocator_total_alloc_byte
        arrays = [jt.rand(NUMBERS) for _ in range(ARRAYS)]
        jt.sync_all(True)
        given = jt.flags.stat_allocator_total_alloc_byte - before
        del arrays
        return given


found = {"of_arrays": ARRAYS * NUMBERS * 4}
for pool, ending in ((1, ""), (0, "_without_pool")):
    found[f"given_for_arrays{ending}"] = count_bytes_given(pool)
for pool, ending in ((1, ""), (0, "_without_pool")):
    found[f"asked{ending}"], found[f"given_back{ending}"] = count_calls(counter=2, pool=pool)
    found[f"allocated{ending}"], found[f"freed{ending}"] = count_calls(counter=1, pool=pool)
print(json.dumps(found))
