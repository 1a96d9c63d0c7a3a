"""Article A, what Jittor shows of its memory and gives back of it."""

import json

import jittor as jt

x = jt.rand(256, 1024)  # one MiB
x.sync()
held = jt.flags.stat_allocator_total_alloc_byte
jt.display_memory_info()
del x
jt.clean()
jt.gc()
print(json.dumps({"bytes_counted": int(held)}))
