"""Files of the kinds that users reported, each in processes of its own: its peak by the high-water
mark of a plain loop that knows nothing of framebench, the peak as framebench reads it, and what
becomes of strategies.
"""

import ctypes
import gc
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # here, and not in each child: the first optimizer imports it

from framebench import adapters
from framebench.instruments import host
from framebench.suite.case import Case
from framebench.suite.trees import call_with
from framebench.suite.user_file import NAME, list_definitions, load_file
from framebench.user_file import reference
from framebench.worker.mathematics import Baseline, check_in_float64
from framebench.worker.verification import make_verified_steps
from framebench.worker.worker import describe_failure, measure_peaks

BATCH = 8
gc.unfreeze = lambda: None  # which each adapter calls


def settled() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return host.read_status("RssAnon")


def plain(file: Path) -> int:
    """Bytes by which a step rises over the process as it was before the file was imported.

    All of it was run and thrown away once, so that code, kernels and what PyTorch imports in a
    first step are in memory.
    """
    risen(file)
    del sys.modules[NAME]
    before = settled()
    return risen(file) - before


def risen(file: Path) -> int:
    """The most that the process has in a steady step."""
    mine: Any = load_file(str(file))
    model, (x, y) = mine.model(), mine.batch(BATCH)
    weights = list(model.parameters())
    optimizer = (
        mine.optimizer(weights)
        if hasattr(mine, "optimizer")
        else torch.optim.SGD(weights, 0.01, 0.9)
    )
    peak = 0
    for _ in range(4):
        resting, resident = settled(), host.read_status("VmRSS")
        optimizer.zero_grad()
        mine.loss(call_with(model, x), y).backward()
        optimizer.step()
        peak = resting + host.read_status("VmHWM") - resident
    return peak


def tried(file: Path, strategies: list[str]) -> dict[str, Any]:
    facts = {"file": str(file), "framework": "torch", "batch": BATCH}
    facts["defined"] = [
        name for name in ("loss", "optimizer", "blocks") if name in list_definitions(str(file))
    ]
    folder = Path(os.environ["FRAMEBENCH_OWN"])
    (folder / "own.json").write_text(json.dumps(facts))
    case = Case.from_id(f"own/torch/train/fp32/b{BATCH}/mine")
    adapter = adapters.load(case)
    adapter.build()
    peak = [measure_peaks(adapter)["host.rss"] for _ in range(3)][-1]
    found = {
        "peak": peak,
        "holders": adapter.untracked_bytes(),
        "saved": adapter.observe()["activation_bytes"],
    }
    del adapter
    facts = reference.survey(case, lambda message: None)["facts"]
    found |= {
        name: facts[name]
        for name in ("accumulation", "without_gradient", "random", "optimizer", "level")
    }
    found["blocks"] = len(facts["blocks"])
    baseline = Baseline(case)
    verdicts = {
        name: verdict(Case.from_id(case.id.replace("/fp32/", f"/{name}/")), baseline)
        for name in strategies
    }
    return found | {
        "verdicts": verdicts,
        "not_in_float64": check_in_float64(case, baseline).reason or "",
    }


def verdict(case: Case, baseline: Baseline) -> str:
    """Verify a strategy in float64 and in its own precision, in one process."""
    if not case.support.supported:
        return f"left out: {case.support.why}"
    mathematics = check_in_float64(case, baseline)
    if not mathematics.passed:
        return f"wrong: {mathematics['reason']}"
    adapter = adapters.load(case)
    adapter.build()
    outcome = make_verified_steps(adapter)[1]
    return "right" if outcome.passed else f"wrong: {outcome.reason} {outcome.margin}"


def in_a_child(work: Callable[..., object], *arguments: object) -> Any:
    ours, theirs = os.pipe()
    if not (child := os.fork()):
        try:
            result: object = work(*arguments)
        except BaseException as error:
            result = {"fault": describe_failure(error)["blamed"] or repr(error)}  # type: ignore[arg-type]
        os.write(theirs, json.dumps(result).encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        result = json.load(pipe)
    os.waitpid(child, 0)
    return result


# what is imported is no file's: it need not be looked through for tensors after every step
gc.freeze()
answers = {}
for file in map(Path, sys.argv[2:]):
    answers[file.stem] = {
        "plain": in_a_child(plain, file),
        "tried": in_a_child(tried, file, sys.argv[1].split(",")),
    }
print(json.dumps(answers))
