"""`STATISTICS`: print what the adapter counts on a CPU, and on a GPU with these statistics."""

import json
import sys
from unittest.mock import Mock

import torch

from framebench import adapters
from framebench.adapters.torch import scenarios
from framebench.suite.selectors import parse

recorded = json.loads(sys.argv[1])
adapter = adapters.load(parse("transformer/torch/train/fp32/b4/tiny"))


def read_counts(statistics):
    """Return what the adapter reads of an allocator with these statistics."""
    torch.cuda.memory_stats = Mock(return_value=statistics)
    return adapter.read_peaks() | adapter.read_counters()


on_cpu = read_counts(recorded)
has_stopwatch_on_cpu = adapter.make_stopwatch() is not None
adapter.torch_device = torch.device("cuda")
pooled = read_counts(recorded)
unpooled = read_counts(dict.fromkeys(recorded, 0))


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.recorded = True

    def elapsed_time(self, other):
        return 12.5


torch.cuda.Event = Event
events = adapter.make_stopwatch()
events.start()
events.stop()
answer = {
    "on a CPU": on_cpu,
    "stopwatch on a CPU": has_stopwatch_on_cpu,
    "with a pool": pooled,
    "without a pool": unpooled,
    "seconds": events.seconds(),
    "overlap": scenarios.compute_overlap([(0, 4), (10, 12)], [(1, 3), (3, 11)]),
    "overlap without copies": scenarios.compute_overlap([], [(0, 1)]),
}
print(json.dumps(answer))
