"""Run asv in a session, and each benchmark in its framework's environment alone."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from asv import util
from asv.benchmarks import Benchmarks
from asv.commands import run as asv_run
from asv.console import log
from asv.runner import skip_benchmarks

from framebench.asv import cases
from framebench.asv.block import SELECTED
from framebench.asv.building import Building, list_unbuilt
from framebench.asv.outcome import RunOutcome
from framebench.asv.progress import Progress, listen
from framebench.engine import environments
from framebench.engine.interrupts import interrupt_on_ending_signals
from framebench.engine.runner import RESULTS
from framebench.engine.session import Busy, Session, lock_results
from framebench.engine.shortages import (
    NO_ROOM_BYTES,
    describe_error,
    describe_shortage,
    list_full_disks,
)
from framebench.engine.terminal import escape_control
from framebench.records import provenance
from framebench.records.pins import find_pinned_version
from framebench.suite.profiles import find_profile, read_profile_name
from framebench.suite.sequences import drop_duplicates

OWN_ENVIRONMENTS = (
    "the suite measures in environments of its own: leave out --python and -E existing, or name "
    "one of them, as in -E framebench-py3.11-torch2.13.0"
)


@dataclass
class AsvRun:
    """The state of the one `asv run` of this process."""

    selector: str = ""  # as typed on the command line
    # asv puts its benchmarks and environments in here before it starts the first one
    selection: dict[str, Any] = field(default_factory=dict)
    has_started: bool = False  # a selected benchmark was about to run
    session: Session | None = None
    building: Building | None = None
    outcome: RunOutcome = field(default_factory=lambda: RunOutcome(RESULTS, ""))
    # asv forks benchmark processes from them
    servers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def open(self, benchmarks: Benchmarks, machine: str) -> None:
        """Open the session, or resume that of an equal run, and start to build environments.

        Benchmark processes learn of the session from environment variables.
        """
        # a benchmark process does not know these facts, which are in the provenance of its records
        os.environ["FRAMEBENCH_MACHINE"] = machine
        os.environ["FRAMEBENCH_COMMAND"] = provenance.describe_command()
        selected = cases.list_run_cases(self.selection)
        os.environ[SELECTED] = " ".join(case.id for case in selected)
        self.session = Session.open(RESULTS, provenance.name_code(), self.selector)
        os.environ["FRAMEBENCH_SESSION"] = self.session.id
        self.outcome = RunOutcome(RESULTS, self.session.id)
        frameworks = []
        for environment in self.selection["environments"]:
            is_pinned = environment.version == find_pinned_version(environment.framework)
            if is_pinned and cases.select_framework(benchmarks, environment.framework):
                frameworks.append(environment.framework)
        unbuilt = list_unbuilt(drop_duplicates(frameworks), selected)
        self.building = Building(unbuilt, selected)


current = AsvRun()


def wrap_run(run: Callable[..., int | None]) -> Callable[..., int | None]:
    """Wrap `asv run`: show live progress, and keep a session that an interrupted run resumes.

    Raises UserError, which ends asv with status 1, if something could not run at all. Status 2 is
    asv's own, for benchmarks that failed: here cases that failed verification or broke, whose
    records say why.
    """

    @wraps(run)
    def run_in_session(cls: type[asv_run.Run], *args: Any, **kwargs: Any) -> int | None:
        """Stand in for asv's `Run.run`: check its options, and measure in one session.

        Returns asv's exit code. Raises UserError for an option that cannot be meant, and in the end
        if a case failed.
        """
        check_commits(kwargs.pop("range_spec", None))
        check_stored_commit(kwargs.get("set_commit_hash"))
        check_machine(kwargs.get("machine"))
        check_environments(kwargs.get("env_spec"))
        check_room()
        if kwargs.get("parallel", 1) != 1:
            log.warning(
                "--parallel is ignored: measurements at the same time would disturb each other"
            )
            kwargs["parallel"] = 1
        # a run with the same profile and options resumes this session
        settings = [read_profile_name(), kwargs.get("bench") or "", kwargs.get("env_spec") or ""]
        current.selector = " ".join(["asv run", *map(str, settings)]).strip()
        progress = Progress(lambda: len(cases.list_run_cases(current.selection)), log.info, log.add)
        with stop_children_at_end(), hold_results(), listen(progress):
            try:
                # asv writes into `_returns` which benchmarks and environments it selected
                result = run(cls, *args, **{**kwargs, "_returns": current.selection})
            finally:
                if current.building:
                    current.building.stop()
        step_to_the_end()
        if current.has_started:
            log.info("All selected benchmarks were run or skipped")
        elif result is None:
            log.info("Nothing to measure: this commit has results of all that is selected")
        # An incomplete session stays open: once the failure is repaired, it resumes, and does not
        # repeat the cases that ran.
        if current.session and current.outcome.is_complete:
            current.session.close(RESULTS)
        problem = current.outcome.explain_problem()
        if problem:
            raise util.UserError(escape_control(problem))
        return result

    return run_in_session


def step_to_the_end() -> None:
    """Count all of asv's steps as done, so that its last line says 100 %.

    asv counts a step for each benchmark in each environment, also for those that are not run. More
    steps than there are do no harm: asv stops counting at the last one.
    """
    benchmark_count = len(current.selection.get("benchmarks", ()))
    environment_count = len(current.selection.get("environments", ()))
    for _ in range(benchmark_count * environment_count):
        log.step()


def wrap_benchmarks(run_benchmarks: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap asv's function that runs benchmarks: each runs in its framework's environment.

    Benchmarks of a user's file run in every environment, by the interpreter that runs asv.
    """

    @wraps(run_benchmarks)
    def run_own(benchmarks: Benchmarks, env: Any, results: Any, **kwargs: Any) -> Any:
        """Run an environment's benchmarks: those of its framework, and all of a user's files.

        Returns asv's results. Raises UserError for an environment that is not the suite's.
        """
        if not hasattr(env, "framework"):
            raise util.UserError(OWN_ENVIRONMENTS)
        check_selection(current.selection["benchmarks"])
        suite_benchmarks = cases.select_framework(benchmarks, env.framework)
        user_benchmarks = cases.select_of_users(benchmarks)
        to_run = cases.select(benchmarks, [*suite_benchmarks, *user_benchmarks])
        # asv's progress counts every benchmark, also those that are not run in this environment
        for _ in range(len(benchmarks) - len(to_run)):
            log.step()
        if not to_run:
            return results
        current.has_started = True
        if suite_benchmarks:
            if current.session is None:
                current.open(benchmarks, results.params["machine"])
            env.prepare(current.building)
        if env.failure:
            log.error(f"{env.name} cannot be used: {escape_control(env.failure)}")
            current.outcome.failed_setups[env.framework] = env.failure
            skip_benchmarks(suite_benchmarks, env, results=results)
            suite_benchmarks = {}
            to_run = cases.select(benchmarks, user_benchmarks)
        if to_run:
            run_benchmarks(to_run, env, results=results, **kwargs)
        if suite_benchmarks:
            environment = environments.describe(env.framework, env.version)
            planned_cases = cases.list_measurable(suite_benchmarks, env.framework)
            current.outcome.add(planned_cases, environment, results.stderr)
        return results

    return run_own


