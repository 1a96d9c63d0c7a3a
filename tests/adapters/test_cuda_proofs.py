"""Proofs of strategies that need a card, fed with what the libraries' sources say that they do, with the strategy on and off.

Nothing here was recorded on a card.
"""

from __future__ import annotations

from framebench.engine.environments import Environment
from tests.processes import run_inside

TORCH = """
import json, sys
from types import SimpleNamespace
import torch
import torch.nn.functional as F
from framebench import adapters
from framebench.adapters.torch import SWITCHES
from framebench.suite.selectors import parse

found = {}

adapter = adapters.load(parse("transformer/torch/train/foreach/b4/tiny"))
adapter.build()
adapter.step()
found["foreach"] = adapter.effect().proven
sys.modules["torch.optim.optimizer"]._get_foreach_kernels_supported_devices = lambda: ["cpu"]  # as if this were a card
found["foreach, the default there"] = adapter.effect().proven

class Card:
    # c10's CUDACachingAllocator: reserved bytes and those that are asked for, against a share of the whole card
    total, reserved, taken_by_others = 100 << 30, 7 << 30, 0
    def __init__(self, obeys=True, **changes):
        self.obeys, self.share = obeys, 1.0
        vars(self).update(changes)
        torch.cuda.empty_cache = lambda: None
        torch.cuda.mem_get_info = lambda: (self.total - self.reserved - self.taken_by_others, self.total)
        torch.cuda.memory_reserved = lambda: self.reserved
        torch.cuda.set_per_process_memory_fraction = self.limit
        torch.empty = self.empty
    def limit(self, share):
        self.share = share if self.obeys else 1.0
    def empty(self, size, dtype, device):
        if self.reserved + size > min(self.share * self.total, self.total - self.taken_by_others):
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate ...")

def fraction(card):
    return SWITCHES["memory_fraction"](SimpleNamespace(where=torch.device("cuda")))({})

real = torch.empty
found["fraction"] = fraction(Card())
found["fraction, ignored"] = fraction(Card(obeys=False))
found["fraction, of a card that others fill"] = fraction(Card(taken_by_others=30 << 30))
torch.empty = real

for name, kinds in (("segments", [True, True]), ("segments, some not", [True, False]), ("segments, none", [])):
    torch.cuda.memory._snapshot = lambda: {"segments": [{"is_expandable": kind} for kind in kinds]}
    found[name] = SWITCHES["expandable_segments"](None)({})

# c10's CUDAMallocAsyncAllocator asks the driver for bytes, and leaves what the native one counts at zero
for name, reserved, segments in (("driver's pool", 7 << 30, 0), ("native pool", 7 << 30, 12), ("no pool", 0, 0)):
    torch.cuda.memory_stats = lambda: {"reserved_bytes.all.current": reserved, "segment.all.allocated": segments}
    found[name] = SWITCHES["malloc_async"](None)({})

made = 0
def convolve(x, w):
    global made
    made += 9 if torch.backends.cudnn.benchmark else 2
F.conv2d = convolve
torch.cuda.memory_stats = lambda: {"allocation.all.allocated": made}
proof = SWITCHES["autotune"](SimpleNamespace(where=torch.device("cpu")))
found["autotune"] = proof({})
torch.backends.cudnn.benchmark = False
found["autotune, undone"] = proof({})
print(json.dumps(found))
"""


def test_torch_s_proofs(environment: dict[str, Environment]) -> None:
    assert run_inside(environment["torch"], TORCH) == {
        "foreach": True, "foreach, the default there": False,
        "fraction": True, "fraction, ignored": False, "fraction, of a card that others fill": False,
        "segments": True, "segments, some not": False, "segments, none": False,
        "driver's pool": True, "native pool": False, "no pool": False, "autotune": True, "autotune, undone": False,
    }  # fmt: skip


