"""A copy of the sources in which workers run, one after the other, each from sources with other edits."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from framebench.measure import environments
from framebench.measure.environments import Environment
from framebench.measure.runner import Options, join, worker_variables
from framebench.measure.supervisor import Outcome
from framebench.records.provenance import ROOT
from framebench.suite.case import Case
from framebench.suite.protocol import Task

SOURCES = ("models", "framebench")
LIMIT_S = 600
STEPS = 8  # timed steps: so many that a bug which sets in after the verified steps is there before the last one


@dataclass(frozen=True)
class Found:
    """What came of one worker. `by` is the quantity with the largest error, `margin` that error in units of its tolerance:
    above 1 it is wrong. None: the error is no number, or nothing was verified."""

    status: str  # as of a record, and "not proven" for an `ok` whose strategy was not seen at work
    by: str
    margin: float | None
    reason: str
    seconds: float


class Slot:
    """Use as a context: the processes that fork the workers end with it."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.folder = folder / "tree", folder
        for name in SOURCES:
            shutil.copytree(ROOT / name, self.tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        self.forks: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Slot:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.forks.values():
            process.kill()
            process.wait()

    def verify(self, case: Case, files: Mapping[str, str]) -> Found:
        """Run the case's timing worker from the sources with these files' content replaced."""
        started = time.monotonic()
        for name, content in files.items():
            (self.tree / name).write_text(content)
        try:
            outcome = self.work(case)
        finally:
            for name in files:
                shutil.copy(ROOT / name, self.tree / name)
        return judged(outcome, time.monotonic() - started)

    def work(self, case: Case) -> Outcome:
        task = Task(case.id, "time", samples=STEPS, min_samples=STEPS, budget_s=0).as_dict()
        environment = environments.describe(case.framework)
        own = case.framework == "jittor" or case.support.env  # no fork after Jittor's import; variables that precede an import
        out, log = self.folder / "out", self.folder / "log"
        code = (self.alone if own else self.forked)(case, environment, task, out, log)
        return outcome_of(code, out.read_text(), log.read_text(errors="replace"))

    def alone(self, case: Case, environment: Environment, task: dict[str, object], out: Path, log: Path) -> int:
        command = [str(environment.python), "-m", "framebench.worker.worker", json.dumps(task)]
        with out.open("w") as stdout, log.open("w") as stderr, suppress(subprocess.TimeoutExpired):
            variables = self.variables(case, environment) | {"PYTHONPATH": str(self.tree)}
            streams: dict[str, IO[Any] | int] = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": stderr}
            return subprocess.run(command, cwd=self.tree, env=variables, timeout=LIMIT_S, **streams).returncode  # type: ignore[call-overload]
        return -9

    def forked(self, case: Case, environment: Environment, task: dict[str, object], out: Path, log: Path) -> int:
        if case.framework not in self.forks:
            command = [str(environment.python), str(Path(__file__).with_name("fork.py")), case.framework]
            self.forks[case.framework] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.variables(case, environment)
            )
        process = self.forks[case.framework]
        assert process.stdin
        assert process.stdout
        order = {"tree": str(self.tree), "task": task, "out": str(out), "log": str(log), "limit_s": LIMIT_S}
        print(json.dumps(order), file=process.stdin, flush=True)
        return int(process.stdout.readline())

    def variables(self, case: Case, environment: Environment) -> dict[str, str]:
        """What the harness sets; compiled programs are kept from one run to the next."""
        kept = environment.scratch(environments.cache() / "tests")
        return {**os.environ, **worker_variables(environment, case, "time", Options()), **kept, "PYTHONDONTWRITEBYTECODE": "1"}


def outcome_of(code: int, out: str, log: str) -> Outcome:
    final: dict[str, Any] = {}
    for line in out.splitlines():
        with suppress(ValueError):
            final |= json.loads(line)
    if "result" in final:
        return Outcome(result=final["result"])
    said = final.get("error", {"type": f"exit code {code}", "message": "\n".join(log.splitlines()[-5:])})
    status = "unsupported" if said.get("no_device") else "crashed"
    return Outcome(status, f"{said['type']} during {final.get('phase')}: {said['message']}", log=log)


def judged(outcome: Outcome, seconds: float) -> Found:
    """Status by the harness's own rule."""
    fields, status, reason = join({"time": outcome})
    unproven = status == "ok" and not fields["effect"].proven
    by, margin = worst(outcome.result.get("verification", {}))
    return Found("not proven" if unproven else status, by, margin, (reason or "")[:500], round(seconds, 1))


def worst(verification: dict[str, Any]) -> tuple[str, float | None]:
    """The quantity that is furthest off, and how many tolerances."""
    error, tolerance = verification.get("relative_error", {}), verification.get("tolerance", {})
    off = {name: value / tolerance[name] if value is not None else math.nan for name, value in error.items()}
    by = max(off, key=lambda name: math.inf if math.isnan(off[name]) else off[name], default="")
    return by, off[by] if by and math.isfinite(off[by]) else None
