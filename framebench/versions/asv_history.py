"""Write a history of framework releases for asv: a repository with a commit per release.

asv draws results over the commits of a repository, and looks for steps between them. A release of a
framework is an environment to asv, so a step between two releases is in no graph. Here each release
is a commit, tagged `jax-0.10.2` and dated by its release, and each framework is one environment. So
`asv publish` lists a step between two releases as a regression, and `asv compare jax-0.9.2
jax-0.10.2` compares them.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from asv import util
from asv.benchmarks import Benchmarks
from asv.config import Config
from asv.machine import Machine
from asv.results import Results
from asv.runner import BenchmarkResult
from packaging.version import InvalidVersion, Version

from framebench.analysis.selection import Measured, select_cases
from framebench.asv.cases import SuiteClass
from framebench.devices.tables import frame
from framebench.records.pins import REQUIREMENTS
from framebench.records.provenance import ROOT, drop_repository
from framebench.records.record import Record, count_work
from framebench.suite.case import Case

CONFIG = ROOT / "asv.releases.json"
KNOWN = REQUIREMENTS / "releases.csv"  # with the day on which each was released
MIB = 2**20
AUTHOR = {"NAME": "framebench", "EMAIL": "framebench@localhost"}


class NoHistoryError(Exception):
    """There is nothing to publish, or asv failed; the message says why."""


@dataclass(frozen=True)
class Release:
    """A release of a framework, and the day that it is shown at."""

    framework: str
    version: str
    released: date

    @property
    def tag(self) -> str:
        """Its name in the repository: `jax-0.10.2`."""
        return f"{self.framework}-{self.version}"


@dataclass(frozen=True)
class Place:
    """What a result file is of: one framework on one machine."""

    machine: str
    framework: str

    @property
    def environment(self) -> str:
        """asv's name of the environment, which is the same for all releases."""
        return f"framebench-{self.framework}"


# The median of each metric by the name of its method, for each release that measured a case.
Numbers = dict[str, float]
History = dict[Place, dict[Case, dict[str, Numbers]]]  # by version


@dataclass(frozen=True)
class Plan:
    """What the compiler of a release plans for a case on a device that is not here: exact, not
    measured.
    """

    device: str
    case: Case
    version: str
    peak_bytes: int


def write(
    records: Iterable[Record], config_file: Path = CONFIG, plans: Iterable[Plan] = ()
) -> list[Release]:
    """Write repository, results and benchmarks of a configuration. Return the releases.

    What was there is replaced. Raises NoHistoryError.
    """
    config = load_config(config_file)
    history = collect(records, plans)
    if not history:
        raise NoHistoryError(
            "no case has peaks or times of two releases of a framework on one machine: framebench "
            "versions run"
        )
    releases = order_releases(history)
    commits = write_repository(releases, Path(config.repo))
    benchmarks = keep_measured(discover(config), history)
    shutil.rmtree(config.results_dir, ignore_errors=True)
    Path(config.results_dir).mkdir(parents=True)
    Benchmarks(config, benchmarks).save()
    for place, cases in history.items():
        write_results(place, cases, commits, benchmarks, Path(config.results_dir))
    return releases


def load_config(file: Path) -> Config:
    """Return a configuration with absolute paths. Raises NoHistoryError without the file."""
    if not file.exists():
        raise NoHistoryError(
            f"{file.name} is not there: a history is made in a checkout of the project"
        )
    config = Config.load(str(file))
    for name in ("repo", "results_dir", "html_dir"):
        setattr(config, name, str(file.parent / getattr(config, name)))
    config.benchmark_dir = str(ROOT / "benchmarks")
    return config


def read_plans(results: Path) -> list[Plan]:
    """Return what releases of JAX plan for devices that are not here; none where nothing was
    planned.
    """
    table = frame.load(results)
    plans = []
    for row in table[table["source"] == "compiler.plan"].to_dict("records"):
        if row["ranks"] == 1 and row["used_bytes"] > 0:  # NaN where a release has no plan
            case = Case.from_id(row["case"])
            plans.append(
                Plan(row["device"], case, row["framework_version"], int(row["used_bytes"]))
            )
    return plans


def collect(records: Iterable[Record], plans: Iterable[Plan] = ()) -> History:
    """Return the numbers of every case of which two releases were measured on one machine, or
    planned for a device.
    """
    history: History = defaultdict(lambda: defaultdict(dict))
    for measured in select_cases(records):
        record = measured.read
        numbers = read_numbers(measured)
        version = read_version(record)
        if numbers and version:
            place = Place(record.provenance.machine, record.parsed.framework)
            history[place][record.parsed][version] = numbers
    for plan in plans:
        place = Place(f"{plan.device}-planned", plan.case.framework)
        history[place][plan.case][plan.version] = {"track_own_counter_peak": plan.peak_bytes / MIB}
    compared: History = {}
    for place, cases in history.items():
        for case, versions in cases.items():
            of_several = keep_compared(versions)
            if of_several:
                compared.setdefault(place, {})[case] = of_several
    return compared


