"""Framework versions as history, for stock asv: a throwaway git repository with one empty, tagged commit per version.

asv compares commits of one project. Here `jax-0.9.2` and `jax-0.10.2` are such commits, and the records' numbers are results of
them, so that `asv compare jax-0.9.2 jax-0.10.2` and `asv publish` work as they are, without any plug-in of ours. One value per
process is kept as a sample: asv compares samples, and takes a difference only from enough of them.

Throughput is left out: asv takes lower as better for everything. asv's own search for regressions is switched off in the pages,
since it takes two points for a step; `framebench versions compare` has the verdicts.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from asv.benchmarks import Benchmarks
from asv.config import Config
from asv.machine import Machine
from asv.results import Results
from asv.runner import BenchmarkResult
from packaging.version import Version

from framebench.records import provenance
from framebench.records.record import Record
from framebench.suite.protocol import VERSION

METRICS = {
    "peak_memory": ("peak_bytes", "bytes"),
    "step_time": ("step_time_s", "seconds"),
    "first_step": ("first_step_s", "seconds"),
}
MARK = ".framebench-timeline"  # in a folder that may be made anew
BRANCH = "versions"
FIRST_DAY = datetime(2000, 1, 1, tzinfo=UTC)  # dates only put the versions in order
WHO = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
       for what, value in (("NAME", "framebench"), ("EMAIL", "framebench@localhost"))}  # fmt: skip


class NoTimeline(Exception):
    """No timeline can be made; the message says why, and what to do."""


class Point(NamedTuple):
    """One case in one version on one machine, and the processes that measured it (`analysis.rounds.points`)."""

    machine: str
    case: str
    version: str
    processes: list[Record]


class Timeline(NamedTuple):
    folder: Path
    tags: list[str]  # oldest first, framework by framework
    machines: list[str]


def build(points: Iterable[Point], to: Path) -> Timeline:
    """Write the repository, asv's configuration and the results into `to`. Raises NoTimeline."""
    kept = list(points)
    if not kept:
        raise NoTimeline(
            "no case was measured in two versions, in turn and often enough; measure them: framebench versions run"
        )
    prepare(to)
    tags = sorted({(framework(p), p.version) for p in kept}, key=lambda t: (t[0], Version(t[1])))
    commits = {tag: commit(to, "-".join(tag), FIRST_DAY + timedelta(days=i)) for i, tag in enumerate(tags)}
    conf = configuration(to)
    benchmarks = {b["name"]: b for b in described(kept)}
    Benchmarks(conf, benchmarks.values()).save()
    for machine in sorted({p.machine for p in kept}):
        own = [p for p in kept if p.machine == machine]
        describe_machine(own[0].processes[-1], safe(machine), conf)
        for tag, (found, day) in commits.items():
            results_of([p for p in own if (framework(p), p.version) == tag], benchmarks, safe(machine), found, day, conf)
    return Timeline(to, ["-".join(tag) for tag in tags], sorted({safe(p.machine) for p in kept}))


def framework(point: Point) -> str:
    return point.case.split("/")[1]


def safe(name: str) -> str:
    """A name from a record as a folder's name."""
    return re.sub(r"[^\w.-]", "_", name).lstrip(".") or "_"


def prepare(to: Path) -> None:
    """An empty folder with a git repository of its own. Raises NoTimeline for a folder that is in use otherwise."""
    if to.exists() and any(to.iterdir()):
        if not (to / MARK).exists():
            raise NoTimeline(f"{to} holds something else than a timeline; name an empty or a new folder with --to")
        shutil.rmtree(to)
    if to.resolve().is_relative_to(provenance.ROOT) and provenance.git("check-ignore", "-q", str(to.resolve())) is None:
        raise NoTimeline(f"{to} lies among the project's own files, which git tracks; name another folder with --to")
    to.mkdir(parents=True, exist_ok=True)
    (to / MARK).touch()
    git(to, "init", "-q", "-b", BRANCH)


