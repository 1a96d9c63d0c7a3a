import json

import torch

torch.cuda.reset_peak_memory_stats()
a = torch.ones(256 * 2**20 // 4, device="cuda")
b = a * 2
del a, b
print(json.dumps(torch.cuda.max_memory_allocated()))
