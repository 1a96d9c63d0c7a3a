import sys

import framebench
from framebench.publish import figures as published

table = framebench.load(sys.argv[1])
for _, draw, rows in published.list_figures(table[table["workload"] == "unet3d"]):
    draw(rows)
assert not {"torch", "jax", "jittor"} & set(sys.modules)
pyplot = sys.modules.get("matplotlib.pyplot")
assert pyplot is None or not pyplot.get_fignums()