def git(where: Path, *arguments: str, day: datetime = FIRST_DAY) -> str:
    """Raises NoTimeline with what git said."""
    dates = {"GIT_AUTHOR_DATE": day.isoformat(), "GIT_COMMITTER_DATE": day.isoformat()}
    own = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}  # a hook's GIT_DIR is another repository's
    done = subprocess.run(["git", *arguments], cwd=where, env={**own, **WHO, **dates}, capture_output=True, text=True)
    if done.returncode:
        raise NoTimeline(f"git {arguments[0]} failed in {where}: {done.stderr.strip()}")
    return done.stdout.strip()


def commit(where: Path, tag: str, day: datetime) -> tuple[str, datetime]:
    """An empty commit with a tag; its hash and date."""
    git(where, "-c", "commit.gpgsign=false", "commit", "-q", "--allow-empty", "-m", tag, day=day)
    git(where, "-c", "tag.gpgsign=false", "tag", tag)
    return git(where, "rev-parse", "HEAD"), day


def configuration(to: Path) -> Config:
    """asv's configuration, written and as asv reads it; relative paths, so that the folder may be moved."""
    said = {
        "version": 1, "project": "framebench: framework versions", "repo": ".", "branches": [BRANCH], "dvcs": "git",
        "environment_type": "existing", "show_commit_url": "#", "results_dir": "results", "html_dir": "html", "env_dir": "env",
        "benchmark_dir": ".", "regressions_first_commits": {".*": None},
    }  # fmt: skip
    (to / "asv.conf.json").write_text(json.dumps(said, indent=4) + "\n")
    return Config.from_json(said | {"results_dir": str(to / "results")})


def described(points: list[Point]) -> Iterator[dict[str, Any]]:
    """asv's descriptions: a benchmark for each workload, framework and metric; its parameter is the rest of the case's id."""
    cases: dict[tuple[str, str], set[str]] = {}
    for point in points:
        workload, of, rest = point.case.split("/", 2)
        cases.setdefault((workload, of), set()).add(repr(rest))
    for (workload, of), found in sorted(cases.items()):
        for metric, (_, unit) in METRICS.items():
            name = f"{workload}.{of}.track_{metric}"
            yield {
                "name": name, "pretty_name": name, "type": "track", "unit": unit, "version": str(VERSION), "timeout": 0,
                "param_names": ["case"], "params": [sorted(found)], "code": f"median over processes of {metric}",
            }  # fmt: skip


def describe_machine(record: Record, name: str, conf: Config) -> None:
    hardware = record.provenance.hardware
    machine = Machine()
    machine.__dict__.update(
        machine=name, os=str(hardware.get("system", "")), arch="", cpu=str(hardware.get("cpu", "")),
        num_cpu=str(hardware.get("logical_cores", "")), ram=str(hardware.get("memory_bytes", "")),
    )  # fmt: skip
    machine.save(conf.results_dir)


def results_of(points: list[Point], benchmarks: dict[str, Any], machine: str, found: str, day: datetime, conf: Config) -> None:
    """One result file of asv: everything of one version on one machine."""
    stamp = int(day.timestamp() * 1000)
    file = Results({"machine": machine}, {}, found, stamp, "", "framebench", {})
    for name, benchmark in benchmarks.items():
        by_case = {repr(p.case.split("/", 2)[2]): p for p in points if name.startswith("{}.{}.".format(*p.case.split("/")))}
        if by_case:
            attribute = METRICS[name.rsplit(".track_", 1)[1]][0]
            columns = [values(by_case.get(case), attribute) for case in benchmark["params"][0]]
            when = max(r.provenance.measured_at for p in by_case.values() for r in p.processes)
            file.add_result(benchmark, as_result(columns), started_at=when, record_samples=True)
    if points:
        file.save(conf.results_dir)


def values(point: Point | None, attribute: str) -> list[float] | None:
    """One number per process; empty if the case was not measured, None if it failed in any process."""
    if point is None:
        return []
    if any(r.status != "ok" for r in point.processes):
        return None
    return [float(x) for r in point.processes if (x := getattr(r, attribute)) is not None]


def as_result(columns: list[list[float] | None]) -> BenchmarkResult:
    """asv's own: NaN is what was not measured, None what failed; asv makes medians and intervals from the samples."""
    numbers = [None if c is None else c[0] if c else float("nan") for c in columns]
    return BenchmarkResult(
        result=numbers, samples=[c or None for c in columns], number=[1 if c else None for c in columns], errcode=0, stderr="",
        profile=None,
    )  # fmt: skip