OFFLOADED = """
import contextlib, json
from types import SimpleNamespace
import numpy as np
import torch
import torchao.optim.cpu_offload as library
from framebench import adapters
from framebench.adapters.torch import SWITCHES, offload
from framebench.suite.selectors import parse

class Stream:
    # everything is done at once, in the order in which it was asked for
    def wait_stream(self, other): pass
    def wait_event(self, event): pass
    def synchronize(self): pass
    def record_event(self): return self

torch.cuda.Stream = torch.cuda.current_stream = Stream
torch.cuda.stream = lambda stream: contextlib.nullcontext()
torch.Tensor.record_stream = lambda tensor, stream: None
empty_like = torch.empty_like
torch.empty_like = lambda tensor, pin_memory=False, **options: empty_like(tensor, **options)
library.get_available_devices = lambda: ["cpu", "cuda"]

def stepped(strategy):
    adapter = adapters.load(parse(f"transformer/torch/train/{strategy}/b4/tiny"))
    adapter.build()
    adapter.step()
    adapter.step()
    adapter.restore()  # and its optimizer knows
    adapter.step()
    values = dict(adapter.weights()) | {f"{s.kind} {s.name}": s.array for s in adapter.states()}
    return adapter, values

_, plain = stepped("fp32")
found = {}
for name in ("offload_streamed", "accumulate+offload_streamed", "optimizer_offload", "accumulate+optimizer_offload"):
    adapter, values = stepped(name)
    found[name] = sorted(values) == sorted(plain) and all(np.allclose(values[k], plain[k], rtol=1e-4, atol=1e-7) for k in plain)
    if name == "offload_streamed":
        streamed = adapter

copies = lambda stream: [
    SimpleNamespace(name=name, device_resource_id=stream)
    for name in ("Memcpy DtoH (Device -> Pinned)", "Memcpy HtoD (Pinned -> Device)")
    for _ in range(1000)
]
kernel = SimpleNamespace(name="ampere_sgemm", device_resource_id=7)
for name, events in (("streams", [kernel, *copies(13)]), ("one stream", [kernel, *copies(7)]), ("no copies", [kernel])):
    offload.device_events = lambda run: (run.one_step(), events)[1]
    effect = streamed.effect()
    found[name] = effect.proven
    counts = {k: effect.evidence[k] for k in ("tensors_sent", "tensors_returned")}
found["all came back"] = counts["tensors_sent"] == counts["tensors_returned"] > 0
forward, streamed.contexts = streamed.contexts, []
offload.device_events = lambda run: (run.one_step(), [kernel, *copies(13)])[1]
found["no hooks"] = streamed.effect().proven

def moments(where):
    weight = torch.nn.Parameter(torch.empty(100, 100, device="meta"))
    small = torch.nn.Parameter(torch.empty(10, device="meta"))
    state = {weight: {"exp_avg": torch.empty(100, 100, device=where)}, small: {"exp_avg": torch.empty(10, device="meta")}}
    run = SimpleNamespace(
        packages={}, where=torch.device("meta"), parameters=lambda: [weight, small], optimizer=SimpleNamespace(state=state)
    )
    return SWITCHES["optimizer_offload"](run)({})

found["moments on the host"], found["moments on the device"] = moments("cpu"), moments("meta")
print(json.dumps(found))
"""


def test_what_torch_keeps_on_the_host(environment: dict[str, Environment]) -> None:
    """Streams that do everything at once show that the hooks and the update are right, not that copies run beside."""
    assert run_inside(environment["torch"], OFFLOADED) == {
        "offload_streamed": True, "accumulate+offload_streamed": True, "optimizer_offload": True,
        "accumulate+optimizer_offload": True, "streams": True, "one stream": False, "no copies": False, "all came back": True,
        "no hooks": False, "moments on the host": True, "moments on the device": False,
    }  # fmt: skip


JAX = """
import json, sys
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
evidence, run = {}, SimpleNamespace(statistics=lambda: {"num_allocs": made})
found = {"evidence": evidence, "autotune": SWITCHES["autotune_off"](run)(evidence)}

jax.default_backend = lambda: "gpu"
# PJRT answers for a pool (MultiDeviceAdapter) alone; otherwise Python gets None, which the adapter makes empty
for name, counted in (("no pool", {}), ("a pool", {"num_allocs": made, "bytes_limit": 10**9})):
    found[name] = SWITCHES["pool_off"](SimpleNamespace(statistics=lambda: counted))({})
# XLA's GpuCudaMallocAsyncAllocator counts allocations and bytes in use; bytes of a pool only its BFCAllocator
driver = {"num_allocs": 9, "bytes_in_use": 10, "bytes_limit": 10**9}
for name, counted in (("driver's pool", driver), ("XLA's pool", driver | {"pool_bytes": 20}), ("nothing counted", {})):
    found[name] = SWITCHES["malloc_async"](SimpleNamespace(statistics=lambda: counted))({})
print(json.dumps(found))
"""


def test_jax_s_proofs(environment: dict[str, Environment]) -> None:
    off = run_inside(environment["jax"], JAX, "0", variables={"XLA_FLAGS": "--xla_gpu_autotune_level=0"})
    on = run_inside(environment["jax"], JAX, "4")
    pools = {"no pool": True, "a pool": False, "driver's pool": True, "XLA's pool": False, "nothing counted": False}
    assert off == {"evidence": {"allocations_untried": 0, "allocations_tried": 20}, "autotune": True} | pools
    assert on == {"evidence": {"allocations_untried": 20, "allocations_tried": 20}, "autotune": False} | pools


