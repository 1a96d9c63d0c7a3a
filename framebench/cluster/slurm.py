"""Run a run's units as jobs of Slurm, through submitit.

Each job has a node to itself, so that nothing disturbs a block. The results folder alone tells
whether a unit is done (`units.list_finished`). So it does not matter how a job ends: by itself, by
`scancel`, with its node, or while the controller is away; what is not done when its job is gone is
submitted again.
"""

from __future__ import annotations

import json
import math
import os
import platform
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import submitit
from pydantic import TypeAdapter, ValidationError
from submitit.core.utils import FailedJobError, FailedSubmissionError
from submitit.helpers import DelayedSubmission
from submitit.slurm.slurm import SlurmExecutor

from framebench.cluster.collect import NODES
from framebench.cluster.units import list_finished, select_unfinished
from framebench.engine import environments, recording
from framebench.engine.environments import SetupError
from framebench.engine.request import RunRequest
from framebench.instruments.parent_death import die_with_parent
from framebench.records import provenance, store
from framebench.records.lines import open_to_append
from framebench.suite.counting import format_count
from framebench.suite.sequences import cut_into_batches

Say = Callable[[str], None]
MOST_JOBS = 1000  # that Slurm takes at once, unless it is set up for more
ATTEMPTS = 3  # of a unit whose job ended before it was done
POLL_S = 5.0  # between two looks at the queue
FIRST_WAIT_S = 60.0  # for a controller that has not answered yet
REMIND_S = 600.0  # between two lines about a controller that does not answer
# what a command of Slurm says that finds no slurm.conf: waiting does not help then
NO_CONFIGURATION = "configuration source"
TIMEOUT_S = 60  # of one of Slurm's commands
RUNNING = "None"  # the reason to wait of a job that does not
USABLE = ("idle", "mix", "alloc", "comp")  # states of a node, as sinfo shortens them
MOST_BYTES = 2**26  # of the file of jobs: a unit has some 60
FOLDER = ".slurm"  # of the results folder: what submitit writes, and the jobs' output
# errors that submitit raises if sbatch takes no job
REFUSED = (FailedJobError, FailedSubmissionError, OSError)
LOG = "units.log"  # of each machine: when which unit began and ended there


class NoAnswer(Exception):
    """One of Slurm's commands failed; the text is the last line that it wrote."""


@dataclass
class Jobs:
    """Where and how to submit.

    `settings` are sbatch's, such as partition, account, constraint, qos and time in minutes.
    """

    results: Path
    settings: dict[str, Any] = field(default_factory=dict)
    say: Say = print
    poll_s: float = POLL_S

    @property
    def file(self) -> Path:
        """Return the file with the job of each mark.

        By it a command that is repeated waits for the jobs that are queued already.
        """
        return self.results / FOLDER / "jobs.json"

    def read_ids(self) -> dict[str, str]:
        """Return the job of each unit that was submitted, by the unit's mark.

        None are known where the file is missing or damaged: a unit whose job is still queued is
        submitted twice then, and the second job finds it done.
        """
        try:
            text = store.read_bytes(self.file, MOST_BYTES)
            return TypeAdapter(dict[str, str]).validate_json(text)
        except (store.BadRecord, ValidationError):
            return {}

    def write_ids(self, ids_by_mark: dict[str, str]) -> None:
        """Write the job of each unit, by the unit's mark."""
        store.write_atomically(json.dumps(ids_by_mark), self.file)

    def make_executor(self, name: str, **settings_of_job: Any) -> SlurmExecutor:
        """Return an executor for jobs of this name. Raises SetupError for a wrong setting."""
        executor = SlurmExecutor(self.results / FOLDER, max_num_timeout=ATTEMPTS)
        # Slurm requeues after the failure of a node, and submitit after preemption
        extra = {"requeue": True}
        settings = {
            "time": 240,
            "exclusive": True,
            "nodes": 1,
            "ntasks_per_node": 1,
            **self.settings,
            **settings_of_job,
        }
        try:
            executor.update_parameters(job_name=name, additional_parameters=extra, **settings)
        except ValueError as error:
            raise SetupError(f"--slurm: {str(error).splitlines()[0]}") from None
        return executor


