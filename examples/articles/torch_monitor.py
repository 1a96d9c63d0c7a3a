"""Article C, a thread that prints what `torch.cuda` has allocated and reserved, every second.

Work is done meanwhile. The control does the same work after a call of the script that is made
without a thread of its own.
"""

import json
import threading
import time
from contextlib import redirect_stdout
from io import StringIO

import torch

WORK_S = 2.5


def monitor_memory(interval=1):
    while True:
        allocated = torch.cuda.memory_allocated() / 1024**2
        reserved = torch.cuda.memory_reserved() / 1024**2
        print(f"Allocated: {allocated:.2f}MB, Reserved: {reserved:.2f}MB")
        time.sleep(interval)


def work(results):
    """Make a tensor every tenth of a second."""
    started = time.monotonic()
    while time.monotonic() - started < WORK_S:
        results.append(torch.randn(64, 64, device=device))
        time.sleep(0.1)


def monitor_and_work(results):
    """Call the script in the thread that works."""
    monitor_memory()
    work(results)


def find_most(lines, place):
    """Return the most bytes that stand at this place of a printed line."""
    return max(float(line.split()[place].strip("MB,")) for line in lines) * 1024**2


device = "cuda" if torch.cuda.is_available() else "cpu"
printed, results, control_results = StringIO(), [], []
with redirect_stdout(printed):
    threading.Thread(target=monitor_memory, daemon=True).start()
    work(results)
    lines = printed.getvalue().splitlines()
    control = threading.Thread(target=monitor_and_work, args=(control_results,), daemon=True)
    control.start()
    control.join(WORK_S)
found = {
    "readings": len(lines),
    "most": find_most(lines, 1),
    "most_reserved": find_most(lines, 3),
    "rounds": len(results),
    "rounds_without_thread": len(control_results),
}
print(json.dumps(found))
