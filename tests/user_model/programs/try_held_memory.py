"""Peaks of small files that hold memory in each way that Python has: as framebench reads them, and
by VmHWM of a plain loop that knows nothing of framebench, each in a process of its own that has
imported and warmed up nothing but PyTorch.
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
from framebench.instruments import host
from framebench.suite.case import Case
from framebench.suite.user_file import list_definitions
from framebench.worker.worker import peaks


def warmed_up() -> None:
    layers = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512))
    optimizer = torch.optim.SGD(layers.parameters(), 0.01, 0.9)
    for _ in range(2):
        optimizer.zero_grad()
        layers(torch.randn(64, 512)).square().mean().backward()
        optimizer.step()


def plain(file: Path) -> int:
    """Return the bytes by which a third step rises over the process before the file was imported.

    All of it was run and thrown away once, so that the process has what libraries keep.
    """
    sys.path.insert(0, str(file.parent))
    risen(file)
    for name in ("plainly_imported", "beside"):
        sys.modules.pop(name, None)
    before = settled()
    return risen(file) - before


def risen(file: Path) -> int:
    """Return the most that the process has in a third step."""
    spec = importlib.util.spec_from_file_location("plainly_imported", file)
    assert spec
    assert spec.loader
    mine = importlib.util.module_from_spec(spec)
    sys.modules["plainly_imported"] = mine
    spec.loader.exec_module(mine)
    model, (x, y) = mine.model(), mine.batch(64)
    make_optimizer = getattr(mine, "optimizer", lambda weights: torch.optim.SGD(weights, 0.01, 0.9))
    optimizer = make_optimizer(model.parameters())
    for step in range(3):
        if step == 2:
            settled()
        optimizer.zero_grad()
        mine.loss(model(x), y).backward()
        optimizer.step()
    return host.read_status("VmHWM")


def settled() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return host.read_status("VmRSS")


def ours(file: Path) -> dict[str, object]:
    os.environ["FRAMEBENCH_OWN"] = str(file.parent)
    facts = {"file": str(file), "framework": "torch", "batch": 64, "defined": []}
    facts["defined"] = [name for name in ("optimizer",) if name in list_definitions(str(file))]
    (file.parent / "own.json").write_text(json.dumps(facts))
    adapter = adapters.load(Case.from_id("own/torch/train/fp32/b64/mine"))
    adapter.build()
    read = [peaks(adapter)["host.rss"] for _ in range(3)]
    result = {
        "peak": read[-1],
        "holders": adapter.untracked_bytes(),
        "libraries": adapter.library_bytes(),
    }
    return result | {"saved": adapter.observe()["activation_bytes"]}


def in_a_child(work: object, file: Path) -> object:
    ours_, theirs = os.pipe()
    if not (child := os.fork()):
        result = json.dumps(work(file))  # type: ignore[operator]
        os.write(theirs, result.encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours_) as pipe:
        result = json.loads(pipe.read())
    os.waitpid(child, 0)
    return result


sys.path.append(sys.argv[2])  # where packages lie
warmed_up()
gc.unfreeze = lambda: None  # which each adapter calls
# what is imported is no file's: it need not be looked through for tensors after every step
gc.freeze()
found = {}
for folder in sorted(Path(sys.argv[1]).iterdir()):
    found[folder.name] = {
        "plain": in_a_child(plain, folder / "mine.py"),
        "ours": in_a_child(ours, folder / "mine.py"),
    }
print(json.dumps(found))
