"""Peaks of small files that hold memory in each way that Python has: as framebench reads them, and
by VmHWM of a plain loop that knows nothing of framebench, each in a process of its own that has
imported and warmed up nothing but PyTorch.

`measure_peaks.py FOLDER PACKAGES`: FOLDER has a folder with `mine.py` for each file, and PACKAGES
what they import.
"""

import ctypes
import gc
import importlib.util
import json
import os
import sys
from pathlib import Path

import torch
from torch import nn

from framebench import adapters
from framebench.budget.max_batch.order import ProbeOrder
from framebench.budget.max_batch.worker import fit
from framebench.explain.worker import explain
from framebench.instruments import host
from framebench.suite.protocol import Task
from framebench.worker.worker import measure_memory
from tests.user_model.user_files import use_file

BATCH = 64


def warm_up():
    """Make two steps of another model, so that PyTorch's libraries have what they keep."""
    layers = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512))
    optimizer = torch.optim.SGD(layers.parameters(), 0.01, 0.9)
    for _ in range(2):
        optimizer.zero_grad()
        layers(torch.randn(64, 512)).square().mean().backward()
        optimizer.step()


def measure_plain_peak(file):
    """Return the bytes by which a third step rises over the process before the file was imported.

    The same is run once before, so that the process has what libraries keep.
    """
    sys.path.insert(0, str(file.parent))
    measure_high_water(file)
    for name in ("plainly_imported", "beside"):
        sys.modules.pop(name, None)
    before = measure_idle_bytes()
    return measure_high_water(file) - before


def measure_high_water(file):
    """Return the most bytes that the process has in a third step of the file's model."""
    torch.manual_seed(0)  # a second call has the shapes of the first
    spec = importlib.util.spec_from_file_location("plainly_imported", file)
    mine = importlib.util.module_from_spec(spec)
    sys.modules["plainly_imported"] = mine
    spec.loader.exec_module(mine)
    model, (x, y) = mine.model(), mine.batch(BATCH)
    weights = list(model.parameters())
    if hasattr(mine, "optimizer"):
        optimizer = mine.optimizer(weights)
    else:
        optimizer = torch.optim.SGD(weights, 0.01, 0.9)
    for step in range(3):
        if step == 2:
            measure_idle_bytes()
        optimizer.zero_grad()
        mine.loss(model(x), y).backward()
        optimizer.step()
    return host.read_status("VmHWM")


def measure_idle_bytes():
    """Free what can be freed, reset the high-water mark, and return the process's bytes."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return host.read_status("VmRSS")


def report(file):
    """Return what framebench reads of the file."""
    adapter = adapters.load(use_file(file, BATCH))
    adapter.build()
    memory = measure_memory(adapter, Task(adapter.case.id, "memory"), lambda message: None)
    return {
        "peak": memory.peaks["host.rss"],
        "holders": adapter.untracked_bytes(),
        "libraries": adapter.library_bytes(),
        "saved": adapter.observe()["activation_bytes"],
    }


def find_largest_batch_peak(file):
    """Return the peak that `framebench max-batch` reads at one batch."""
    adapter = adapters.load(use_file(file, BATCH))
    adapter.build()
    order = ProbeOrder("fit", adapter.case.id, budget=2**30)
    return fit(adapter, order, lambda message: None)["peaks"]["host.rss"]


def explain_peak(file):
    """Return the peak that `framebench explain` reads next to its account."""
    return explain(use_file(file, BATCH).id)["measured"]["host.rss"]


def run_in_a_child(work, file):
    """Return what a function gives in a child process."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        os.write(write_end, json.dumps(work(file)).encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        result = json.loads(pipe.read())
    os.waitpid(child, 0)
    return result


sys.path.append(sys.argv[2])
warm_up()
gc.unfreeze = lambda: None  # which each adapter calls
# what is imported is no file's: it need not be looked through for tensors after every step
gc.freeze()
found = {}
for folder in sorted(Path(sys.argv[1]).iterdir()):
    file = folder / "mine.py"
    found[folder.name] = {
        "plain_peak": run_in_a_child(measure_plain_peak, file),
        "reported": run_in_a_child(report, file),
        "max_batch_peak": run_in_a_child(find_largest_batch_peak, file),
        "explained_peak": run_in_a_child(explain_peak, file),
    }
print(json.dumps(found))
