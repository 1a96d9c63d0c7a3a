"""`LEVEL`: judge the proof of `autotune_off`, with a GPU imitated as XLA describes it.

LEVEL is how much the imitated XLA tries out by default, 0 for nothing.
"""

import json
import sys
from types import SimpleNamespace

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


jax.stages.Lowered.compile = compile_and_allocate
effect = judge_autotune_off()

answer = {
    "evidence": effect.evidence,
    "autotune": effect.proven,
}
print(json.dumps(answer))
