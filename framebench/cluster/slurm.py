"""A run's units as jobs of Slurm, through submitit: each has a node to itself, so that nothing disturbs a block.

Whether a unit is done is told by the results folder alone (`units.marks`). So it does not matter how a job ends: by itself, by
`scancel`, with its node, or while the controller is away; what is not done when its job is gone is submitted again.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import FailedJobError, FailedSubmissionError
from submitit.helpers import DelayedSubmission
from submitit.slurm.slurm import SlurmExecutor

from framebench.cluster.collect import NODES
from framebench.cluster.units import marks, unfinished
from framebench.engine import environments, recording
from framebench.engine.environments import SetupError
from framebench.engine.request import Asked
from framebench.records import provenance

Say = Callable[[str], None]
ARRAY = 1000  # jobs: the most that Slurm takes at once unless it is set up for more
ATTEMPTS = 3  # of a unit whose job ended before it was done
POLL_S = 5.0
USABLE = ("idle", "mix", "alloc", "comp")  # states of a node, as sinfo shortens them
FOLDER = ".slurm"  # of the results folder: what submitit writes, and the jobs' output
REFUSED = (FailedJobError, FailedSubmissionError, OSError)  # what submitit raises where sbatch takes no job
LOG = "units.log"  # of each machine: when which unit began and ended there


@dataclass
class Jobs:
    """Where and how to submit. `settings` are sbatch's, such as partition, account, constraint, qos and time in minutes."""

    results: Path
    settings: dict[str, Any] = field(default_factory=dict)
    say: Say = print
    poll_s: float = POLL_S

    @property
    def file(self) -> Path:
        """Job by mark: a command that is given again takes up what is queued."""
        return self.results / FOLDER / "jobs.json"

    def known(self) -> dict[str, str]:
        return json.loads(self.file.read_text()) if self.file.exists() else {}

    def keep(self, ids_by_mark: dict[str, str]) -> None:
        temporary = self.file.with_suffix(".tmp")
        temporary.write_text(json.dumps(ids_by_mark))
        os.replace(temporary, self.file)

    def executor(self, name: str, **more: Any) -> SlurmExecutor:
        """Raises SetupError for a setting that there is not."""
        slurm_executor = SlurmExecutor(self.results / FOLDER, max_num_timeout=ATTEMPTS)
        extra = {"requeue": True}  # after the failure of a node; after preemption submitit does
        settings = {"time": 240, "exclusive": True, "nodes": 1, "ntasks_per_node": 1, **self.settings, **more}
        try:
            slurm_executor.update_parameters(job_name=name, additional_parameters=extra, **settings)
        except ValueError as error:
            raise SetupError(f"--slurm: {str(error).splitlines()[0]}") from None
        return slurm_executor


def measure(units: Sequence[Asked], jobs: Jobs, frameworks: Sequence[str]) -> list[Asked]:
    """Have all measured, and wait for it. Those that came to no end, in so many attempts, are given back.

    Raises SetupError where Slurm is not there, or refuses.
    """
    code, ready = provenance.code(), False
    left = unfinished(units, jobs.results, code)
    for attempt in range(ATTEMPTS):
        if not left:
            break
        if attempt:
            jobs.say(f"{len(left)} units ended before they were done, and are submitted again")
        active, ids_by_mark = queued(jobs), jobs.known()
        new = [unit for unit in left if ids_by_mark.get(unit.mark(code)) not in active]
        after = prepare(new, jobs, frameworks) if new and not ready and units[0].env is None else []
        ready = True
        for i in range(0, len(new), ARRAY):
            ids_by_mark |= submit(new[i : i + ARRAY], jobs, after, code)
            jobs.keep(ids_by_mark)
        wait([ids_by_mark[unit.mark(code)] for unit in left], units, jobs, code)
        left = unfinished(units, jobs.results, code)
    return left


def submit(units: Sequence[Asked], jobs: Jobs, after: Sequence[str], code: str | None) -> dict[str, str]:
    """The jobs' ids by the units' marks. Raises SetupError if Slurm refuses."""
    executor = jobs.executor("framebench", **({"dependency": "afterany:" + ":".join(after)} if after else {}))
    try:
        with executor.batch():
            submitted_jobs = [executor.submit(Job(unit.arguments(), unit.mark(code), jobs.results, unit.env)) for unit in units]
    except REFUSED as error:
        raise SetupError(f"Slurm took no job: {error}") from None
    return {unit.mark(code): job.job_id for unit, job in zip(units, submitted_jobs)}


