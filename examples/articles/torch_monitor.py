"""Article C, a thread that prints what `torch.cuda` has allocated and reserved, every second."""

import json
import threading
import time
from contextlib import redirect_stdout
from io import StringIO

import torch


def monitor_memory(interval=1):
    while True:
        allocated = torch.cuda.memory_allocated() / 1024**2
        reserved = torch.cuda.memory_reserved() / 1024**2
        print(f"Allocated: {allocated:.2f}MB, Reserved: {reserved:.2f}MB")
        time.sleep(interval)


device = "cuda" if torch.cuda.is_available() else "cpu"
printed = StringIO()
with redirect_stdout(printed):
    threading.Thread(target=monitor_memory, daemon=True).start()
    held = []
    started = time.monotonic()
    while time.monotonic() - started < 2.5:
        held.append(torch.randn(64, 64, device=device))
        time.sleep(0.1)
lines = printed.getvalue().splitlines()
most = max(float(line.split()[1].removesuffix("MB,")) for line in lines)
print(json.dumps({"readings": len(lines), "most": most * 1024**2}))
