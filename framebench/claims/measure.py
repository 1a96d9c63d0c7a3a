"""Run the programs that claims need besides cases: listings, reports, and a look-up of names.

Each result is a line of `results/claims/<machine>.jsonl`. The newest result of a program counts.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from framebench.claims.probed_record import Probed
from framebench.claims.store import NAMES_PROBE, SNIPPET
from framebench.engine import children, environments, runner
from framebench.engine.environments import Environment, import_path
from framebench.engine.recording import Context, make_provenance
from framebench.engine.runner import Options
from framebench.engine.shortages import check_disks
from framebench.engine.supervisor import describe_exit
from framebench.instruments.host import MALLOC_ENV
from framebench.records import store
from framebench.records.provenance import ROOT
from framebench.suite.case import Case

# listings of articles are named `<framework>_<what>.py`, users' reports `<framework>_reports.py`
LISTINGS = ROOT / "examples" / "articles"
REPORTS = ROOT / "examples" / "reports"
ROUNDS = 5  # fresh processes that run a report's program
TIME_LIMIT_S = 600.0
MOST_CHARACTERS = 200  # of an error that is recorded


def find_file(results: Path, machine: str) -> Path:
    """Return the file of a machine's results of programs."""
    return results / "claims" / f"{machine}{store.SUFFIX}"


def find_framework(probe: str) -> str:
    """Return the framework in whose environment a program runs.

    The framework is torch for `snippet-torch_amp` and `report-torch-77284`, and jittor for `names`.
    """
    if probe == NAMES_PROBE:
        return "jittor"
    return re.split("[-_]", probe)[1]


def run_program(
    environment: Environment, program: Path, *arguments: str
) -> tuple[dict[str, float], str]:
    """Run a program on one thread; return the numbers of its last line, and its error or "".

    Raises RuntimeError if the program does not end within TIME_LIMIT_S, after killing it with all
    that it has started. Raises RuntimeError also if it ends with neither numbers nor an error of
    its own, for instance killed by the kernel because memory ran out. Raises OSError if it failed
    because a disk is full.
    """
    env_vars = {
        **os.environ,
        **environment.list_variables(),
        **MALLOC_ENV,
        "PYTHONPATH": import_path(None),
        "OMP_NUM_THREADS": "1",
    }
    env_vars.pop("log_silent", None)  # with it Jittor's own errors do not end the program
    command = [str(environment.python), "-P", str(program), *arguments]
    try:
        ended = children.run_program(command, env_vars, TIME_LIMIT_S)
    except TimeoutError:
        raise RuntimeError(f"{program.name} did not finish within {TIME_LIMIT_S:g} s") from None
    numbers = read_numbers(ended.stdout)
    error = ""
    if ended.code:
        check_disks(ended.stderr, [environment.folder])
    # without a traceback it was Jittor's clean-up at exit that crashed
    if ended.code and "Traceback" in ended.stderr:
        error = find_error(ended.stderr)
    if not numbers and not error:
        raise RuntimeError(f"{program.name} ended by {describe_exit(ended.code)}, without numbers")
    return numbers, error


def read_numbers(printed: str) -> dict[str, float]:
    """Return the numbers by name in the last line that begins with a brace, or none."""
    lines = [line for line in printed.splitlines() if line.startswith("{")]
    try:
        numbers: dict[str, float] = json.loads(lines[-1])
    except (IndexError, ValueError):  # a line may be cut off where the program was killed
        return {}
    return numbers


def find_error(errors: str) -> str:
    """Return the line of a traceback that names the exception.

    Colours, times and folders of this machine are left out.
    """
    lines = re.sub(r"\x1b\[[\d;]*m", "", errors).splitlines()
    exception_lines = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    message = "ended with an error that has no name"
    if exception_lines:
        message = exception_lines[-1]
    # folders, and the times that Jittor's log begins with: `[e 1130 22:34:27.123456 ...]`
    return re.sub(r"/\S+/|\[[a-z] \d{4} [^]]*\] *", "", message).strip()[:MOST_CHARACTERS]


def look_up_names(names: Sequence[str], environment: Environment) -> dict[str, bool]:
    """Return whether each of these attribute paths exists in the framework that is installed."""
    found = environments.ask_module(environment, "framebench.claims.probes.names", *names)
    return {str(name): bool(exists) for name, exists in found.items()}


def try_report(environment: Environment, number: str) -> dict[str, list[float]]:
    """Return the numbers that a user's report prints, by name, from ROUNDS fresh processes.

    Raises RuntimeError if the program ends with an error.
    """
    program = REPORTS / f"{environment.framework}_reports.py"
    values_by_name: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        numbers, error = run_program(environment, program, number)
        if error:
            raise RuntimeError(f"{program.name} {number}: {error}")
        for name, value in numbers.items():
            values_by_name.setdefault(name, []).append(float(value))
    return values_by_name


def run(
    probe: str,
    names: Sequence[str],
    size: str,
    session: str,
    results: Path,
    say: Callable[[str], None],
) -> None:
    """Run the program of one probe and save its result, as one of the session of this id.

    `names` are looked up by the probe NAMES_PROBE. Raises SetupError, RuntimeError, OSError.
    """
    framework = find_framework(probe)
    environment = environments.ensure(framework, say=say)
    found: dict[str, list[float]] = {}
    exists: dict[str, bool] = {}
    error = ""
    if probe == NAMES_PROBE:
        exists = look_up_names(names, environment)
    elif probe.startswith(SNIPPET):
        numbers, error = run_program(environment, LISTINGS / f"{probe.removeprefix(SNIPPET)}.py")
        found = {name: [float(value)] for name, value in numbers.items()}
    else:
        found = try_report(environment, probe.rpartition("-")[2])
    # provenance is made for a case: a program has none, so any case of its framework serves
    case = Case("transformer", framework, "train", "fp32", 4, size)
    context = Context(case, environment, Options(), session, results, runner.read_load_average())
    provenance = make_provenance(context, None, started=False)
    result = Probed(probe=probe, names=exists, found=found, error=error, provenance=provenance)
    store.append(result, find_file(results, provenance.machine))
