import json

import jittor as jt

from framebench.adapters.jittor.probe import load_probe, watch_pool

watch_pool()
before = load_probe().used_bytes()
load_probe().reset_peak()
a = jt.ones(256 * 2**20 // 4)
a.sync()
b = a * 2
b.sync()
jt.sync_all(True)
two = load_probe().used_bytes() - before
del b
view = a[:1024]
view.sync()
del a
jt.gc()
viewed = load_probe().used_bytes() - before
del view
jt.gc()
peak, blocks = load_probe().peak_bytes() - before, [load_probe().largest_block()]
load_probe().reset_peak()
blocks.append(load_probe().largest_block())
print(json.dumps([peak, two, viewed, load_probe().used_bytes() - before, blocks]))
