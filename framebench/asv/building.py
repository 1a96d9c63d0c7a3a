"""Build missing environments in the background while those that are there are measured.

PyTorch's and JAX's take a minute each, but Jittor compiles its core for several.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

from framebench.engine import environments
from framebench.records.provenance import ROOT
from framebench.suite.case import Case

REPORT_S = 15.0  # between two lines on what is being waited for


class Building:
    """Run `framebench setup FRAMEWORK` for one framework after the other, in a thread."""

    def __init__(self, frameworks: list[str], cases: Sequence[Case]) -> None:
        """Start the thread that builds what these cases need."""
        self.cases = cases
        self.remaining = list(frameworks)
        self.last_lines: dict[str, str] = {}  # by framework
        self.failures: dict[str, str] = {}
        self.process: subprocess.Popen[str] | None = None
        self.thread = threading.Thread(target=self.build, daemon=True)
        self.thread.start()

    def build(self) -> None:
        """Build the remaining environments one after the other."""
        while self.remaining:
            framework = self.remaining[0]
            self.process = subprocess.Popen(
                self.make_command(framework),
                cwd=ROOT,
                text=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            keep_off_timed_core(self.process.pid)
            assert self.process.stdout
            for line in self.process.stdout:
                self.last_lines[framework] = line.strip()
            if self.process.wait():
                code = f"exit code {self.process.returncode}"
                self.failures[framework] = self.last_lines.get(framework, code)
            self.remaining.remove(framework)

    def make_command(self, framework: str) -> list[str]:
        """Return the command that builds a framework's environment and compiles kernels in it."""
        command = [sys.executable, "-m", "framebench.cli", "setup", framework]
        for case in self.cases:
            if case.framework == framework:
                command += ["--kernels", case.id]
        return command

    def wait(self, framework: str, say: Callable[[str], None]) -> str:
        """Wait until a framework is built. Return why it failed, or nothing."""
        reported = 0.0
        while framework in self.remaining:
            if time.monotonic() - reported > REPORT_S:
                reported = time.monotonic()
                is_first = framework == self.remaining[0]
                state = "it is begun"
                if not is_first:
                    state = f"{self.remaining[0]} comes first"
                say(f"waiting for {framework}: {self.last_lines.get(framework, state)}")
            time.sleep(0.2)
        return self.failures.get(framework, "")

    def stop(self) -> None:
        """End the build. Whoever needs an unfinished environment next builds it again."""
        del self.remaining[1:]
        if self.process:
            self.process.terminate()


def keep_off_timed_core(pid: int) -> None:
    """Keep a process off the last core, on which times are taken."""
    with contextlib.suppress(AttributeError, OSError):
        cores = os.sched_getaffinity(0)
        if len(cores) > 1:
            os.sched_setaffinity(pid, cores - {max(cores)})


def list_unbuilt(frameworks: list[str], cases: Sequence[Case]) -> list[str]:
    """Return the frameworks whose environment, or kernels of these cases, are not built."""
    unready = []
    for framework in frameworks:
        environment = environments.describe(framework)
        if not environments.is_built(environment) or environments.list_cold(environment, cases):
            unready.append(framework)
    return unready
