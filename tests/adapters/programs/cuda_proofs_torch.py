"""Print whether strategies of a GPU are proven, on fake GPUs that obey them and that do not."""

import json
import sys
from types import SimpleNamespace

import torch
import torch.nn.functional as F

from framebench import adapters
from framebench.adapters.torch import SWITCHES
from framebench.suite.selectors import parse


class FakeGpu:
    """As c10's CUDACachingAllocator: it limits a process to a share of the whole memory."""

    total = 100 << 30
    reserved = 7 << 30

    def __init__(self, obeys=True, taken_by_others=0):
        self.obeys = obeys
        self.limit = self.total
        self.free = self.total - taken_by_others
        torch.cuda.empty_cache = lambda: None
        torch.cuda.mem_get_info = lambda: (self.free - self.reserved, self.total)
        torch.cuda.memory_reserved = lambda: self.reserved
        torch.cuda.set_per_process_memory_fraction = self.set_share
        torch.empty = self.allocate

    def set_share(self, share):
        if self.obeys:
            self.limit = share * self.total

    def allocate(self, size, dtype, device):
        if self.reserved + size > min(self.limit, self.free):
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate ...")


def prove_foreach():
    adapter = adapters.load(parse("transformer/torch/train/foreach/b4/tiny"))
    adapter.build()
    adapter.step()
    proven = {"foreach": adapter.judge_effect().proven}
    # PyTorch takes this for a GPU, on which lists are the default
    optimizer = sys.modules["torch.optim.optimizer"]
    optimizer._get_foreach_kernels_supported_devices = lambda: ["cpu"]
    proven["foreach, the default there"] = adapter.judge_effect().proven
    return proven


def prove_memory_fraction():
    def judge(gpu):
        run = SimpleNamespace(torch_device=torch.device("cuda"))
        return SWITCHES["memory_fraction"](run).judge({}).proven

    original = torch.empty
    proven = {
        "fraction": judge(FakeGpu()),
        "fraction, ignored": judge(FakeGpu(obeys=False)),
        "fraction, of a card that others fill": judge(FakeGpu(taken_by_others=30 << 30)),
    }
    torch.empty = original
    return proven


def prove_expandable_segments():
    def judge(*kinds):
        segments = [{"is_expandable": kind} for kind in kinds]
        torch.cuda.memory._snapshot = lambda: {"segments": segments}
        return SWITCHES["expandable_segments"](None).judge({}).proven

    return {
        "segments": judge(True, True),
        "segments, some not": judge(True, False),
        "segments, none": judge(),
    }


def prove_malloc_async():
    # c10's CUDAMallocAsyncAllocator asks the driver for bytes, and leaves what the native allocator
    # counts at zero
    def judge(reserved, segments):
        stats = {"reserved_bytes.all.current": reserved, "segment.all.allocated": segments}
        torch.cuda.memory_stats = lambda: stats
        return SWITCHES["malloc_async"](None).judge({}).proven

    return {
        "driver's pool": judge(reserved=7 << 30, segments=0),
        "native pool": judge(reserved=7 << 30, segments=12),
        "no pool": judge(reserved=0, segments=0),
    }


def prove_autotune():
    allocations = 0

    def convolve(x, w):
        nonlocal allocations
        allocations += 9 if torch.backends.cudnn.benchmark else 2

    F.conv2d = convolve
    torch.cuda.memory_stats = lambda: {"allocation.all.allocated": allocations}
    process = SimpleNamespace()
    run = SimpleNamespace(torch_device=torch.device("cpu"), process=process)
    proof = SWITCHES["autotune"](run)
    torch.backends.cudnn.benchmark = process.tries_algorithms  # as the adapter sets it
    proven = {"autotune": proof.judge({}).proven}
    torch.backends.cudnn.benchmark = False
    proven["autotune, undone"] = proof.judge({}).proven
    return proven


proven = prove_foreach()
proven |= prove_memory_fraction()
proven |= prove_expandable_segments()
proven |= prove_malloc_async()
proven |= prove_autotune()
print(json.dumps(proven))
