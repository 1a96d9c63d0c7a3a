"""Try a planted bug: verify its case from a copy of the sources that has the bug's edits.

Workers of PyTorch and JAX are forks of a process that has the framework imported
(`tests/framework_server.py`). Jittor cannot fork, since its threads start when it is imported.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from framebench.engine import environments
from framebench.engine.mathematics import find_representative, read_lines
from framebench.engine.recording import CaseVerdict, judge
from framebench.engine.runner import DEFAULT_OPTIONS, CaseOutcome, make_worker_variables
from framebench.records.provenance import ROOT
from framebench.records.record import read_result
from framebench.suite.case import Case
from framebench.suite.protocol import Task
from framebench.suite.result import Mathematics
from tests.framework_server import FORKS
from tests.mutants.bug import Bug
from tests.mutants.outcomes import Row
from tests.processes import run_in_server

COPIED_FOLDERS = ("models", "framebench")
LIMIT_S = 600
# timed steps: a bug that sets in after the verified steps must be there before the last one
STEPS = 8
# files edited twice within a second would be taken for what they were before
UNCACHED = {"PYTHONDONTWRITEBYTECODE": "1"}


@cache
def hash_sources() -> str:
    """Return a digest of everything that workers run from."""
    digest = hashlib.sha256()
    for name in COPIED_FOLDERS:
        for file in sorted((ROOT / name).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    return digest.hexdigest()


def make_key(bug: Bug) -> str:
    """Return a digest of a bug and of the sources, which tells whether a row is up to date."""
    return hashlib.sha256((hash_sources() + repr(bug)).encode()).hexdigest()[:16]


def raise_timeout(number: int, frame: object) -> None:
    """Raise TimeoutError, as a handler of SIGALRM."""
    raise TimeoutError(f"no answer in {LIMIT_S} s")


@cache
def prepare_trial(scratch: Path) -> Trial:
    """Return the copy of the sources that this process has for itself."""
    return Trial(scratch / str(os.getpid()))


def try_bug(bug: Bug, scratch: Path) -> Row:
    """Return what came of a bug. A crash says nothing of it, so it is tried once more."""
    trial = prepare_trial(scratch)
    row = trial.make_row(bug)
    return trial.make_row(bug) if row.status == "crashed" else row


class Trial:
    """A copy of the sources in `folder`, where one bug after another is tried."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = folder / "tree"
        self.orders = folder / "orders"
        ignored = shutil.ignore_patterns("__pycache__")
        for name in COPIED_FOLDERS:
            shutil.copytree(ROOT / name, self.tree / name, symlinks=True, ignore=ignored)

    def make_row(self, bug: Bug) -> Row:
        """Verify the bug's case from the edited sources, and put them back."""
        case = bug.parsed
        started = time.monotonic()
        contents = bug.edit(ROOT)
        for name, content in contents.items():
            (self.tree / name).write_text(content)
        try:
            outcome, mathematics = self.verify(case)
        finally:
            for name in contents:
                shutil.copy(ROOT / name, self.tree / name)
        verdict = judge(outcome, mathematics, "time", case)
        by, margin = find_largest_error(verdict, mathematics)
        effect = outcome.result.effect
        is_unproven = verdict.status == "ok" and not (effect and effect.proven)
        return Row(
            bug=bug.name,
            case=bug.case,
            precision=case.strategy_spec.precision,
            equivalent=bug.equivalent,
            beyond=bug.beyond,
            status="not proven" if is_unproven else verdict.status,
            by=by,
            margin=margin,
            reason=shorten(verdict.reason or ""),
            seconds=round(time.monotonic() - started, 1),
            key=make_key(bug),
        )

    def verify(self, case: Case) -> tuple[CaseOutcome, Mathematics | None]:
        """Verify a case as a run does: in float64 first, then in its own precision.

        The mathematics are None where there is no reference, or where the process gave no answer.
        """
        mathematics = None
        smallest = find_representative(case)
        if smallest is not None:
            file = self.folder / "mathematics.jsonl"
            file.unlink(missing_ok=True)
            task: dict[str, Any] = {"cases": [smallest.id], "file": str(file)}
            self.run_worker(smallest, "framebench.worker.mathematics", task, "")
            mathematics = read_lines(file).get(smallest.id)
        if mathematics and not mathematics.passed:
            return CaseOutcome(), mathematics
        task = Task(case.id, "time").as_dict()
        orders = '{"turn": 1}\n' * STEPS + '{"finish": true}\n'
        outcome = self.run_worker(case, "framebench.worker.worker", task, orders)
        return outcome, mathematics

    def run_worker(self, case: Case, module: str, task: dict[str, Any], orders: str) -> CaseOutcome:
        """Run a worker from the copied sources, with these orders on its standard input."""
        environment = environments.describe(case.framework)
        # read when a framework is imported; compiled programs stay for the next run
        at_import = {
            **UNCACHED,
            **environment.list_scratch_variables(environments.cache() / "tests"),
        }
        variables = {
            **os.environ,
            **make_worker_variables(environment, case, "time", DEFAULT_OPTIONS),
            **at_import,
            "PYTHONPATH": str(self.tree),
        }
        command = ["-m", module, json.dumps(task)]
        self.orders.write_text(orders)
        signal.signal(signal.SIGALRM, raise_timeout)
        signal.alarm(LIMIT_S)
        try:
            # variables of a case must be there before the import
            if case.framework in FORKS and not case.support.env:
                orders_file = str(self.orders)
                done = run_in_server(
                    environment, command, variables, self.tree, at_import, orders_file
                )
            else:
                with self.orders.open() as stdin:
                    done = subprocess.run(
                        [str(environment.python), *command],
                        cwd=self.tree,
                        env=variables,
                        stdin=stdin,
                        capture_output=True,
                        text=True,
                    )
        except TimeoutError as error:
            return CaseOutcome("crashed", str(error))
        finally:
            signal.alarm(0)
        return read_outcome(done)


def read_outcome(done: subprocess.CompletedProcess[str]) -> CaseOutcome:
    """Return what a worker said last: its result, or its error."""
    last: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        with suppress(ValueError):
            last |= json.loads(line)
    if "result" in last:
        return CaseOutcome(result=read_result(last["result"]))
    end_of_log = "\n".join(done.stderr.splitlines()[-5:])
    error = last.get("error", {"type": f"exit code {done.returncode}", "message": end_of_log})
    reason = f"{error['type']} during {last.get('phase')}: {error['message']}"
    return CaseOutcome("unsupported" if error.get("no_device") else "crashed", reason)


def find_largest_error(
    verdict: CaseVerdict, mathematics: Mathematics | None
) -> tuple[str, float | None]:
    """Return what was furthest off or why it is wrong, and the error over its tolerance.

    The latter is None where there is no such number.
    """
    reason = shorten(verdict.reason or "", most=80)
    if mathematics and not mathematics.passed:
        error, tolerance = mathematics.error, mathematics.tolerance
        if error is None or not tolerance or error <= tolerance:
            return reason, None
        return f"{mathematics.worst} in float64", error / tolerance
    verification = verdict.verification
    if verification is None:
        return reason, None
    margins = [verification.margin]
    if verification.again:
        margins.append(verification.again.margin)
    numbers = [margin for margin in margins if margin is not None]
    if not numbers or not all(map(math.isfinite, numbers)):
        return reason, None
    largest = max(numbers)
    # a step without an output of its own has no error
    is_measured = verdict.status != "wrong" or largest > 1
    return reason, largest if is_measured else None


def shorten(text: str, most: int = 500) -> str:
    """Keep beginning and end: a framework's message names its cause last."""
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"
