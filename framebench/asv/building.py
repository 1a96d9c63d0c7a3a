"""Environments that are built while those that are there already are measured: torch's and JAX's take a minute each, but Jittor
compiles its core for several. On cores that nothing is timed on, where there are such."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from framebench.engine import environments
from framebench.records.provenance import ROOT
from framebench.suite.profiles import profile_name

SAY_S = 15.0  # between two words on what is being waited for


class Building:
    """`framebench setup FRAMEWORK` for one framework after the other, from now on."""

    def __init__(self, frameworks: list[str]) -> None:
        self.left = list(frameworks)
        self.last_lines: dict[str, str] = {}  # the last line of each
        self.failed: dict[str, str] = {}
        self.process: subprocess.Popen[str] | None = None
        self.thread = threading.Thread(target=self.build, daemon=True)
        self.thread.start()

    def build(self) -> None:
        while self.left:
            framework = self.left[0]
            self.process = subprocess.Popen(
                [sys.executable, "-m", "framebench.cli", "setup", framework], cwd=ROOT, text=True, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
            _keep_off(self.process.pid)
            assert self.process.stdout
            for line in self.process.stdout:
                self.last_lines[framework] = line.strip()
            if self.process.wait():
                self.failed[framework] = self.last_lines.get(framework, f"exit code {self.process.returncode}")
            self.left.remove(framework)

    def wait(self, framework: str, say: Callable[[str], None]) -> str:
        """Until it is there; why it is not, if it failed."""
        spoken = 0.0
        while framework in self.left:
            if time.monotonic() - spoken > SAY_S:
                spoken = time.monotonic()
                ahead = "it is begun" if framework == self.left[0] else f"{self.left[0]} comes first"
                say(f"waiting for {framework}: {self.last_lines.get(framework, ahead)}")
            time.sleep(0.2)
        return self.failed.get(framework, "")

    def stop(self) -> None:
        """What is not finished is built anew by whoever needs it next."""
        del self.left[1:]
        if self.process:
            self.process.terminate()


def _keep_off(pid: int) -> None:
    """Away from the last core, which times are taken on."""
    with contextlib.suppress(AttributeError, OSError):
        cores = os.sched_getaffinity(0)
        if len(cores) > 1:
            os.sched_setaffinity(pid, cores - {max(cores)})


def missing(frameworks: list[str]) -> list[str]:
    """Those whose pinned environment, or whose kernels for this profile, are not there yet."""
    described = {name: environments.describe(name) for name in frameworks}
    return [name for name, e in described.items() if not environments.built(e) or environments.cold(e, profile_name())]
