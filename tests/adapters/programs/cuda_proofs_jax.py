"""`LEVEL`: judge proofs of JAX's allocator and autotuner, with a GPU imitated as XLA describes it.

LEVEL is how much the imitated XLA tries out by default, 0 for nothing.
"""

import json
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import jax

from framebench.adapters.jax import SWITCHES

LEVEL = int(sys.argv[1])
allocations = 0
real_compile = jax.stages.Lowered.compile


def compile_and_allocate(lowered, options):
    """Compile as XLA does on a GPU: it takes buffers for what it tries out, and none at level 0."""
    global allocations
    if options.get("xla_gpu_autotune_level", LEVEL) > 0:
        allocations += 20
    return real_compile(lowered, options)


def read_allocations():
    return {"num_allocs": allocations}


def judge_autotune_off():
    run = SimpleNamespace(read_allocator=read_allocations)
    return SWITCHES["autotune_off"](run).judge({})


def is_proven(strategy, counted):
    run = SimpleNamespace(platform="gpu", read_allocator=Mock(return_value=counted))
    return SWITCHES[strategy](run).judge({}).proven


jax.stages.Lowered.compile = compile_and_allocate
effect = judge_autotune_off()

# PJRT answers for a pool (MultiDeviceAdapter) alone; else Python gets None, which we make empty
no_pool = {}
pool = {"num_allocs": 7, "bytes_limit": 10**9}
# XLA's GpuCudaMallocAsyncAllocator counts allocations and bytes in use; bytes of a pool are counted
# by its BFCAllocator alone
drivers_pool = {"num_allocs": 9, "bytes_in_use": 10, "bytes_limit": 10**9}
xlas_pool = drivers_pool | {"pool_bytes": 20}
answer = {
    "evidence": effect.evidence,
    "autotune": effect.proven,
    "no pool": is_proven("pool_off", no_pool),
    "a pool": is_proven("pool_off", pool),
    "driver's pool": is_proven("malloc_async", drivers_pool),
    "XLA's pool": is_proven("malloc_async", xlas_pool),
    "nothing counted": is_proven("malloc_async", {}),
}
print(json.dumps(answer))
