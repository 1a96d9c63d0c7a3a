"""`STATISTICS`: print what the adapter counts on a CPU, and on a device with these statistics.

Before the first step on the CPU: the names of peaks, counters and stopwatch; after it the names of
peaks; on the device: peaks and counters.
"""

import json
import sys
from unittest.mock import Mock

import jax

from framebench import adapters
from framebench.adapters.jax.adapter import CACHE
from framebench.suite.selectors import parse

adapter = adapters.load(parse("transformer/jax/eval/no_grad/b4/tiny"))
adapter.build()
before = [sorted(adapter.read_peaks()), adapter.read_counters(), adapter.make_stopwatch()]
adapter.step()
adapter.synchronize()
peaks_after = sorted(adapter.read_peaks())

device = Mock()
device.memory_stats.return_value = json.loads(sys.argv[1])
jax.local_devices = Mock(return_value=[device])
CACHE.update({"/jax/compilation_cache/cache_hits": 3})
peaks = adapter.read_peaks()
del peaks["compiler.plan"]
print(json.dumps([before, peaks_after, peaks, adapter.read_counters()]))