def keep_compared(versions: dict[str, Numbers]) -> dict[str, Numbers]:
    """Return the metrics that two releases have; a single point is no history."""
    counts = Counter(metric for numbers in versions.values() for metric in numbers)
    kept = {}
    for version, numbers in versions.items():
        shared = {metric: number for metric, number in numbers.items() if counts[metric] > 1}
        if shared:
            kept[version] = shared
    return kept


def read_version(record: Record) -> str:
    """Return a record's release without a build's label; nothing where it is no version."""
    try:
        return Version(record.framework_version or "").public
    except InvalidVersion:
        return ""


def read_numbers(measured: Measured) -> Numbers:
    """Return what `benchmarks/common.py` tracks, of all records of a case in one release."""
    numbers = {}
    record = measured.read
    if record.status != "ok":
        return {}
    for name, instrument in (
        ("track_peak_memory", record.shared_instrument),
        ("track_own_counter_peak", record.own_instrument),
    ):
        if instrument in record.peaks:
            numbers[name] = record.peaks[instrument] / MIB
    step_times = [timed.step_time_s for timed in measured.timed if timed.step_time_s]
    if step_times:
        numbers["track_step_time"] = median(step_times)
        work = count_work(record.parsed)
        if work is not None:  # of a case that this version still has
            numbers["track_throughput"] = round(work / median(step_times), 2)
    first_steps = [timed.first_step_s for timed in measured.timed if timed.first_step_s]
    if first_steps:
        numbers["track_first_step"] = median(first_steps)
    return numbers


def known_releases() -> list[Release]:
    """Return the releases whose day is known."""
    with KNOWN.open(newline="") as file:
        return [
            Release(row["framework"], row["version"], date.fromisoformat(row["released"]))
            for row in csv.DictReader(file)
        ]


def order_releases(history: History) -> list[Release]:
    """Return all releases from the oldest measured one to the newest, in the order of commits.

    Those between them are commits without results: the step lies at one of these or at the next
    measured one.
    """
    measured: dict[str, set[str]] = defaultdict(set)
    for place, cases in history.items():
        for versions in cases.values():
            measured[place.framework].update(versions)
    ordered = []
    for framework in measured:
        ordered += place_in_time(framework, measured[framework])
    return sorted(ordered, key=commit_order)


def place_in_time(framework: str, measured: set[str]) -> list[Release]:
    """Return a framework's releases by version, each at its day but none before an older version.

    A fix of an older line may appear after a newer one. A release whose day is not known follows
    the one before it.
    """
    days = {
        release.version: release.released
        for release in known_releases()
        if release.framework == framework
    }
    oldest, newest = min(measured, key=Version), max(measured, key=Version)
    versions = []
    for version in {*days, *measured}:
        if Version(oldest) <= Version(version) <= Version(newest):
            versions.append(version)
    placed: list[Release] = []
    earliest = min(days.values(), default=date(2020, 1, 1))
    for version in sorted(versions, key=Version):
        after_last = placed[-1].released + timedelta(days=1) if placed else earliest
        day = days.get(version, after_last)
        if placed and day < placed[-1].released:
            day = placed[-1].released
        placed.append(Release(framework, version, day))
    return placed


def commit_order(release: Release) -> tuple[date, str, Version]:
    """Return the key that releases are sorted by."""
    return release.released, release.framework, Version(release.version)


def write_repository(releases: list[Release], where: Path) -> dict[Release, str]:
    """Write a repository with a commit and a tag for each release. Return their hashes.

    The same releases give the same hashes: author and dates are fixed.
    """
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    git(where, "init", "--quiet", "--initial-branch=releases")
    hashes = {}
    for number, release in enumerate(releases):
        # a second apart where several share a day: asv sorts by these
        moment = datetime.combine(release.released, time(12), UTC) + timedelta(seconds=number)
        variables = {}
        for role in ("AUTHOR", "COMMITTER"):
            variables[f"GIT_{role}_DATE"] = moment.isoformat()
            for name, value in AUTHOR.items():
                variables[f"GIT_{role}_{name}"] = value
        message = f"{release.framework} {release.version}"
        git(where, "commit", "--quiet", "--allow-empty", "--message", message, **variables)
        git(where, "tag", release.tag)
        hashes[release] = git(where, "rev-parse", "HEAD")
    return hashes