def prepare(units: Sequence[Asked], jobs: Jobs, frameworks: Sequence[str]) -> list[str]:
    """Ids of jobs that build the frameworks' environments, one on each kind of node."""
    nodes = kinds(
        slurm("sinfo", "-h", "-N", "-o", "%N|%c|%m|%f|%G|%t", *partition(jobs)) or "", jobs.settings.get("constraint")
    )
    jobs.say(f"{len(units)} units; environments are prepared on {', '.join(nodes) or 'each node that needs them'}")
    return [job for node in nodes if (job := _prepare_on(node, jobs, frameworks))]


def _prepare_on(node: str, jobs: Jobs, frameworks: Sequence[str]) -> str | None:
    """The job's id; None if Slurm refuses it, for instance as a constraint excludes the node: units there build their own."""
    try:
        return jobs.executor("framebench-setup", nodelist=node).submit(Job(["setup", *frameworks], "", jobs.results)).job_id
    except REFUSED as error:
        jobs.say(f"nothing is prepared on {node}: {error}")
        return None


def partition(jobs: Jobs) -> list[str]:
    return ["-p", jobs.settings["partition"]] if "partition" in jobs.settings else []


def kinds(told: str, constraint: str | None = None) -> list[str]:
    """Of sinfo's lines (name, processors, memory, features, generic resources, state) a usable node of each kind."""
    first: dict[tuple[str, ...], str] = {}
    for line in told.splitlines():
        name, *kind, state = line.split("|")
        fits = constraint is None or constraint in kind[2].split(",") or not constraint.isidentifier()
        if fits and state.startswith(USABLE):
            first.setdefault(tuple(kind), name)
    return list(first.values())


def wait(ids: Sequence[str], units: Sequence[Asked], jobs: Jobs, code: str | None) -> None:
    """Until none of them is queued or running."""
    last_message = ""
    while queued(jobs).intersection(ids):
        done = len(units) - len(unfinished(units, jobs.results, code))
        if (now := f"{done} of {len(units)} units done") != last_message:
            jobs.say(last_message := now)
        time.sleep(jobs.poll_s)


def queued(jobs: Jobs) -> set[str]:
    """As `queue`, but a controller that does not answer is waited for: jobs taken for gone would be submitted twice."""
    if (queued_ids := queue()) is None:
        jobs.say("Slurm's controller does not answer, and is waited for")
    while queued_ids is None:
        time.sleep(jobs.poll_s)
        queued_ids = queue()
    return queued_ids


def queue() -> set[str] | None:
    """Ids of this user's jobs that have not ended; None where the controller does not answer. What it holds back because a node
    failed as it was started, which nobody else would release, may start elsewhere."""
    told = slurm("squeue", "--me", "-h", "-r", "-o", "%i|%r")
    if told is None:
        return None
    reasons = dict(line.split("|", 1) for line in told.splitlines())
    for job, reason in reasons.items():
        if "requeued held" in reason:
            slurm("scontrol", "release", job)
    return set(reasons)


def slurm(*command: str) -> str | None:
    """What one of Slurm's commands says; None if it fails. Raises SetupError where there is no such command."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return None
    except OSError as error:
        raise SetupError(
            f"--on slurm needs Slurm's {command[0]}: {error.strerror}; framebench plan --shell serves others"
        ) from None
    return None if done.returncode else done.stdout


@dataclass
class Job(submitit.helpers.Checkpointable):
    """What runs on a node: a command of framebench. Preempted or out of time, it is started again, and goes on where it was if
    it comes to the same node."""

    arguments: list[str]
    mark: str  # of the unit, when it is done; empty where it is none
    results: Path
    env: str | None = None

    def __call__(self) -> int:
        node = os.environ.get("SLURMD_NODENAME") or platform.node()
        node_folder = self.results / NODES / node
        os.environ.setdefault("FRAMEBENCH_MACHINE", node)
        kind = provenance.fingerprint(recording.describe_hardware())
        os.environ["FRAMEBENCH_CACHE"] = str(environments.cache() / kind)  # what was compiled for another kind may not run
        if not self.mark:
            return framebench(*self.arguments)
        node_folder.mkdir(parents=True, exist_ok=True)
        if self.mark in marks(self.results):  # before the job was started again
            return 0
        if not list(node_folder.glob("calibration/*.json")):
            framebench("doctor", *(["--env", self.env] if self.env else []), "--results", str(node_folder))
        self.log(node_folder, "began")
        code = framebench(*self.arguments, "--results", str(node_folder))
        self.log(node_folder, f"ended with {code}")
        return code

    def log(self, node_folder: Path, what: str) -> None:
        with (node_folder / LOG).open("a") as file:
            file.write(f"{datetime.now(UTC).isoformat()} {what}: {shlex.join(self.arguments)}\n")

    def checkpoint(self) -> DelayedSubmission:
        return DelayedSubmission(self)


def framebench(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "framebench.cli", *arguments]).returncode
