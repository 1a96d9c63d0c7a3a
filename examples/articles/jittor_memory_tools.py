"""Article A, what Jittor shows of its memory and gives back of it."""

import json

import jittor as jt

jt.flags.use_cuda = jt.has_cuda
x = jt.rand(256, 1024)  # one MiB
x.sync()
jt.display_memory_info()
held = jt.get_mem_info()
found = {"held": held.total_cuda_used, "held_on_the_host": held.total_cpu_used}
del x
jt.clean()
jt.gc()
left = jt.get_mem_info()
found["left"] = left.total_cuda_used if jt.has_cuda else left.total_cpu_used
print(json.dumps({name: int(size) for name, size in found.items()}))