def git(where: Path, *arguments: str, **variables: str) -> str:
    """Run git without the user's settings. Return what it prints. Raises NoHistoryError.

    The repository is that of the folder, also where a hook of another one has started this.
    """
    environment = {
        **drop_repository(os.environ),
        **variables,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=where,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
    except OSError as error:
        raise NoHistoryError(f"git could not be started: {error}") from error
    except subprocess.CalledProcessError as error:
        raise NoHistoryError(f"git {arguments[0]} failed: {error.stderr.strip()}") from error
    return done.stdout.strip()


def discover(config: Config) -> list[dict[str, Any]]:
    """Return the benchmarks of the suite, as asv itself finds them."""
    script = (
        "import sys\nfrom asv_runner.discovery import list_benchmarks\n"
        "list_benchmarks(sys.argv[1], sys.stdout)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, config.benchmark_dir],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise NoHistoryError(
            f"asv cannot read {config.benchmark_dir}: {done.stderr.strip().splitlines()[-1]}"
        )
    listed: list[dict[str, Any]] = json.loads(done.stdout)
    return listed


def keep_measured(benchmarks: list[dict[str, Any]], history: History) -> list[dict[str, Any]]:
    """Return the benchmarks with measured parameters alone: no page of asv's opens empty."""
    strategies: dict[str, set[str]] = defaultdict(set)
    batches: dict[str, set[str]] = defaultdict(set)
    for cases in history.values():
        for case, versions in cases.items():
            for metric in set().union(*versions.values()):
                name = benchmark_name(case, metric)
                strategies[name].add(repr(case.strategy))
                batches[name].add(repr(case.batch))
    measured = []
    for benchmark in benchmarks:
        name = benchmark["name"]
        if name in strategies:
            every_strategy, every_batch = benchmark["params"]
            params = [
                [value for value in every_strategy if value in strategies[name]],
                [value for value in every_batch if value in batches[name]],
            ]
            measured.append({**benchmark, "params": params})
    return measured


def benchmark_name(case: Case, metric: str) -> str:
    """Return asv's name: `transformer.TransformerJaxTrain.track_peak_memory`."""
    suite_class = SuiteClass(case.workload, case.framework, case.scenario, case.size)
    return f"{suite_class.name}.{metric}"


def write_results(
    place: Place,
    cases: dict[Case, dict[str, Numbers]],
    commits: dict[Release, str],
    benchmarks: list[dict[str, Any]],
    folder: Path,
) -> None:
    """Write a result file for each release that a machine measured, under the release's commit."""
    machine_file = folder / place.machine / "machine.json"
    util.write_json(str(machine_file), {"machine": place.machine}, Machine.api_version)
    numbers: dict[tuple[str, str], dict[tuple[str, str], float]] = defaultdict(dict)
    for case, versions in cases.items():
        for version, metrics in versions.items():
            for metric, number in metrics.items():
                parameters = (repr(case.strategy), repr(case.batch))
                numbers[version, benchmark_name(case, metric)][parameters] = number
    for release, commit in commits.items():
        if release.framework != place.framework:
            continue
        milliseconds = int(datetime.combine(release.released, time(12), UTC).timestamp() * 1000)
        # the release is the commit, and not a requirement, which would make each one a graph of its
        # own
        results = Results(
            {"machine": place.machine, "framework": place.framework},
            {},
            commit,
            milliseconds,
            "",
            place.environment,
            {},
        )
        for benchmark in benchmarks:
            values = numbers.get((release.version, benchmark["name"]))
            if values:
                every = [
                    values.get(combination, math.nan)
                    for combination in itertools.product(*benchmark["params"])
                ]
                none = [None] * len(every)
                results.add_result(benchmark, BenchmarkResult(every, none, none, 0, "", None))
        if results.get_all_result_keys():
            results.save(str(folder))


@dataclass(frozen=True)
class Regression:
    """A step that asv found: the releases before and after it, and the values of both."""

    benchmark: str
    machine: str
    before: str
    after: str
    old: float
    new: float

    @property
    def change(self) -> float:
        """The relative change: 0.3 is 30 % more."""
        return self.new / self.old - 1

    def sort_key(self) -> tuple[str, str, Version, Version, float]:
        """Return the key that puts steps of one machine and release together, the largest first."""
        framework, _, after = self.after.partition("-")
        before = self.before.partition("-")[2]
        return self.machine, framework, Version(after), Version(before), -self.change


def publish(config_file: Path = CONFIG) -> list[Regression]:
    """Run `asv publish`. Return the regressions that it lists. Raises NoHistoryError."""
    command = [sys.executable, "-m", "asv", "--config", str(config_file), "publish", "--no-pull"]
    variables = drop_repository(os.environ)
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise NoHistoryError(f"asv publish failed: {lines[-1]}")
    html = Path(load_config(config_file).html_dir)
    tags = {
        revision: tag
        for tag, revision in json.loads((html / "index.json").read_text())["tags"].items()
    }
    regressions = []
    for name, path, _, _, _, _, jumps in json.loads((html / "regressions.json").read_text())[
        "regressions"
    ]:
        for before, after, old, new in jumps:
            # asv leaves the first one out where the step is between neighbours
            start = after - 1 if before is None else before
            regressions.append(
                Regression(name, machine_in(path), tags[start], tags[after], old, new)
            )
    regressions.sort(key=Regression.sort_key)
    return regressions


def machine_in(graph_path: str) -> str:
    """Return the machine in the path of a graph: `graphs/.../machine-zen4/...`."""
    for part in graph_path.split("/"):
        if part.startswith("machine-"):
            return part.removeprefix("machine-")
    return ""
