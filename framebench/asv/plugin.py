"""Plug into asv: an environment for each release of a framework.

Benchmark processes run in the interpreter that runs asv. Only the workers that
`framebench.engine.runner` starts use the framework's own interpreter. So these environments hold
nothing, and no project is built or installed into them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from asv import environment, util
from asv.console import log

from framebench.engine.shortages import check_threads, describe_shortage

PROCESSES = 4  # of asv itself, its forkserver, a benchmark and its worker
try:
    check_threads(PROCESSES)
except RuntimeError as shortage:
    raise util.UserError(describe_shortage(shortage)) from shortage

# these import NumPy, whose OpenBLAS interrupts asv where it cannot start its threads
from framebench.asv import patches, run  # noqa: E402
from framebench.asv.building import Building  # noqa: E402
from framebench.engine import environments  # noqa: E402
from framebench.records import provenance  # noqa: E402
from framebench.records.pins import find_pinned_version  # noqa: E402
from framebench.records.provenance import ROOT  # noqa: E402
from framebench.strategies.strategy import FRAMEWORKS  # noqa: E402
from framebench.suite.case import UnknownCase  # noqa: E402
from framebench.suite.profiles import list_profile_cases  # noqa: E402

CHILD = Path(__file__).with_name("child.py")


class FrameworkEnvironment(environment.Environment):
    """One release of a framework, such as `{"torch": "2.13.0"}`: the requirement of its results."""

    tool_name = "framebench"

    def __init__(
        self, conf: Any, python: str, requirements: dict[str, str], tagged_env_vars: dict[Any, str]
    ) -> None:
        """Take the release from the requirements. Raises EnvironmentUnavailable."""
        if len(requirements) != 1 or not set(requirements) <= set(FRAMEWORKS):
            raise environment.EnvironmentUnavailable(
                f"an environment needs exactly one framework of {', '.join(FRAMEWORKS)}, not "
                f"{requirements or 'none'};"
                " choose one with -E and its full name, as in -E framebench-py3.11-torch2.13.0"
            )
        ((self.framework, self.version),) = requirements.items()
        # the base class asks for the environment's name before it sets this
        self._requirements = requirements
        self.failure = ""
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        super().__init__(conf, python, requirements, tagged_env_vars)

    def check_presence(self) -> bool:
        """Return False: asv then calls `_setup`, which has nothing to do."""
        return False

    def _setup(self) -> None:
        """Do nothing: asv sets up the whole matrix, and `prepare` only what is needed."""

    def prepare(self, building: Building | None) -> None:
        """Install the framework when its first benchmark is due; `failure` says why it failed.

        A pinned release that is missing is built in the background while others are measured.
        """
        if building and self.version == find_pinned_version(self.framework):
            self.failure = self.failure or building.wait(self.framework, log.info)
        if self.failure:
            return
        try:
            environments.ensure(self.framework, self.version, say=log.info)
        except (environments.SetupError, OSError) as error:
            self.failure = str(error)

    @property
    def installed_commit_hash(self) -> str:
        """Return HEAD: benchmarks run the working tree, and are recorded under its commit."""
        return provenance.find_commit() or ""

    def can_install_project(self) -> bool:
        """Return False: benchmarks run the working tree, so no other commit can be measured."""
        return False

    def install_project(self, conf: Any, repo: Any, commit_hash: str) -> None:
        """Do nothing for HEAD, and end asv for another commit, as `asv find` asks for."""
        if commit_hash != provenance.find_commit():
            # asv catches a UserError when it looks for benchmarks, and goes on with the next commit
            sys.exit(str(run.refuse_commit(commit_hash[:8])))

    def run(self, args: list[str], **kwargs: Any) -> Any:
        """Start one of asv's processes: discovery, or the server that forks the benchmarks."""
        env = {**(kwargs.pop("env", None) or os.environ)}
        env["FRAMEBENCH_ENV"] = f"{self.framework}=={self.version}"
        # asv removes PYTHONPATH, and does not put the repository root on the path
        env["ASV_PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(ROOT), env.get("ASV_PYTHONPATH")])
        )
        started = util.check_output([sys.executable, str(CHILD), *args], env=env, **kwargs)
        if isinstance(started, subprocess.Popen):
            run.current.servers.append(started)
        return started


def setup() -> None:
    """Prepare asv; it calls this function once the plug-in is loaded. Raises UserError."""
    try:
        list_profile_cases()
    except UnknownCase as unknown:
        raise util.UserError(f"FRAMEBENCH_PROFILE: {unknown}") from unknown
    patches.apply(run.wrap_run, run.wrap_benchmarks)
