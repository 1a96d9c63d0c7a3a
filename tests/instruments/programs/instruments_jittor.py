import json

import jittor as jt

from framebench.adapters.jittor.probe import load_probe, watch_pool

watch_pool()
before = load_probe().used_bytes()
load_probe().reset_peak()
a = jt.ones(256 * 2**20 // 4)  # float32: 256 MiB
a.sync()
b = a * 2
b.sync()
jt.sync_all(True)
both_arrays = load_probe().used_bytes() - before
del b
view = a[:1024]
view.sync()
del a
jt.gc()
view_alone = load_probe().used_bytes() - before
del view
jt.gc()
peak = load_probe().peak_bytes() - before
largest_block = load_probe().largest_block()
load_probe().reset_peak()
print(
    json.dumps(
        {
            "peak": peak,
            "both_arrays": both_arrays,
            "view_alone": view_alone,
            "after": load_probe().used_bytes() - before,
            "largest_block": largest_block,
            "largest_block_since_reset": load_probe().largest_block(),
        }
    )
)
