"""A copy of the sources in which workers run, one after the other, each from sources with other
edits.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from framebench.engine import environments
from framebench.engine.environments import Environment
from framebench.engine.mathematics import find_representative, read_lines
from framebench.engine.runner import CaseOutcome, Options, make_worker_variables
from framebench.records.provenance import ROOT
from framebench.suite.case import Case
from framebench.suite.protocol import Task, write_turns
from framebench.suite.result import Mathematics
from tests.mutants.judge import Found, judged, outcome_of
from tests.mutants.serve import FORKS

SOURCES = ("models", "framebench")
LIMIT_S = 600
GRACE_S = 30  # after which a process that should have ended itself is ended
# timed steps: so many that a bug which sets in after the verified steps is there before the last
# one
STEPS = 8
SHARED = 16  # cases of one process, where a framework cannot fork: what they leave behind adds up


class Slot:
    """Use as a context: the processes that carry out the workers' orders end with it."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.folder, self.orders = folder / "tree", folder, folder / "orders"
        for name in SOURCES:
            shutil.copytree(
                ROOT / name,
                self.tree / name,
                symlinks=True,
                ignore=shutil.ignore_patterns("__pycache__"),
            )
        self.servers: dict[str, subprocess.Popen[str]] = {}
        self.carried_out: Counter[str] = Counter()  # orders, by framework

    def __enter__(self) -> Slot:
        return self

    def __exit__(self, *error: object) -> None:
        for framework in list(self.servers):
            self.end(framework)

    def verify(self, case: Case, files: Mapping[str, str], steps: int = STEPS) -> Found:
        """Verify the case from the sources with these files' content replaced, as a run does: in
        float64 first, and if that finds nothing in its own precision, with so many timed steps.
        """
        started = time.monotonic()
        for name, content in files.items():
            (self.tree / name).write_text(content)
        try:
            mathematics = self.check_mathematics(case, edited=bool(files))
            if mathematics and not mathematics.passed:
                return judged(case, CaseOutcome(), time.monotonic() - started, mathematics)
            self.orders.write_text(write_turns(steps))
            outcome = self.work(
                case,
                "framebench.worker.worker",
                Task(case.id, "time").as_dict(),
                edited=bool(files),
            )
            return judged(case, outcome, time.monotonic() - started, mathematics)
        finally:
            for name in files:
                shutil.copy(ROOT / name, self.tree / name)

    def check_mathematics(self, case: Case, edited: bool) -> Mathematics | None:
        """Check the case's strategy in float64, at the smallest size as a run does.

        None where there is no reference, or where the process gave no answer: then nothing is
        decided by it.
        """
        smallest = find_representative(case)
        if smallest is None:
            return None
        file = self.folder / "mathematics.jsonl"
        file.unlink(missing_ok=True)
        self.orders.write_text("")
        self.work(
            smallest,
            "framebench.worker.mathematics",
            {"cases": [smallest.id], "file": str(file)},
            edited,
        )
        return read_lines(file).get(smallest.id)

    def work(self, case: Case, module: str, task: dict[str, object], edited: bool) -> CaseOutcome:
        """In a process of its own where variables must precede the import, or where sources are
        edited and nothing can fork.
        """
        environment = environments.describe(case.framework)
        own = bool(case.support.env) or (edited and case.framework not in FORKS)
        out, log = self.folder / "out", self.folder / "log"
        code = (self.alone if own else self.served)(case, environment, module, task, out, log)
        return outcome_of(code, out.read_text(), log.read_text(errors="replace"))

    def alone(
        self,
        case: Case,
        environment: Environment,
        module: str,
        task: dict[str, object],
        out: Path,
        log: Path,
    ) -> int:
        command = [str(environment.python), "-m", module, json.dumps(task)]
        with (
            self.orders.open() as stdin,
            out.open("w") as stdout,
            log.open("w") as stderr,
            suppress(subprocess.TimeoutExpired),
        ):
            variables = self.variables(case, environment) | {"PYTHONPATH": str(self.tree)}
            streams: dict[str, IO[Any] | int] = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
            return subprocess.run(
                command, cwd=self.tree, env=variables, timeout=LIMIT_S, **streams
            ).returncode  # type: ignore[call-overload]
        return -9

    def served(
        self,
        case: Case,
        environment: Environment,
        module: str,
        task: dict[str, object],
        out: Path,
        log: Path,
    ) -> int:
        """By the process that has the framework imported; its exit code, should it end."""
        for file in (out, log):
            file.write_text("")
        process = self.server(case, environment)
        assert process.stdin
        assert process.stdout
        order = {
            "tree": str(self.tree),
            "module": module,
            "task": task,
            "orders": str(self.orders),
            "out": str(out),
            "log": str(log),
        }
        print(json.dumps(order | {"limit_s": LIMIT_S}), file=process.stdin, flush=True)
        # a compiler that Jittor has forked may outlive it, and hold its end of the pipe, and
        # Jittor's lock
        if select.select([process.stdout], [], [], LIMIT_S + GRACE_S)[0] and (
            answer := process.stdout.readline()
        ):
            return int(answer)
        return self.end(case.framework)

    def server(self, case: Case, environment: Environment) -> subprocess.Popen[str]:
        self.carried_out[case.framework] += 1
        if case.framework not in FORKS and self.carried_out[case.framework] % SHARED == 0:
            self.end(case.framework)
        if case.framework not in self.servers:
            command = [
                str(environment.python),
                str(Path(__file__).with_name("serve.py")),
                case.framework,
            ]
            self.servers[case.framework] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=self.variables(case, environment),
                start_new_session=True,
            )
        return self.servers[case.framework]

    def end(self, framework: str) -> int:
        """The exit code of its process, which is gone now, as is all that it has started."""
        if not (process := self.servers.pop(framework, None)):
            return 0
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)  # it may be ending
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.wait()

    def variables(self, case: Case, environment: Environment) -> dict[str, str]:
        """What the harness sets; compiled programs are kept from one run to the next."""
        kept = environment.scratch(environments.cache() / "tests")
        return {
            **os.environ,
            **make_worker_variables(environment, case, "time", Options()),
            **kept,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
