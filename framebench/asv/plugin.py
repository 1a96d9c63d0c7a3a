"""asv's way into the harness: an environment per framework, a resumable session per `asv run`, live progress.

Benchmark processes run in the interpreter that runs asv. The framework's own interpreter is used only by the workers
that `framebench.engine.runner` starts, so these environments hold nothing, and no project is built or installed into them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, ClassVar

from asv import environment, util
from asv import results as asv_results
from asv.commands import compare as asv_compare
from asv.commands import find as asv_find
from asv.commands import run as asv_run
from asv.console import log
from asv.runner import skip_benchmarks

from framebench.asv import cases, comparison, display
from framebench.asv.block import SELECTED
from framebench.asv.building import Building, missing
from framebench.asv.outcome import Outcome
from framebench.asv.progress import Progress, heard
from framebench.engine import environments
from framebench.engine.runner import RESULTS
from framebench.engine.session import Busy, Session, alone
from framebench.records import provenance
from framebench.records.pins import pinned_version
from framebench.records.provenance import ROOT
from framebench.suite.case import UnknownCase
from framebench.suite.profiles import described, profile, profile_name
from framebench.suite.strategy import FRAMEWORKS


class _Run:
    """The one `asv run` of this process."""

    selection: ClassVar[dict[str, Any]] = {}  # asv puts in here what it will do, before it starts
    selector = ""  # what was asked for on the command line
    session: Session | None = None
    building: Building | None = None
    outcome = Outcome(RESULTS, "")
    servers: ClassVar[list[subprocess.Popen[bytes]]] = []  # that asv forks benchmark processes from

    @classmethod
    def open(cls) -> None:
        """Open the session, or go on with the one that an equal run left; the benchmark processes inherit its id."""
        cls.session = Session.open(RESULTS, provenance.code(), cls.selector)
        os.environ["FRAMEBENCH_SESSION"] = cls.session.id


class FrameworkEnvironment(environment.Environment):
    """One pinned framework, for instance `{"torch": "2.13.0"}`, which asv records as the requirement of the results."""

    tool_name = "framebench"

    def __init__(self, conf: Any, python: str, requirements: dict[str, str], tagged_env_vars: dict[Any, str]) -> None:
        if len(requirements) != 1 or not set(requirements) <= set(FRAMEWORKS):
            raise environment.EnvironmentUnavailable(
                f"an environment needs exactly one framework of {', '.join(FRAMEWORKS)}, not {requirements or 'none'};"
                " choose one with -E and its full name, as in -E framebench-py3.11-torch2.13.0"
            )
        ((self.framework, self.version),) = requirements.items()
        self._requirements = requirements  # the base class asks for the environment's name before it sets this
        self.failure = ""
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        super().__init__(conf, python, requirements, tagged_env_vars)

    def check_presence(self) -> bool:
        """Never: asv then calls `_setup`, which has nothing to do."""
        return False

    def _setup(self) -> None:
        """asv makes every environment of the matrix before it looks for benchmarks; here one is made when its first benchmark
        is due (`prepare`)."""

    def prepare(self, building: Building | None) -> None:
        """A framework that cannot be installed fails its own benchmarks, not the run. A pinned one that is not there yet is
        built while others are measured (`building.py`)."""
        if building and self.version == pinned_version(self.framework):
            self.failure = self.failure or building.wait(self.framework, log.info)
        if self.failure:
            return
        try:
            environments.ensure(self.framework, self.version, say=log.info)
        except (environments.SetupError, OSError) as failure:
            self.failure = str(failure)

    @property
    def installed_commit_hash(self) -> str:
        """What runs is the working tree, and HEAD is the commit it is recorded under."""
        return provenance.commit() or ""

    def can_install_project(self) -> bool:
        """What is measured is the working tree, which cannot be another commit."""
        return False

    def install_project(self, conf: Any, repo: Any, commit_hash: str) -> None:
        """The working tree needs no installation. Raises UserError for another commit, as `asv find` would ask for."""
        _only_head([commit_hash])

    def run(self, args: list[str], **kwargs: Any) -> Any:
        """Start one of asv's own processes: discovery, or the server that every benchmark is forked from."""
        env = {**(kwargs.pop("env", None) or os.environ), "FRAMEBENCH_ENV": f"{self.framework}=={self.version}"}
        # asv removes PYTHONPATH, and does not put the repository root on the path
        env["ASV_PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), env.get("ASV_PYTHONPATH")]))
        started = util.check_output([sys.executable, *args], env=env, **kwargs)
        if isinstance(started, subprocess.Popen):
            _Run.servers.append(started)
        return started


def _only_head(asked: str | list[str] | None) -> None:
    """Raises UserError where other commits are asked for than HEAD, under which the working tree is recorded.

    `asked` is a range, a word of asv's such as NEW, or the commits of `asv continuous`.
    """
    head = provenance.commit() or ""
    if asked is None or asked == "HEAD":
        return
    commits = asked if isinstance(asked, list) else (provenance.git("rev-list", "--first-parent", asked, "--") or "").split()
    if commits != [head]:
        raise _cannot_measure(asked if isinstance(asked, str) else " and ".join(commit[:8] for commit in asked))


def _cannot_measure(commits: str) -> util.UserError:
    head = (provenance.commit() or "")[:8]
    return util.UserError(
        f"asv measures the working tree here, as HEAD ({head}), and cannot measure {commits}:"
        " check each commit out, type asv run there, then asv compare"
    )


def _never_find(cls: type[asv_find.Find], conf: Any, range_spec: str, *args: Any, **kwargs: Any) -> None:
    """Raises UserError: asv would take a commit that cannot be installed for a slow one, and name it."""
    raise _cannot_measure(range_spec)


def _named(machine: str | None) -> None:
    """Raises UserError where results would be stored under what is no machine's name."""
    try:
        provenance.as_machine(machine) if machine else provenance.machine_name()
    except provenance.BadMachine as bad:
        raise util.UserError(str(bad)) from bad


def _own_benchmarks(run_benchmarks: Callable[..., Any]) -> Callable[..., Any]:
    """Run only what is a case of the environment's framework: asv itself shows pages of n/a for the others.

    The first environment to get this far opens the session.
    """

    @wraps(run_benchmarks)
    def run_own(benchmarks: Any, env: environment.Environment, results: Any, **kwargs: Any) -> Any:
        if not isinstance(env, FrameworkEnvironment):
            raise util.UserError(f"the suite runs in its own environments only; leave out -E {env.tool_name}")
        if _Run.session is None:
            passed_over = _pass_over(cases.foreign(benchmarks))
            if not any(cases.own(benchmarks, framework) for framework in FRAMEWORKS):
                selects = f"--bench selects no case of the profile {profile_name()}, of size {described().size}"
                more = f" ({passed_over})" if passed_over else ""
                raise util.UserError(f"{selects}; framebench list has them, docs/asv.md how asv names them{more}")
            if passed_over:
                log.warning(passed_over)
            # what a record tells about its origin is known here, not in the benchmark processes
            os.environ |= {"FRAMEBENCH_MACHINE": results.params["machine"], "FRAMEBENCH_COMMAND": provenance.command()}
            os.environ[SELECTED] = " ".join(case.id for case in cases.measured(_Run.selection))
            _Run.open()
            _Run.outcome = Outcome(RESULTS, os.environ["FRAMEBENCH_SESSION"])
            pinned = [e.framework for e in _Run.selection["environments"] if e.version == pinned_version(e.framework)]
            _Run.building = Building(missing([f for f in dict.fromkeys(pinned) if cases.own(benchmarks, f)]))
        framework_benchmarks = cases.own(benchmarks, env.framework)
        for _ in range(len(benchmarks) - len(framework_benchmarks)):
            log.step()
        if framework_benchmarks:
            env.prepare(_Run.building)
        if env.failure:
            log.error(f"{env.name} cannot be used: {env.failure}")
            _Run.outcome.failed_setups[env.framework] = env.failure
            return skip_benchmarks(framework_benchmarks, env, results=results)
        if not framework_benchmarks:
            return results
        measured = run_benchmarks(framework_benchmarks, env, results=results, **kwargs)
        environment = environments.describe(env.framework, env.version)
        _Run.outcome.add(cases.planned(framework_benchmarks, env.framework), environment, results.stderr)
        return measured

    return run_own


def _pass_over(names: list[str]) -> str:
    """Return a sentence on benchmarks that are not of the suite, or nothing where there are none."""
    if not names:
        return ""
    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"passed over: {names[0]}{others}: only the suite's own benchmarks run here, docs/asv.md says why"


def _end_servers() -> None:
    """Kill what asv leaves behind if it is interrupted while a server starts: it would wait for its output for ever."""
    for server in _Run.servers:
        if server.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)  # asv gives it a process group of its own


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let asv stop its children when it is terminated, as it does at Ctrl-C; by default it would leave them running."""
    stops = [s for s in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(s) is signal.SIG_DFL]
    for stop in stops:
        signal.signal(stop, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        _end_servers()
        raise util.UserError("Interrupted.") from None
    finally:
        for stop in stops:
            signal.signal(stop, signal.SIG_DFL)


@contextmanager
def _alone() -> Iterator[None]:
    """Hold the results folder; asv shows a UserError in a sentence."""
    try:
        with alone(RESULTS):
            yield
    except Busy as busy:
        raise util.UserError(str(busy)) from busy


def _resumable(run: Callable[..., int | None]) -> Callable[..., int | None]:
    """`asv run` with live progress, and with a session that is closed only by a run that comes to its end.

    Raises UserError, which ends asv with status 1, where something could not run at all. Status 2 is asv's own, for benchmarks
    that failed: here cases that came out wrong or broke, whose records say why.
    """

    @wraps(run)
    def in_session(cls: type[asv_run.Run], *args: Any, **kwargs: Any) -> int | None:
        _only_head(kwargs.pop("range_spec", None))
        _named(kwargs.get("machine"))
        _Run.selector = f"asv run {profile_name()} {kwargs.get('bench') or ''} {kwargs.get('env_spec') or ''}".strip()
        progress = Progress(lambda: len(cases.measured(_Run.selection)), log.info, log.add)
        with _stoppable(), _alone(), heard(progress):
            try:
                result = run(cls, *args, **{**kwargs, "_returns": _Run.selection})
            finally:
                if _Run.building:
                    _Run.building.stop()
        # what could not run goes on in the same session when it is repaired; what ran is not tried again in it
        if _Run.session and _Run.outcome.is_complete:
            _Run.session.close(RESULTS)
        if problem := _Run.outcome.problem():
            raise util.UserError(problem)
        return result

    return in_session


def setup() -> None:
    """asv calls this once it has loaded the plug-in, before the command runs. Raises UserError, which asv shows in a line."""
    try:
        profile()
    except UnknownCase as unknown:
        raise util.UserError(f"FRAMEBENCH_PROFILE: {unknown}") from unknown
    asv_run.Run.run = classmethod(_resumable(asv_run.Run.run.__func__))
    asv_find.Find.run = classmethod(_never_find)
    asv_run.run_benchmarks = _own_benchmarks(asv_run.run_benchmarks)
    asv_results._format_benchmark_result = display.with_title(asv_results._format_benchmark_result)
    util.human_value = asv_compare.human_value = display.with_mib(util.human_value)
    asv_compare.unroll_result = comparison.with_direction(asv_compare.unroll_result)
    asv_compare._is_result_better = comparison.either_way(asv_compare._is_result_better)
