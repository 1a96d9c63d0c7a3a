"""Print whether strategies of a GPU are proven, on fake GPUs that obey them and that do not."""

import json
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import torch
import torch.nn.functional as F

from framebench import adapters
from framebench.adapters.torch import SWITCHES
from framebench.suite.selectors import parse

GIB = 1 << 30
RUN = SimpleNamespace(torch_device=torch.device("cpu"), process=SimpleNamespace())


def judge(strategy, run=RUN):
    return SWITCHES[strategy](run).judge({}).proven


def prove_foreach():
    adapter = adapters.load(parse("transformer/torch/train/foreach/b4/tiny"))
    adapter.build()
    adapter.step()
    on_cpu = adapter.judge_effect().proven
    # PyTorch takes this for a GPU, on which lists are the default
    optimizer = sys.modules["torch.optim.optimizer"]
    optimizer._get_foreach_kernels_supported_devices = Mock(return_value=["cpu"])
    return {
        "lists are not PyTorch's default here": on_cpu,
        "lists are its default, so nothing was switched on": adapter.judge_effect().proven,
    }


def prove_memory_fraction(obeys, taken_by_others):
    """Judge it where, as in c10's CUDACachingAllocator, a share is one of the whole memory."""
    total, reserved = 100 * GIB, 7 * GIB
    limit = total

    def set_share(share):
        nonlocal limit
        limit = share * total if obeys else total

    def allocate(size, dtype, device):
        if reserved + size > min(limit, total - taken_by_others):
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate ...")

    original = torch.empty
    torch.empty = allocate
    free = total - taken_by_others - reserved
    torch.cuda.empty_cache = Mock()
    torch.cuda.mem_get_info = Mock(return_value=(free, total))
    torch.cuda.memory_reserved = Mock(return_value=reserved)
    torch.cuda.set_per_process_memory_fraction = set_share
    proven = judge("memory_fraction", SimpleNamespace(torch_device=torch.device("cuda")))
    torch.empty = original
    return proven


def count_given_back(keeps, calls, freed_by_itself=0):
    """Return the evidence of `empty_cache` of an allocator that keeps what is freed, or does not.

    A step frees three segments, and some more that the allocator gives back by itself.
    """
    cached = freed = 0

    def free(segments):
        nonlocal cached, freed
        if keeps:
            cached += segments
        else:
            freed += segments

    def step():
        nonlocal freed
        free(3)
        freed += freed_by_itself
        for hook in list(run.after_step):
            hook()

    def give_back():
        nonlocal cached, freed
        if calls:
            freed += cached
            cached = 0

    def allocate_and_free(*shape, **options):
        free(1)

    def read_stats():
        return {"segment.all.freed": freed}

    original = torch.empty
    torch.empty = allocate_and_free
    torch.cuda.empty_cache = give_back
    torch.cuda.memory_reserved = Mock(return_value=0)
    torch.cuda.memory_stats = read_stats
    run = SimpleNamespace(after_step=[], step=step, steps=0, synchronize=Mock())
    verdict = SWITCHES["empty_cache"](run).judge({})
    torch.empty = original
    return {
        "proven": verdict.proven,
        "freed by the call": verdict.evidence["segments_freed_by_the_call"],
        "freed by steps": verdict.evidence["segments_freed_by_steps"],
        "hooks left": len(run.after_step),
    }


def prove_expandable_segments(*kinds):
    segments = [{"is_expandable": kind} for kind in kinds]
    torch.cuda.memory._snapshot = Mock(return_value={"segments": segments})
    return judge("expandable_segments")


def prove_malloc_async(reserved, segments):
    # c10's CUDAMallocAsyncAllocator asks the driver for bytes, and leaves what the native allocator
    # counts at zero
    stats = {"reserved_bytes.all.current": reserved, "segment.all.allocated": segments}
    torch.cuda.memory_stats = Mock(return_value=stats)
    return judge("malloc_async")


def prove_autotune(is_tried):
    allocations = 0

    def convolve(x, w):
        nonlocal allocations
        allocations += 9 if torch.backends.cudnn.benchmark else 2

    def read_stats():
        return {"allocation.all.allocated": allocations}

    F.conv2d = convolve
    torch.cuda.memory_stats = read_stats
    torch.backends.cudnn.benchmark = is_tried
    return judge("autotune")


# as it is, and then undone in each way
proven = {
    "foreach": prove_foreach(),
    "memory_fraction": {
        "the limit is obeyed": prove_memory_fraction(obeys=True, taken_by_others=0),
        "it is ignored": prove_memory_fraction(obeys=False, taken_by_others=0),
        "others hold 30 GiB": prove_memory_fraction(obeys=True, taken_by_others=30 * GIB),
    },
    "empty_cache": {
        "called": count_given_back(keeps=True, calls=True),
        "not called": count_given_back(keeps=True, calls=False),
        "nothing is cached": count_given_back(keeps=False, calls=True),
        "steps free, too": count_given_back(keeps=True, calls=True, freed_by_itself=5),
    },
    "expandable_segments": {
        "all are": prove_expandable_segments(True, True),
        "one is": prove_expandable_segments(True, False),
        "there are none": prove_expandable_segments(),
    },
    "malloc_async": {
        "the driver counts": prove_malloc_async(reserved=7, segments=0),
        "PyTorch has segments": prove_malloc_async(reserved=7, segments=12),
        "nothing is counted": prove_malloc_async(reserved=0, segments=0),
    },
    "autotune": {
        "kernels are tried": prove_autotune(is_tried=True),
        "none are": prove_autotune(is_tried=False),
    },
}
print(json.dumps(proven))