JAX_OFFLOADED = """
import json
import jax, numpy as np
from framebench import adapters
from framebench.suite.selectors import parse

def stepped(strategy):
    adapter = adapters.load(parse(f"transformer/jax/train/{strategy}/b4/tiny"))
    adapter.build()
    adapter.step()
    adapter.restore()
    adapter.step()
    return adapter, dict(adapter.weights()) | {f"{s.kind} {s.name}": s.array for s in adapter.states()}

_, plain = stepped("fp32")
adapter, values = stepped("optimizer_offload")
found = {"same": all(np.allclose(values[k], plain[k], rtol=1e-4, atol=1e-7) for k in plain) and sorted(values) == sorted(plain)}
effect = adapter.effect()
found |= {"proven": effect.proven, "on host": effect.evidence["state_bytes_on_host"] == effect.evidence["state_bytes"] > 0}
asked = [v.aval for q in adapter.jaxprs() for eq in q.eqns if eq.primitive.name == "device_put" for v in eq.outvars]
found["asked for"] = sum(a.size * a.dtype.itemsize for a in asked if "<host>" in str(a)) >= effect.evidence["state_bytes"]
adapter.optimizer_state = jax.tree.map(lambda a: jax.device_put(np.asarray(a)), adapter.optimizer_state)
found["live bytes"] = adapter.live_bytes()
adapter.optimizer_state = None
found["live bytes"] -= adapter.live_bytes()
found["live bytes"] = found["live bytes"] >= effect.evidence["state_bytes"]
print(json.dumps(found))
"""


def test_what_jax_keeps_on_the_host(environment: dict[str, Environment]) -> None:
    """XLA:CPU has one memory, whatever it is asked for: so it is not proven here."""
    assert run_inside(environment["jax"], JAX_OFFLOADED) == {
        "same": True, "proven": False, "on host": True, "asked for": True, "live bytes": True,
    }  # fmt: skip


JITTOR = """
import contextlib, json
from types import SimpleNamespace
import jittor as jt
from framebench.adapters.jittor import SWITCHES, memory, precision, steps

class OnCard:
    # Jittor as it is, but for what a build for CUDA has more of
    flags, cudnn = SimpleNamespace(use_cuda=1, use_tensorcore=0), None
    def __getattr__(self, name):
        return getattr(jt, name)

here = steps.jt = precision.jt = OnCard()
nn = steps.nn = precision.nn = SimpleNamespace(**vars(jt.nn))
found, single = {}, {"variable_dtypes": {"float32": 3, "int32": 1}}

def rounding(*names):
    # TensorFloat-32: 1 + 2**-12 becomes 1
    rounds = lambda multiply: lambda a, b: multiply(a.round(), b.round())
    here.matmul = rounds(jt.matmul) if "product" in names else jt.matmul
    nn.conv2d = rounds(jt.nn.conv2d) if "convolution" in names else jt.nn.conv2d
    return [SWITCHES[name](None)(dict(single)) for name in ("fp32", "tf32")]

for names in ((), ("product", "convolution"), ("convolution",), ("product",)):
    found[" ".join(("rounding", *names))] = rounding(*names)

class Algorithms:
    # cudnn_conv3d_op.cc: a shape that was not met is tried out while the table has room; that it is full then is logged
    def __init__(self, obeyed):
        self.obeyed, self.room, self.tried, self.said = obeyed, 100, 0, []
    def set_algorithm_cache_size(self, room):
        if self.room != 100 or self.obeyed:
            self.room = room
    def convolve(self, x, w):
        if self.tried < self.room:
            self.tried += 1
            self.said += [{"msg": "forward_ algorithm cache is full"}] * (self.tried == self.room)
        return jt.zeros(1)

for name, obeyed in (("untried", True), ("untried, ignored", False)):
    here.cudnn = table = Algorithms(obeyed)
    here.log_capture_scope = lambda: contextlib.nullcontext(table.said)
    nn.conv3d = table.convolve
    proof = SWITCHES["autotune_off"](None)
    for _ in range(3):
        table.convolve(None, None)
    table.obeyed = True
    found[name] = proof({})

for source in ("cuda_managed", "cuda_device"):
    memory.probe = lambda: SimpleNamespace(source=lambda: source)
    found[source] = SWITCHES["managed_allocator"](None)({})

here.flags = jt.flags
run = SimpleNamespace(model=SimpleNamespace(parameters=lambda: []))
for level in (3, 4, 5, 6):
    seen = {"variable_dtypes": {"float16" if level > 3 else "float32": 1}}
    proof = SWITCHES["amp_level"](run, level)
    found[f"level {level}"] = [proof(seen)]
    for other in (0, 9 - level):
        jt.flags.amp_level = other
        found[f"level {level}"].append(proof(seen))
print(json.dumps(found))
"""


def test_jittor_s_proofs(environment: dict[str, Environment]) -> None:
    """By precision: whether fp32, whether tf32 is proven. By level: as it was set, and with another one in its place."""
    assert run_inside(environment["jittor"], JITTOR) == {
        "rounding": [True, False], "rounding product convolution": [False, True], "rounding convolution": [False, False],
        "rounding product": [False, False],
        "untried": True, "untried, ignored": False,
        "cuda_managed": True, "cuda_device": False,
        **{f"level {n}": [True, False, False] for n in (3, 4, 5, 6)},
    }  # fmt: skip
