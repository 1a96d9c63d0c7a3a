import json
import sys
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
found["foreach"] = adapter.judge_effect().proven
sys.modules["torch.optim.optimizer"]._get_foreach_kernels_supported_devices = lambda: ["cpu"]  # as if this were a card
found["foreach, the default there"] = adapter.judge_effect().proven


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
    return SWITCHES["memory_fraction"](SimpleNamespace(torch_device=torch.device("cuda"))).judge({}).proven


real = torch.empty
found["fraction"] = fraction(Card())
found["fraction, ignored"] = fraction(Card(obeys=False))
found["fraction, of a card that others fill"] = fraction(Card(taken_by_others=30 << 30))
torch.empty = real

for name, kinds in (("segments", [True, True]), ("segments, some not", [True, False]), ("segments, none", [])):
    torch.cuda.memory._snapshot = lambda kinds=kinds: {"segments": [{"is_expandable": kind} for kind in kinds]}
    found[name] = SWITCHES["expandable_segments"](None).judge({}).proven

# c10's CUDAMallocAsyncAllocator asks the driver for bytes, and leaves what the native one counts at zero
for name, reserved, segments in (("driver's pool", 7 << 30, 0), ("native pool", 7 << 30, 12), ("no pool", 0, 0)):
    counted = {"reserved_bytes.all.current": reserved, "segment.all.allocated": segments}
    torch.cuda.memory_stats = lambda counted=counted: counted
    found[name] = SWITCHES["malloc_async"](None).judge({}).proven

made = 0


def convolve(x, w):
    global made
    made += 9 if torch.backends.cudnn.benchmark else 2


F.conv2d = convolve
torch.cuda.memory_stats = lambda: {"allocation.all.allocated": made}
process = SimpleNamespace()
proof = SWITCHES["autotune"](SimpleNamespace(torch_device=torch.device("cpu"), process=process))
torch.backends.cudnn.benchmark = process.tries_algorithms  # as the adapter sets it
found["autotune"] = proof.judge({}).proven
torch.backends.cudnn.benchmark = False
found["autotune, undone"] = proof.judge({}).proven
print(json.dumps(found))
