import json
import sys

import jax

from framebench.adapters.jax import make
from framebench.adapters.jax.observe import CACHE
from framebench.suite.selectors import parse

adapter = make(parse("transformer/jax/eval/no_grad/b4/tiny"))
adapter.build()
on_cpu = [sorted(adapter.own_peaks()), adapter.counters(), adapter.events()]
adapter.step()
adapter.synchronize()
on_cpu_after = sorted(adapter.own_peaks())


class Device:
    def memory_stats(self):
        return json.loads(sys.argv[1])


jax.local_devices = lambda: [Device()]
CACHE.update({"/jax/compilation_cache/cache_hits": 3})
own = adapter.own_peaks()
print(json.dumps([on_cpu, on_cpu_after, {k: own[k] for k in own if k != "compiler.plan"}, adapter.counters()]))
