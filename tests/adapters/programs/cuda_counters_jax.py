import json
import sys

import jax

from framebench.adapters.jax import make
from framebench.adapters.jax.observe import CACHE
from framebench.suite.selectors import parse

adapter = make(parse("transformer/jax/eval/no_grad/b4/tiny"))
adapter.build()
on_cpu = [sorted(adapter.read_peaks()), adapter.read_counters(), adapter.make_stopwatch()]
adapter.step()
adapter.synchronize()
on_cpu_after = sorted(adapter.read_peaks())


class Device:
    def memory_stats(self):
        return json.loads(sys.argv[1])


jax.local_devices = lambda: [Device()]
CACHE.update({"/jax/compilation_cache/cache_hits": 3})
own = adapter.read_peaks()
print(json.dumps([on_cpu, on_cpu_after, {k: own[k] for k in own if k != "compiler.plan"}, adapter.read_counters()]))
