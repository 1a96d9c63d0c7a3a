"""`STATISTICS`: print what the adapter counts on a CPU, and on a device with these statistics."""

import json
import sys
from unittest.mock import Mock

import jax

from framebench import adapters
from framebench.adapters.jax.adapter import EVENT_COUNTS
from framebench.suite.selectors import parse

adapter = adapters.load(parse("transformer/jax/eval/no_grad/b4/tiny"))
adapter.build()
before = adapter.read_peaks() | adapter.read_counters()
adapter.step()
adapter.synchronize()
after = adapter.read_peaks() | adapter.read_counters()

device = Mock()
device.memory_stats.return_value = json.loads(sys.argv[1])
jax.local_devices = Mock(return_value=[device])
EVENT_COUNTS.update({"/jax/compilation_cache/cache_hits": 3})
answer = {
    "on a CPU before a step": before,
    "on a CPU after a step": after,
    "has a stopwatch": adapter.make_stopwatch() is not None,
    "peaks": adapter.read_peaks(),
    "counters": adapter.read_counters(),
}
print(json.dumps(answer))
