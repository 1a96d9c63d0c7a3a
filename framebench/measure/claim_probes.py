"""Small measurements that claims need and no case gives: their results are data under results/claims, checked when read.

`results/claims/<machine>/<probe>/<time>.json`. The newest result of a probe counts.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from framebench.measure import environments, oom_recovery, runner
from framebench.measure.environments import Environment
from framebench.measure.runner import Options
from framebench.records import provenance, store
from framebench.records.probed import Probed
from framebench.records.record import INSTRUMENTS
from framebench.suite.case import Case
from framebench.suite.selectors import parse

Say = Callable[[str], None]
ROUNDS = 5  # fresh processes of a probe of host memory
STEPS = 30  # monitored and unmonitored steps, alternately
SAMPLES = 64  # of the evaluation that has to halve its batch, which are all in the first attempt
MANY = {"tiny": 512}  # the same of sizes so small that libraries' blocks would hide them
ROOM = 0.5  # of what the whole batch needs: the first attempt must fail
LEAST_ROOM = 2**22  # bytes; in less, what libraries take at once decides


def folder(results: Path, machine: str, probe: str) -> Path:
    return results / "claims" / machine / probe


def absent_names(names: tuple[str, ...], environment: Environment) -> dict[str, bool]:
    """Whether each of these attribute paths exists in the framework that is installed."""
    printed = environments.run_module(environment, "framebench.worker.name_probe", environment.framework, *names)
    return {str(name): bool(there) for name, there in json.loads(printed.splitlines()[-1]).items()}


def inputs() -> dict[str, list[float]]:
    """Bytes by which reading a data set grew a fresh process, from a list of arrays and from a memory-mapped file."""
    rounds = [json.loads(own_module("framebench.worker.input_probe")) for _ in range(ROUNDS)]
    return {key: [float(r[key]) for r in rounds] for key in rounds[0]}


def own_module(name: str) -> str:
    """What a module prints that needs NumPy alone: it runs in this interpreter's environment, in a process of its own."""
    done = subprocess.run([sys.executable, "-m", name], cwd=provenance.ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def monitor(case: Case, environment: Environment) -> dict[str, list[float]]:
    """Seconds of steps with and without a thread that reads resident memory, and what it saw of the peak."""
    printed = environments.run_module(environment, "framebench.worker.monitor_probe", case.id, str(STEPS), OMP_NUM_THREADS="1")
    found: dict[str, list[float]] = json.loads(printed.splitlines()[-1])
    return found


def halved(case: Case, environment: Environment, options: Options) -> dict[str, list[float]]:
    """An evaluation within half of what its first batch needs. Raises RuntimeError if it does not come to its end."""
    run = oom_recovery.runner_of(environment, options, lambda phase: None)
    whole = oom_recovery.evaluate(case, case.batch, None, run)
    if whole.failure:
        raise RuntimeError(f"{case.id} without a limit: {whole.failure}")
    peak = next(whole.peaks[i] for i in INSTRUMENTS if i in whole.peaks)
    room = max(int(ROOM * peak), LEAST_ROOM)
    found = oom_recovery.evaluate(case, case.batch, room, run)
    counts = {
        "lost": found.lost,
        "done_twice": found.twice,
        "recoveries": len(found.recoveries),
        "budget_bytes": room,
    }
    return {key: [float(n)] for key, n in counts.items()}


def save(probe: str, case: Case, environment: Environment, results: Path, **fields: Any) -> Path:
    """Write a probe's result with the provenance of what ran. Raises OSError."""
    options, load = Options(), runner.load_average()
    where = runner.provenance_of(case, secrets.token_hex(6), environment, options, load, {}, results)
    found = Probed(probe=probe, provenance=where, **fields)
    # it needs a provenance of what it writes, no more
    return store.write(found, folder(results, where.machine, probe))  # type: ignore[arg-type]


def run(probe: str, names: tuple[str, ...], size: str, results: Path, say: Say) -> Path:
    """Carry out one probe and save what it found. Raises SetupError, RuntimeError, OSError."""
    say(f"probe {probe}")
    if probe == "names":
        case, environment = parse(f"transformer/jittor/train/fp32/b4/{size}"), environments.ensure("jittor", say=say)
        return save(probe, case, environment, results, names=absent_names(names, environment))
    if probe.startswith("halving-"):
        framework = probe.removeprefix("halving-")
        case, environment = (
            Case("transformer", framework, "eval", "no_grad", MANY.get(size, SAMPLES), size),
            environments.ensure(framework, say=say),
        )
        return save(probe, case, environment, results, found=halved(case, environment, Options()))
    case, environment = parse(f"transformer/torch/train/fp32/b4/{size}"), environments.ensure("torch", say=say)
    return save(probe, case, environment, results, found=inputs() if probe == "inputs" else monitor(case, environment))
