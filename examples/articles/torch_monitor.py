"""Article C, a thread that prints `torch.cuda.memory_allocated()` beside the work."""

import json
import threading

import torch

seen, over = [], threading.Event()


def watch():
    while not over.is_set():
        seen.append(torch.cuda.memory_allocated())
        over.wait(0.01)


thread = threading.Thread(target=watch, daemon=True)
thread.start()
for _ in range(20):
    torch.randn(512, 512) @ torch.randn(512, 512)
over.wait(0.1)
over.set()
thread.join()
print(json.dumps({"readings": len(seen), "most": max(seen)}))
