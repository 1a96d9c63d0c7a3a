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
from framebench.engine.children import CHILDREN, start_thread
from framebench.records.provenance import ROOT
from framebench.suite.case import Case

REPORT_S = 15.0  # between two lines on what is being waited for
GRACE_S = 10.0  # for a build to end by itself once it is terminated


class Building:
    """Run `framebench setup FRAMEWORK` for one framework after the other, in a thread."""

    def __init__(self, frameworks: list[str], cases: Sequence[Case]) -> None:
        """Start the thread that builds what these cases need. Raises OSError."""
        self.cases = cases
        self.remaining = list(frameworks)
        self.last_lines: dict[str, str] = {}  # by framework
        self.failures: dict[str, str] = {}
        self.is_stopped = threading.Event()
        self.process: subprocess.Popen[bytes] | None = None
        self.thread = start_thread(self.build)

    def build(self) -> None:
        """Build the remaining environments one after the other."""
        while self.remaining and not self.is_stopped.is_set():
            framework = self.remaining[0]
            try:
                failure = self.run_setup(framework)
            except OSError as error:
                failure = f"framebench setup could not be started: {error}"
            if failure:
                self.failures[framework] = failure
            self.remaining.remove(framework)

    def run_setup(self, framework: str) -> str:
        """Run `framebench setup` for a framework. Return why it failed, or "".

        It is killed when asv ends in any way: otherwise it would go on writing into the
        environment, and holding its lock. Raises OSError.
        """
        process = CHILDREN.start(
            self.make_command(framework),
            {**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.process = process
        try:
            keep_off_timed_core(process.pid)
            assert process.stdout
            with process.stdout:
                for line in process.stdout:
                    self.last_lines[framework] = line.decode(errors="replace").strip()
            process.wait()
        finally:
            CHILDREN.end(process)
        if process.returncode:
            return self.last_lines.get(framework, f"exit code {process.returncode}")
        return ""

    def make_command(self, framework: str) -> list[str]:
        """Return the command that builds a framework's environment and compiles kernels in it."""
        command = [sys.executable, "-m", "framebench.cli", "setup", framework]
        for case in self.cases:
            if case.framework == framework:
                command += ["--kernels", case.id]
        return command

    def wait(self, framework: str, say: Callable[[str], None]) -> str:
        """Wait until a framework is built. Return why it failed, or ""."""
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
        self.is_stopped.set()
        if self.process:
            self.process.terminate()
        self.thread.join(GRACE_S)
        if self.process:
            self.process.kill()
        self.thread.join(GRACE_S)


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
        if not environments.is_built(environment) or environments.list_uncompiled(
            environment, cases
        ):
            unready.append(framework)
    return unready