def measure(units: Sequence[RunRequest], jobs: Jobs, frameworks: Sequence[str]) -> list[RunRequest]:
    """Submit the units that are not done, and wait for them; repeat that for those that failed.

    Return those that are not done after ATTEMPTS. Raises SetupError if Slurm is not there, or
    refuses.
    """
    code = provenance.name_code()
    for attempt in range(ATTEMPTS):
        unfinished = select_unfinished(units, jobs.results, code)
        if not unfinished:
            break
        if attempt:
            count = format_count(len(unfinished), "unit")
            jobs.say(f"{count} ended before being done; submitted again")
        # before anything is submitted a controller that is not there is the user's mistake
        queued = wait_for_queue(jobs, math.inf if attempt else FIRST_WAIT_S)
        ids_by_mark = jobs.read_ids()
        # a command that is repeated finds jobs in the queue that an earlier one has submitted
        new = [unit for unit in unfinished if ids_by_mark.get(unit.mark(code)) not in queued]
        setup_jobs: list[str] = []
        # an interpreter of the user's needs no environment
        if new and attempt == 0 and units[0].env is None:
            setup_jobs = submit_setups(new, jobs, frameworks)
        for batch in cut_into_batches(new, MOST_JOBS):
            ids_by_mark |= submit(batch, jobs, setup_jobs, code)
            jobs.write_ids(ids_by_mark)
        awaited = [ids_by_mark[unit.mark(code)] for unit in unfinished]
        wait(awaited, units, jobs, code)
    return select_unfinished(units, jobs.results, code)


def submit(
    units: Sequence[RunRequest], jobs: Jobs, after: Sequence[str], code: str | None
) -> dict[str, str]:
    """Submit units, to start after other jobs. Return the jobs' ids by the units' marks.

    Raises SetupError if Slurm refuses.
    """
    dependency = {}
    if after:
        dependency["dependency"] = f"afterany:{':'.join(after)}"
    executor = jobs.make_executor("framebench", **dependency)
    submitted = {}
    try:
        with executor.batch():
            for unit in units:
                job = Job(unit.make_arguments(), unit.mark(code), jobs.results, unit.env)
                submitted[unit.mark(code)] = executor.submit(job)
    except REFUSED as error:
        raise SetupError(f"Slurm took no job: {error}") from None
    # ids are known once the batch is sent
    return {mark: job.job_id for mark, job in submitted.items()}


def submit_setups(units: Sequence[RunRequest], jobs: Jobs, frameworks: Sequence[str]) -> list[str]:
    """Submit jobs that build the frameworks' environments, one on each kind of node.

    Return the jobs' ids. `units`, which wait for these jobs, are only counted in a message.
    """
    partition = ["-p", jobs.settings["partition"]] if "partition" in jobs.settings else []
    listing = ""
    with suppress(NoAnswer):
        listing = run_slurm("sinfo", "-h", "-N", "-o", "%N|%c|%m|%f|%G|%t", *partition)
    nodes = select_nodes(listing)
    node_names = ", ".join(nodes) or "each node that needs them"
    jobs.say(f"{format_count(len(units), 'unit')}; environments are prepared on {node_names}")
    ids = []
    for node in nodes:
        try:
            executor = jobs.make_executor("framebench-setup", nodelist=node)
            setup = Job(["setup", *frameworks], mark="", results=jobs.results)  # of no unit
            ids.append(executor.submit(setup).job_id)
        except REFUSED as error:
            # for instance if a constraint excludes the node; units that run there build their own
            jobs.say(f"nothing is prepared on {node}: {error}")
    return ids


def select_nodes(listing: str) -> list[str]:
    """Return the name of one usable node of each kind of hardware from sinfo's lines.

    A line has name, processors, memory, features, generic resources and state, separated by `|`.
    """
    first_of_kind: dict[tuple[str, ...], str] = {}
    for line in listing.splitlines():
        name, *kind, state = line.split("|")
        if state.startswith(USABLE):
            first_of_kind.setdefault(tuple(kind), name)
    return list(first_of_kind.values())


def wait(ids: Sequence[str], units: Sequence[RunRequest], jobs: Jobs, code: str | None) -> None:
    """Wait until none of these jobs is queued or running, and say how many units are done.

    Jobs that do not run yet are counted by the reason that Slurm gives.
    """
    last_message = ""
    while True:
        queue = wait_for_queue(jobs)
        reasons = [queue[job] for job in ids if job in queue]
        if not reasons:
            return
        done = len(units) - len(select_unfinished(units, jobs.results, code))
        message = f"{done} of {len(units)} units done"
        for reason, count in sorted(Counter(reasons).items()):
            if reason != RUNNING:
                message += f"; {format_count(count, 'job')} waiting: {reason}"
        if message != last_message:
            jobs.say(message)
            last_message = message
        time.sleep(jobs.poll_s)


