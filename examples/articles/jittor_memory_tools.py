"""Article A, what Jittor shows of its memory and gives back of it."""

import json

import jittor as jt

x = jt.rand(256, 1024)  # one MiB
x.sync()
jt.display_memory_info()
held = jt.get_mem_info().total_cpu_used + jt.get_mem_info().total_cuda_used
del x
jt.clean()
jt.gc()
left = jt.get_mem_info().total_cpu_used + jt.get_mem_info().total_cuda_used
print(json.dumps({"held": int(held), "left": int(left)}))
