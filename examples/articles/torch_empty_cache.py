"""Article B, `torch.cuda.empty_cache()` and what is reserved beside it."""

import json

import torch

x = torch.randn(1024, 1024)
del x
torch.cuda.empty_cache()
print(json.dumps({"reserved": torch.cuda.memory_reserved()}))
