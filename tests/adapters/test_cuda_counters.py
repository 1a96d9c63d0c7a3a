"""What the frameworks count on a card, fed with what others recorded on theirs (`recorded.py`); the milliseconds of
`torch.cuda.Event` are those of its documentation."""

from __future__ import annotations

import json

import pytest

from framebench.engine.environments import Environment
from tests.adapters import recorded
from tests.processes import run_inside

TORCH = """
import json, sys
import torch
from framebench import adapters
from framebench.instruments import limits
from framebench.adapters.torch import copies
from framebench.suite.selectors import parse

recorded = json.loads(sys.argv[1])
adapter = adapters.load(parse("transformer/torch/train/fp32/b4/tiny"))
on_cpu = [adapter.own_peaks(), adapter.counters(), adapter.events() is None]
adapter.where = torch.device("cuda")
torch.cuda.memory_stats = lambda: recorded
pooled = [adapter.own_peaks(), adapter.counters()]
torch.cuda.memory_stats = lambda: dict.fromkeys(recorded, 0)
unpooled = [adapter.own_peaks(), adapter.counters()]

class Event:
    def __init__(self, enable_timing): assert enable_timing
    def record(self): self.recorded = True
    def elapsed_time(self, other): return 12.5

torch.cuda.Event = Event
events = adapter.events(); events.start(); events.stop()
oom = limits.ran_out(torch.cuda.OutOfMemoryError("CUDA out of memory."), False)
overlap = [copies.overlap([(0, 4), (10, 12)], [(1, 3), (3, 11)]), copies.overlap([], [(0, 1)])]
print(json.dumps([on_cpu, pooled, unpooled, events.seconds(), oom, overlap]))
"""


def test_torch_s_counters(environment: dict[str, Environment]) -> None:
    ours = json.dumps(recorded.TORCH_STATS)
    on_cpu, pooled, unpooled, seconds, oom, overlap = run_inside(environment["torch"], TORCH, ours)  # type: ignore[misc]
    assert on_cpu == [{}, {}, True]
    assert pooled == [
        {"allocator.in_use": 15763564032, "allocator.active": 15763564032, "allocator.reserved": 15890120704},
        {"allocations": 4869, "segments": 58, "alloc_retries": 35, "ooms": 3},
    ], "of what is there; what is not counted is absent"
    assert unpooled == [{}, {}], "an allocator that is switched off counts nothing, which is not zero bytes"
    assert seconds == 0.0125
    assert oom
    assert overlap == [pytest.approx(4 / 6), 0.0]


JAX = """
import json, sys
import jax
from framebench.adapters.jax import make
from framebench.adapters.jax.observe import CACHE
from framebench.suite.selectors import parse

adapter = make(parse("transformer/jax/eval/no_grad/b4/tiny"))
adapter.build()
on_cpu = [sorted(adapter.own_peaks()), adapter.counters(), adapter.events()]
adapter.step(); adapter.synchronize()
on_cpu_after = sorted(adapter.own_peaks())

class Device:
    def memory_stats(self):
        return json.loads(sys.argv[1])

jax.local_devices = lambda: [Device()]
CACHE.update({"/jax/compilation_cache/cache_hits": 3})
own = adapter.own_peaks()
print(json.dumps([on_cpu, on_cpu_after, {k: own[k] for k in own if k != "compiler.plan"}, adapter.counters()]))
"""


def test_jax_s_counters(environment: dict[str, Environment]) -> None:
    said = recorded.JAX_STATS[0]
    on_cpu, after, own, counters = run_inside(environment["jax"], JAX, json.dumps(said))  # type: ignore[misc]
    assert on_cpu == [[], {}, None]
    assert after == ["compiler.plan"]
    assert own == {"allocator.in_use": 2431167744, "allocator.reserved": 3228616192}
    assert counters.pop("programs_from_cache") >= 3, "so that a peak without the autotuner's scratch can be told"
    assert counters.keys() <= {"programs_compiled", "allocations", "largest_allocation_bytes", "limit_bytes"}
    assert (counters["allocations"], counters["largest_allocation_bytes"]) == (63, 2415922432)
    assert counters["limit_bytes"] == 12701761536
