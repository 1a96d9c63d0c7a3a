import json
import sys
from types import SimpleNamespace

import jax

from framebench.adapters.jax import SWITCHES

compile = jax.stages.Lowered.compile
made = 0


def watched(lowered, options):
    # XLA takes buffers for what it tries out, and tries nothing out at level 0
    global made
    made += 20 if options.get("xla_gpu_autotune_level", int(sys.argv[1])) else 0
    return compile(lowered, options)


jax.stages.Lowered.compile = watched
run = SimpleNamespace(statistics=lambda: {"num_allocs": made})
effect = SWITCHES["autotune_off"](run).judge({})
found = {"evidence": effect.evidence, "autotune": effect.proven}


def on_a_gpu(counted):
    return SimpleNamespace(platform="gpu", statistics=lambda: counted)


# PJRT answers for a pool (MultiDeviceAdapter) alone; otherwise Python gets None, which the adapter makes empty
for name, counted in (("no pool", {}), ("a pool", {"num_allocs": made, "bytes_limit": 10**9})):
    found[name] = SWITCHES["pool_off"](on_a_gpu(counted)).judge({}).proven
# XLA's GpuCudaMallocAsyncAllocator counts allocations and bytes in use; bytes of a pool only its BFCAllocator
driver = {"num_allocs": 9, "bytes_in_use": 10, "bytes_limit": 10**9}
for name, counted in (("driver's pool", driver), ("XLA's pool", driver | {"pool_bytes": 20}), ("nothing counted", {})):
    found[name] = SWITCHES["malloc_async"](on_a_gpu(counted)).judge({}).proven
print(json.dumps(found))
