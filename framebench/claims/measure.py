"""Small measurements that claims need and no case gives: their results are data under results/claims, checked when read.

`results/claims/<machine>/<probe>/<time>.json`. The newest result of a probe counts.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from framebench.budget.max_batch.oom_recovery import evaluate_in
from framebench.claims import snippets
from framebench.claims.needs import listing
from framebench.claims.probed_record import Probed
from framebench.claims.store import SNIPPET
from framebench.engine import environments, runner
from framebench.engine.environments import Environment
from framebench.engine.recording import Context, make_provenance
from framebench.engine.runner import Options
from framebench.instruments.host import MALLOC_ENV
from framebench.records import store
from framebench.records.record import INSTRUMENTS
from framebench.suite.case import Case
from framebench.suite.selectors import parse

Say = Callable[[str], None]
ROUNDS = 5  # fresh processes of a probe
STEPS = 30  # pairs of a monitored and an unmonitored step
COLLECTED_STEPS = 20  # during which garbage may pile up
COLLECTORS = ("fp32", "gc_off", "gc_every_1", "gc_every_2")  # Python's own ways of collecting, and by hand
SAMPLES = 64  # of the evaluation that has to halve its batch, which are all in the first attempt
MANY = {"tiny": 512}  # the same of sizes so small that libraries' blocks would hide them
ROOM = 0.5  # of what the whole batch needs: the first attempt must fail
LEAST_ROOM = 2**22  # bytes; in less, what libraries take at once decides


def folder(results: Path, machine: str, probe: str) -> Path:
    return results / "claims" / machine / probe


def absent_names(names: tuple[str, ...], environment: Environment) -> dict[str, bool]:
    """Whether each of these attribute paths exists in the framework that is installed."""
    printed = environments.run_module(environment, "framebench.claims.probes.names", environment.framework, *names)
    return {str(name): bool(there) for name, there in json.loads(printed.splitlines()[-1]).items()}


def inputs() -> dict[str, list[float]]:
    """Bytes by which reading a data set grew a fresh process, from a list of arrays and from a memory-mapped file."""
    return _by_key([json.loads(_own_module("framebench.claims.probes.inputs")) for _ in range(ROUNDS)])


def _by_key(rounds: list[dict[str, float]]) -> dict[str, list[float]]:
    return {key: [float(r[key]) for r in rounds] for key in rounds[0]}


def _own_module(name: str) -> str:
    """What a module prints that needs NumPy alone: it runs in this interpreter's environment, in a process of its own."""
    done = subprocess.run([sys.executable, "-P", "-m", name], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def monitor(case: Case, environment: Environment) -> dict[str, list[float]]:
    """By process: time of steps with a thread that reads resident memory over those without, and what it saw of the peak."""
    return _by_key([_printed_by(environment, "monitor", case.id, str(STEPS), str(seed)) for seed in range(ROUNDS)])


def _printed_by(environment: Environment, module: str, *arguments: str, **variables: str) -> dict[str, float]:
    """The last line that a module of the worker prints, in a process of its own on one thread."""
    name = f"framebench.claims.probes.{module}"
    printed = environments.run_module(environment, name, *arguments, OMP_NUM_THREADS="1", **variables)
    numbers: dict[str, float] = json.loads(printed.splitlines()[-1])
    return numbers


def collected(case: Case, environment: Environment) -> dict[str, list[float]]:
    """Bytes that a process grew to over some steps, by what Python's collector did; and how often it ran."""
    readings: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for strategy in COLLECTORS:
            one = replace(case, strategy=strategy).id
            for key, value in _printed_by(environment, "collector", one, str(COLLECTED_STEPS), **MALLOC_ENV).items():
                readings.setdefault(f"{strategy}_{key}", []).append(value)
    return readings


def reported(environment: Environment, number: str) -> dict[str, list[float]]:
    """What a user's report is decided by, in fresh processes."""
    name = environment.framework
    return _by_key([_printed_by(environment, "report", name, number, **MALLOC_ENV) for _ in range(ROUNDS)])


def halved(case: Case, environment: Environment, options: Options) -> dict[str, list[float]]:
    """An evaluation within half of what its first batch needs. Raises RuntimeError if it does not come to its end."""
    whole = evaluate_in(environment, case, case.batch, None, options)
    if whole.failure:
        raise RuntimeError(f"{case.id} without a limit: {whole.failure}")
    peak = next(whole.peaks[i] for i in INSTRUMENTS if i in whole.peaks)
    budget_bytes = max(int(ROOM * peak), LEAST_ROOM)
    outcome = evaluate_in(environment, case, case.batch, budget_bytes, options)
    counts = {
        "lost": outcome.lost,
        "done_twice": outcome.twice,
        "recoveries": len(outcome.recoveries),
        "budget_bytes": budget_bytes,
    }
    return {key: [float(n)] for key, n in counts.items()}


def _save(probe: str, case: Case, environment: Environment, results: Path, **fields: Any) -> Path:
    """Write a probe's result with the provenance of what ran. Raises OSError."""
    options, load = Options(), runner.load_average()
    context = Context(case, environment, options, secrets.token_hex(6), results, load)
    where = make_provenance(context, None, started=False)
    probe_record = Probed(probe=probe, provenance=where, **fields)
    # it needs a provenance of what it writes, no more
    return store.write(probe_record, folder(results, where.machine, probe))  # type: ignore[arg-type]


def _snippet(probe: str, size: str, results: Path, say: Say) -> Path:
    snippet = listing(probe.removeprefix(SNIPPET))
    framework = snippets.framework_of(snippet)
    environment = environments.ensure(framework, say=say)
    numbers, error = snippets.tried(snippet, environment)
    case = parse(f"transformer/{framework}/train/fp32/b4/{size}")
    found = {name: [float(number)] for name, number in numbers.items()}
    return _save(probe, case, environment, results, found=found, error=error)


def run(probe: str, names: tuple[str, ...], size: str, results: Path, say: Say) -> Path:
    """Carry out one probe and save what it found. Raises SetupError, RuntimeError, OSError."""
    say(f"probe {probe}")
    if probe == "names":
        case, environment = parse(f"transformer/jittor/train/fp32/b4/{size}"), environments.ensure("jittor", say=say)
        return _save(probe, case, environment, results, names=absent_names(names, environment))
    if probe.startswith("halving-"):
        framework = probe.removeprefix("halving-")
        case, environment = (
            Case("transformer", framework, "eval", "no_grad", MANY.get(size, SAMPLES), size),
            environments.ensure(framework, say=say),
        )
        return _save(probe, case, environment, results, found=halved(case, environment, Options()))
    if probe.startswith(SNIPPET):
        return _snippet(probe, size, results, say)
    kind, _, rest = probe.partition("-")
    framework, _, number = (rest or "torch").partition("-")
    case, environment = parse(f"transformer/{framework}/train/fp32/b4/{size}"), environments.ensure(framework, say=say)
    find = {
        "inputs": inputs,
        "monitor": lambda: monitor(case, environment),
        "collector": lambda: collected(case, environment),
        "report": lambda: reported(environment, number),
    }[kind]
    return _save(probe, case, environment, results, found=find())
