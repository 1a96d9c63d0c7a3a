import json

import jittor as jt

from framebench.adapters.jittor.probe import probe, watch

watch()
before = probe().used_bytes()
probe().reset_peak()
a = jt.ones(256 * 2**20 // 4)
a.sync()
b = a * 2
b.sync()
jt.sync_all(True)
two = probe().used_bytes() - before
del b
view = a[:1024]
view.sync()
del a
jt.gc()
viewed = probe().used_bytes() - before
del view
jt.gc()
peak, blocks = probe().peak_bytes() - before, [probe().largest_block()]
probe().reset_peak()
blocks.append(probe().largest_block())
print(json.dumps([peak, two, viewed, probe().used_bytes() - before, blocks]))