def check_selection(benchmarks: Benchmarks) -> None:
    """Raise UserError if nothing that asv selected is a case of the profile."""
    if cases.has_any(benchmarks):
        return
    other_profiles = cases.find_profiles(benchmarks)
    hint = "framebench list has its cases, and docs/asv.md how asv names them"
    if other_profiles:
        settings = " or ".join(f"FRAMEBENCH_PROFILE={name}" for name in other_profiles)
        hint = f"{settings} has what is selected"
    raise util.UserError(
        f"--bench selects no case of the profile {read_profile_name()}, of size "
        f"{find_profile().size}; {hint}"
    )


def check_environments(env_spec: list[str] | None) -> None:
    """Raise UserError if a Python is named in place of an environment of the suite's."""
    for specifier in env_spec or ():
        kind, _, python = specifier.partition(":")
        if kind == "existing" or python == "same":
            raise util.UserError(OWN_ENVIRONMENTS)


def check_commits(requested: str | list[str] | None) -> None:
    """Raise UserError if other commits are asked for than HEAD.

    `requested` is a range, a word of asv's such as NEW, or the commits of `asv continuous`.
    """
    if requested is None or requested == "HEAD":
        return
    if isinstance(requested, str):
        commits = (
            provenance.query_git("rev-list", "--first-parent", requested, "--") or ""
        ).split()
        name = requested
    else:
        commits = requested
        name = " and ".join(commit[:8] for commit in requested)
    if commits != [provenance.find_commit()]:
        raise refuse_commit(name)


def check_stored_commit(name: str | None) -> None:
    """Raise UserError if results would be stored under another commit than HEAD."""
    if name is not None:
        commit = provenance.query_git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        if commit is None or commit != provenance.find_commit():
            raise refuse_commit(name)


def refuse_commit(commits: str) -> util.UserError:
    """Return the error for other commits than HEAD."""
    head = (provenance.find_commit() or "")[:8]
    return util.UserError(
        f"asv measures the working tree here, as HEAD ({head}), and cannot measure {commits}:"
        " check each commit out, type asv run there, then asv compare"
    )


def check_machine(name: str | None) -> None:
    """Raise UserError if the results' folder would not be a valid machine name."""
    try:
        if name:
            provenance.check_machine(name)
        else:
            provenance.read_machine_name()
    except provenance.BadMachine as error:
        raise util.UserError(str(error)) from error


def check_room() -> None:
    """Raise UserError if there is no room for the files through which asv discovers benchmarks.

    asv would retry, and end with a traceback for each time.
    """
    full = list_full_disks([], NO_ROOM_BYTES)
    if full:
        raise util.UserError(
            f"{' and '.join(full)}; make room there, or let TMPDIR name another folder for "
            "temporary files"
        )


@contextmanager
def stop_children_at_end() -> Iterator[None]:
    """Stop asv's children if asv is terminated or interrupted in this context.

    asv itself would leave them running. Raises asv's UserError then, and also if the system has run
    out of a resource, such as space on a disk.
    """
    try:
        with interrupt_on_ending_signals():
            yield
    except KeyboardInterrupt:
        kill_servers()
        raise util.UserError("Interrupted.") from None
    except OSError as error:
        kill_servers()
        raise util.UserError(escape_control(describe_error(error))) from error
    except (MemoryError, RuntimeError) as error:
        shortage = describe_shortage(error)
        if not shortage:
            raise
        kill_servers()
        raise util.UserError(shortage) from error


def kill_servers() -> None:
    """Kill the servers that asv leaves behind if it is interrupted while one starts."""
    for server in current.servers:
        if server.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)  # asv gives it a process group of its own


@contextmanager
def hold_results() -> Iterator[None]:
    """Lock the results folder in this context. Raises UserError, which asv prints in a sentence."""
    try:
        with lock_results(RESULTS):
            yield
    except Busy as busy:
        raise util.UserError(str(busy)) from busy
