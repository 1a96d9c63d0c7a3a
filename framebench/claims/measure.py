"""Run the small measurements that claims need and no case gives.

They are lines of `results/claims/<machine>.jsonl`. The newest result of a probe counts.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from framebench.budget.max_batch.oom_recovery import evaluate_in
from framebench.claims.listings import find_listing, framework_of, run_listing
from framebench.claims.probed import Numbers
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

PROBES = "framebench.claims.probes"
ROUNDS = 5  # fresh processes of a probe
STEPS = 10  # of each way of reading memory
MONITOR_ROUNDS = 3  # fresh processes: each makes the steps of every way
COLLECTED_STEPS = 20  # during which garbage may pile up
# Python's own ways of collecting, and by hand
COLLECTORS = ("fp32", "gc_off", "gc_every_1", "gc_every_2")
SAMPLES = 64  # of the evaluation that has to halve its batch, which are all in the first attempt
MANY_SAMPLES = {"tiny": 512}  # the same of sizes so small that libraries' blocks would hide them
BUDGET_SHARE = 0.5  # of what the whole batch needs: the first attempt must fail
LEAST_BUDGET = 2**22  # bytes; in less, what libraries take at once decides


def find_file(results: Path, machine: str) -> Path:
    """Return the file of a machine's results of probes."""
    return results / "claims" / f"{machine}{store.SUFFIX}"


def collect_rounds(rounds: Sequence[dict[str, float]]) -> Numbers:
    """Return by name the numbers of all rounds."""
    return {name: [float(numbers[name]) for numbers in rounds] for name in rounds[0]}


def run_probe(
    environment: Environment, module: str, *arguments: str, **variables: str
) -> dict[str, float]:
    """Return the numbers that a probe prints in its last line.

    It runs in a process of its own on one thread. Raises SetupError.
    """
    printed = environments.run_module(
        environment,
        f"{PROBES}.{module}",
        *arguments,
        variables={"OMP_NUM_THREADS": "1", **variables},
    )
    numbers: dict[str, float] = json.loads(printed.splitlines()[-1])
    return numbers


def look_up_names(names: Sequence[str], environment: Environment) -> dict[str, bool]:
    """Return whether each of these attribute paths exists in the framework that is installed."""
    printed = environments.run_module(environment, f"{PROBES}.names", environment.framework, *names)
    found = json.loads(printed.splitlines()[-1])
    return {str(name): bool(exists) for name, exists in found.items()}


def measure_inputs() -> Numbers:
    """Return the bytes by which reading a data set grew a fresh process.

    It is read from a list of arrays and from a memory-mapped file. The probe needs NumPy alone, so
    that it runs by this interpreter.
    """
    command = [sys.executable, "-P", "-m", f"{PROBES}.inputs"]
    rounds = []
    for _ in range(ROUNDS):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rounds.append(json.loads(done.stdout.splitlines()[-1]))
    return collect_rounds(rounds)


def measure_monitor(case: Case, environment: Environment) -> Numbers:
    """Return which share of a run's peak is found by each way of reading resident memory."""
    rounds = []
    for seed in range(MONITOR_ROUNDS):
        rounds.append(
            run_probe(environment, "monitor", case.id, str(STEPS), str(seed), **MALLOC_ENV)
        )
    return collect_rounds(rounds)


def measure_collectors(case: Case, environment: Environment) -> Numbers:
    """Return the bytes that a process grew to over some steps, by what Python's collector did.

    How often it ran is counted too.
    """
    rounds = []
    for _ in range(ROUNDS):
        numbers = {}
        for strategy in COLLECTORS:
            case_id = replace(case, strategy=strategy).id
            for name, value in run_probe(
                environment, "collector", case_id, str(COLLECTED_STEPS), **MALLOC_ENV
            ).items():
                numbers[f"{strategy}_{name}"] = value
        rounds.append(numbers)
    return collect_rounds(rounds)


def try_report(environment: Environment, number: str) -> Numbers:
    """Return what a user's report is decided by, in fresh processes."""
    framework = environment.framework
    return collect_rounds(
        [run_probe(environment, "report", framework, number, **MALLOC_ENV) for _ in range(ROUNDS)]
    )


def measure_halving(case: Case, environment: Environment, options: Options) -> Numbers:
    """Return how an evaluation went within half of what its first batch needs.

    Raises RuntimeError if it does not come to its end without a limit.
    """
    whole = evaluate_in(environment, case, case.batch, None, options)
    if whole.failure:
        raise RuntimeError(f"{case.id} without a limit: {whole.failure}")
    peak = next(whole.peaks[instrument] for instrument in INSTRUMENTS if instrument in whole.peaks)
    budget_bytes = max(int(BUDGET_SHARE * peak), LEAST_BUDGET)
    limited = evaluate_in(environment, case, case.batch, budget_bytes, options)
    numbers: dict[str, float] = {
        "lost": limited.lost,
        "done_twice": limited.twice,
        "recoveries": len(limited.recoveries),
        "budget_bytes": budget_bytes,
    }
    return collect_rounds([numbers])


def framework_of_probe(probe: str) -> str:
    """Return the framework that a probe runs: that of its name, or PyTorch."""
    if probe == "names":
        return "jittor"
    if probe.startswith(SNIPPET):
        return framework_of(find_listing(probe.removeprefix(SNIPPET)))
    rest = probe.partition("-")[2]
    return rest.partition("-")[0] or "torch"


def run(
    probe: str, names: Sequence[str], size: str, results: Path, say: Callable[[str], None]
) -> None:
    """Carry out one probe and save its result. Raises SetupError, RuntimeError, OSError."""
    say(f"probe {probe}")
    kind, _, rest = probe.partition("-")
    framework = framework_of_probe(probe)
    environment = environments.ensure(framework, say=say)
    case = Case("transformer", framework, "train", "fp32", 4, size)
    found: Numbers = {}
    exists: dict[str, bool] = {}
    error = ""
    if kind == "names":
        exists = look_up_names(names, environment)
    elif kind == "snippet":
        numbers, error = run_listing(find_listing(rest), environment)
        found = collect_rounds([numbers])
    elif kind == "halving":
        case = Case(
            "transformer", framework, "eval", "no_grad", MANY_SAMPLES.get(size, SAMPLES), size
        )
        found = measure_halving(case, environment, Options())
    elif kind == "inputs":
        found = measure_inputs()
    elif kind == "monitor":
        found = measure_monitor(case, environment)
    elif kind == "collector":
        found = measure_collectors(case, environment)
    else:
        found = try_report(environment, rest.partition("-")[2])
    context = Context(
        case, environment, Options(), secrets.token_hex(6), results, runner.read_load_average()
    )
    provenance = make_provenance(context, None, started=False)
    result = Probed(probe=probe, names=exists, found=found, error=error, provenance=provenance)
    store.append(result, find_file(results, provenance.machine))