def wait_for_queue(jobs: Jobs, most_s: float = math.inf) -> dict[str, str]:
    """Return why each queued job waits, and wait for a controller that does not answer.

    Without the wait, queued jobs would be taken for ended, and be submitted twice. Raises
    SetupError if the controller is silent for `most_s` seconds, or if none is configured.
    """
    began = time.monotonic()
    reminded = -math.inf
    while True:
        try:
            return read_queue()
        except NoAnswer as error:
            reason = f"Slurm's controller does not answer ({error})"
        now = time.monotonic()
        if now - began >= most_s or NO_CONFIGURATION in reason:
            raise SetupError(
                f"{reason}. --on slurm is for a login node of a cluster, where `scontrol ping` "
                "finds the controller; framebench plan --shell serves machines without Slurm"
            )
        if now - reminded >= REMIND_S:
            reminded = now
            limit = "until it does" if most_s == math.inf else f"for {most_s:.0f} s"
            jobs.say(
                f"{reason}; waiting {limit}. Ctrl-C ends this command alone: jobs go on, and the "
                "same command waits for them again"
            )
        time.sleep(jobs.poll_s)


def read_queue() -> dict[str, str]:
    """Return why each of this user's jobs that have not ended waits, or RUNNING.

    Slurm holds a job whose node failed as it was started. It is released, since nobody else would
    do that, and starts on another node. Raises NoAnswer and SetupError.
    """
    reasons = {}
    for line in run_slurm("squeue", "--me", "-h", "-r", "-o", "%i|%r").splitlines():
        job, reason = line.split("|", 1)
        reasons[job] = reason
        if "requeued held" in reason:
            with suppress(NoAnswer):
                run_slurm("scontrol", "release", job)
    return reasons


def run_slurm(*command: str) -> str:
    """Return the output of one of Slurm's commands.

    Raises NoAnswer if it fails, and SetupError if there is no such command.
    """
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"{command[0]}: no answer in {TIMEOUT_S} s") from None
    except OSError as error:
        reason = f"--on slurm needs Slurm's {command[0]}: {error.strerror}"
        raise SetupError(f"{reason}; framebench plan --shell serves others") from None
    if process.returncode:
        lines = process.stderr.strip().splitlines() or [f"exit code {process.returncode}"]
        raise NoAnswer(f"{command[0]}: {lines[-1].removeprefix(f'{command[0]}: ')}")
    return process.stdout


@dataclass
class Job(submitit.helpers.Checkpointable):
    """A command of framebench that runs on a node.

    If it is preempted or runs out of time, it is started again, and resumes if it is on the same
    node then.
    """

    arguments: list[str]
    mark: str  # of the unit, when it is done; empty if it is none
    results: Path
    env: str | None = None

    def __call__(self) -> int:
        """Run the command and return its exit code; 0 at once if the unit is done already.

        A machine without a calibration is calibrated first. The machine's name and its cache are
        set in this process's environment.
        """
        node = os.environ.get("SLURMD_NODENAME") or platform.node()
        node_folder = self.results / NODES / node
        os.environ.setdefault("FRAMEBENCH_MACHINE", node)
        kind = provenance.hash_hardware(recording.describe_hardware())
        # kernels that were compiled for another kind of hardware may not run
        os.environ["FRAMEBENCH_CACHE"] = str(environments.cache() / kind)
        if not self.mark:
            return run_framebench(*self.arguments)
        node_folder.mkdir(parents=True, exist_ok=True)
        if self.mark in list_finished(self.results):  # before the job was started again
            return 0
        is_calibrated = any(node_folder.glob("calibration/*.json"))
        if not is_calibrated:
            env = ["--env", self.env] if self.env else []
            run_framebench("doctor", *env, "--results", str(node_folder))
        self.log(node_folder, "began")
        code = run_framebench(*self.arguments, "--results", str(node_folder))
        self.log(node_folder, f"ended with {code}")
        return code

    def log(self, node_folder: Path, event: str) -> None:
        """Write when the unit began or ended."""
        with os.fdopen(open_to_append(node_folder / LOG), "a") as file:
            file.write(f"{datetime.now(UTC).isoformat()} {event}: {shlex.join(self.arguments)}\n")

    def checkpoint(self) -> DelayedSubmission:
        """Return how submitit starts the job again."""
        return DelayedSubmission(self)


def run_framebench(*arguments: str) -> int:
    """Run a command of framebench and return its exit code."""
    command = [sys.executable, "-m", "framebench.cli", *arguments]
    return subprocess.run(command, preexec_fn=die_with_parent).returncode
