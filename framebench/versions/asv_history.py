"""Write a history of framework releases for asv: a repository with a commit per release.

asv draws results over the commits of a repository, and looks for steps between them. A release of a
framework is an environment to asv, so a step between two releases is in no graph. Here each release
is a commit, tagged `jax-0.10.2` and dated by its release, and each framework is one environment. So
`asv publish` draws a step between two releases, and `asv compare jax-0.9.2 jax-0.10.2` compares
them. What is a regression is decided by `versions compare` alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import pandas as pd
from asv import util
from asv.benchmarks import Benchmarks
from asv.config import Config
from asv.machine import Machine
from asv.results import Results
from asv.runner import BenchmarkResult
from asv.util import UserError
from packaging.version import InvalidVersion, Version

from framebench.analysis.rendering import MIB
from framebench.analysis.rows import iterate_rows
from framebench.analysis.selection import Measured, select_cases, select_single
from framebench.analysis.statistics import PEAK, TIME
from framebench.asv.cases import SuiteClass
from framebench.devices.tables import frame
from framebench.instruments.parent_death import die_with_parent
from framebench.records.pins import REQUIREMENTS
from framebench.records.provenance import ROOT, drop_repository
from framebench.records.record import Record, count_work
from framebench.records.record_base import OWN_COUNTERS
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case
from framebench.versions.accepted import AcceptedRegression, find_reason
from framebench.versions.judge import (
    FIRST_STEP,
    REGRESSION,
    compare_successive,
    judge_growth,
    make_release_blocks,
)

CONFIG = ROOT / "asv.releases.json"
RELEASES = REQUIREMENTS / "releases.csv"  # with the day on which each was released
# the columns that identify a number of the history
KEY_COLUMNS = ["machine", "framework", "version", "benchmark", "strategy", "batch"]
ATOM = "http://www.w3.org/2005/Atom"
# git's own variables: the same author gives the same commits
AUTHOR = {
    "GIT_AUTHOR_NAME": "framebench",
    "GIT_AUTHOR_EMAIL": "framebench@localhost",
    "GIT_COMMITTER_NAME": "framebench",
    "GIT_COMMITTER_EMAIL": "framebench@localhost",
}
LIST_BENCHMARKS = (
    "import sys\nfrom asv_runner.discovery import list_benchmarks\n"
    "list_benchmarks(sys.argv[1], sys.stdout)"
)


class NoHistoryError(Exception):
    """There is nothing to publish, or asv failed; the message says why."""


class TaggedRelease(NamedTuple):
    """A release of a framework, and the day that it is shown at."""

    released: date
    framework: str
    version: str
    has_results: bool = True  # it was measured or planned

    @property
    def tag(self) -> str:
        """Return the name of its tag in the repository, such as `jax-0.10.2`."""
        return f"{self.framework}-{self.version}"

    @property
    def moment(self) -> datetime:
        """Return noon of its day, as the time of its commit."""
        return datetime.combine(self.released, time(12), UTC)


class PlannedPeak(NamedTuple):
    """The peak that a release's compiler plans for a case on a device that is not here.

    It is exact, and not measured.
    """

    device: str
    case: Case
    version: str
    peak_bytes: int


def write(
    records: Iterable[Record], config_file: Path = CONFIG, plans: Iterable[PlannedPeak] = ()
) -> list[TaggedRelease]:
    """Write a configuration's repository, results and benchmarks, and return the releases.

    Files of an earlier history are replaced. Raises NoHistoryError.
    """
    config = load_config(config_file)
    history = collect(records, plans)
    if history.empty:
        raise NoHistoryError(
            "no case has peaks or times of two releases of a framework on one machine: framebench "
            "versions run"
        )
    releases: list[TaggedRelease] = []
    for framework, measured in history.groupby("framework")["version"]:
        releases += date_releases(str(framework), set(measured))
    releases.sort(
        key=lambda release: (release.released, release.framework, Version(release.version))
    )
    commits = write_repository(releases, Path(config.repo))
    benchmarks = keep_measured(list_benchmarks(config), history)
    shutil.rmtree(config.results_dir, ignore_errors=True)
    Path(config.results_dir).mkdir(parents=True)
    # asv reads which benchmarks there are from a file next to the results
    Benchmarks(config, benchmarks).save()
    write_results(history, commits, benchmarks, Path(config.results_dir))
    return releases


def load_config(file: Path) -> Config:
    """Return a configuration with absolute paths.

    Raises NoHistoryError without the file, and if it is no configuration of asv.
    """
    if not file.exists():
        raise NoHistoryError(
            f"{file.name} is not there: a history is made in a checkout of the project"
        )
    try:
        config = Config.load(str(file))
        for name in ("repo", "results_dir", "html_dir"):
            setattr(config, name, str(file.parent / getattr(config, name)))
    except (UserError, ValueError, TypeError) as error:
        raise NoHistoryError(f"{file} is no configuration of asv: {error}") from None
    config.benchmark_dir = str(ROOT / "benchmarks")
    return config


def read_plans(results: Path) -> list[PlannedPeak]:
    """Return the peaks that releases of JAX plan for absent devices, or none without a plan."""
    table = frame.load(results)
    # `used_bytes` is missing where a release has no plan
    plans = table[(table["source"] == "compiler.plan") & (table["ranks"] == 1)]
    plans = plans[plans["used_bytes"] > 0]
    return [
        PlannedPeak(row.device, Case.from_id(row.case), row.framework_version, int(row.used_bytes))
        for row in iterate_rows(plans)
    ]


def collect(records: Iterable[Record], plans: Iterable[PlannedPeak] = ()) -> pd.DataFrame:
    """Return the numbers of every case measured or planned in at least two releases.

    The releases of a case were measured on one machine, or planned for one device. The columns are
    machine, framework, version, asv's name of the benchmark, its parameters (strategy and batch),
    and value. Records whose version has no order are left out.
    """
    rows = []
    for measured in select_cases(records):  # two builds of a release count as one
        record = measured.record
        with suppress(InvalidVersion):
            version = Version(record.framework_version or "").public
            for metric, value in read_numbers(measured).items():
                row = make_row(record.provenance.machine, record.parsed, version, metric, value)
                rows.append(row)
    for plan in plans:
        machine = f"{plan.device}-planned"
        peak = plan.peak_bytes / MIB
        rows.append(make_row(machine, plan.case, plan.version, "track_own_counter_peak", peak))
    table = pd.DataFrame(rows, columns=[*KEY_COLUMNS, "value"])
    of_case = table.groupby(["machine", "benchmark", "strategy", "batch"])
    return table[of_case["version"].transform("nunique") > 1]


def make_row(
    machine: str, case: Case, version: str, metric: str, value: float
) -> tuple[str | float, ...]:
    """Return a row of the history: the columns KEY_COLUMNS, and the value."""
    benchmark = name_benchmark(case, metric)
    strategy, batch = name_parameters(case)
    return machine, case.framework, version, benchmark, strategy, batch, value


def name_benchmark(case: Case, metric: str) -> str:
    """Return asv's name of a benchmark: module, class and metric."""
    suite_class = SuiteClass(case.workload, case.framework, case.scenario, case.size)
    return f"{suite_class.name}.{metric}"


def name_parameters(case: Case) -> tuple[str, str]:
    """Return the strategy and the batch of a case as asv names parameters: by their repr."""
    return repr(case.strategy), repr(case.batch)


def read_numbers(measured: Measured) -> dict[str, float]:
    """Return the numbers of a case in one release, by their name in `benchmarks/common.py`."""
    record = measured.record
    if record.status != "ok":
        return {}
    numbers = {}
    for name, instrument in (
        ("track_peak_memory", record.shared_instrument),
        ("track_own_counter_peak", record.own_instrument),
    ):
        peak = record.peaks.get(instrument or "")
        if peak is not None:
            numbers[name] = peak / MIB
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


def name_peak_metric(instrument: str | None) -> str:
    """Return the metric of `benchmarks/common.py` that has the peaks of an instrument."""
    return "track_own_counter_peak" if instrument in OWN_COUNTERS else "track_peak_memory"


def date_releases(framework: str, measured: set[str]) -> list[TaggedRelease]:
    """Return a framework's releases from the oldest measured one to the newest, by version.

    A release is dated by the day on which it appeared, but never before an older version, of which
    a fix may appear later. A release whose day is not in RELEASES gets the day after the release
    before it. Releases that were not measured are among them, without results: a step in asv's
    graph may have happened in one of these.
    """
    all_releases = pd.read_csv(RELEASES, dtype=str).query("framework == @framework")
    days: dict[str, date] = {}
    for row in iterate_rows(all_releases):
        days[row.version] = date.fromisoformat(row.released)
    oldest = min(measured, key=Version)
    newest = max(measured, key=Version)
    versions = sorted({*days, *measured}, key=Version)
    dated: list[TaggedRelease] = []
    day = min(days.values(), default=date(2020, 1, 1))
    for version in versions[versions.index(oldest) : versions.index(newest) + 1]:
        if version in days:
            day = max(day, days[version])
        elif dated:
            day += timedelta(days=1)
        dated.append(TaggedRelease(day, framework, version, has_results=version in measured))
    return dated


def write_repository(releases: list[TaggedRelease], folder: Path) -> dict[TaggedRelease, str]:
    """Write a repository with a commit and a tag for each release. Return the commits' hashes.

    The same releases give the same hashes: author and dates are fixed.
    """
    # a release whose day became known moves: the commits are written again
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run_git(folder, "init", "--quiet", "--initial-branch=releases")
    hashes = {}
    for number, release in enumerate(releases):
        # a second apart where several share a day: asv sorts by these
        moment = (release.moment + timedelta(seconds=number)).isoformat()
        env_vars = AUTHOR | {"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment}
        message = f"{release.framework} {release.version}"
        run_git(folder, "commit", "--quiet", "--allow-empty", "--message", message, **env_vars)
        run_git(folder, "tag", release.tag)
        hashes[release] = run_git(folder, "rev-parse", "HEAD").strip()
    return hashes


def run_git(folder: Path, *arguments: str, **env_vars: str) -> str:
    """Run git without the user's settings. Return what it prints. Raises NoHistoryError."""
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    return run_program(["git", *arguments], env_vars | settings, folder)


def run_program(
    command: Sequence[str], env_vars: dict[str, str] | None = None, folder: Path | None = None
) -> str:
    """Return what a program prints. Raises NoHistoryError with the last line of its errors.

    git uses the repository of the folder, also if a hook of another one has started this process.
    """
    environment = {**drop_repository(os.environ), **(env_vars or {})}
    try:
        process = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            preexec_fn=die_with_parent,
        )
    except OSError as error:
        raise NoHistoryError(f"{command[0]} could not be started: {error}") from error
    if process.returncode:
        message = (process.stderr or process.stdout or "no reason given").strip()
        raise NoHistoryError(f"{' '.join(command[:4])} failed: {message.splitlines()[-1]}")
    return process.stdout


def list_benchmarks(config: Config) -> list[dict[str, Any]]:
    """Return the benchmarks of the suite, as asv itself finds them."""
    command = [sys.executable, "-c", LIST_BENCHMARKS, config.benchmark_dir]
    listed: list[dict[str, Any]] = json.loads(run_program(command, {"PYTHONPATH": str(ROOT)}))
    return listed


def keep_measured(benchmarks: list[dict[str, Any]], history: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the benchmarks with only their measured parameters, so that no page opens empty."""
    measured = []
    for benchmark in benchmarks:
        rows = history[history["benchmark"] == benchmark["name"]]
        if rows.empty:
            continue
        strategies, batches = benchmark["params"]
        params = [
            select_present(strategies, rows["strategy"]),
            select_present(batches, rows["batch"]),
        ]
        measured.append({**benchmark, "params": params})
    return measured


def select_present(values: list[str], measured: pd.Series) -> list[str]:
    """Return those of a parameter's values that were measured, in their order."""
    present = set(measured)
    return [value for value in values if value in present]


def write_results(
    history: pd.DataFrame,
    commits: dict[TaggedRelease, str],
    benchmarks: list[dict[str, Any]],
    folder: Path,
) -> None:
    """Write a result file for each release that a machine measured, under the release's commit."""
    releases = {release.tag: release for release in commits}
    history = history.assign(tag=history["framework"] + "-" + history["version"])
    for machine in history["machine"].unique():
        machine_file = folder / machine / "machine.json"
        util.write_json(str(machine_file), {"machine": machine}, Machine.api_version)
    for (machine, tag), group in history.groupby(["machine", "tag"]):
        release = releases[str(tag)]
        # asv draws one graph for each set of requirements. So the release is not among these, and
        # only the commit tells it: then all releases are points of one graph
        results = Results(
            params={"machine": machine, "framework": release.framework},
            requirements={},
            commit_hash=commits[release],
            date=int(release.moment.timestamp() * 1000),
            python="",
            env_name=f"framebench-{release.framework}",  # the same for all releases
            env_vars={},
        )
        for benchmark in benchmarks:
            rows = group[group["benchmark"] == benchmark["name"]]
            if len(rows):
                # NaN where a combination of parameters was not measured
                combinations = pd.MultiIndex.from_product(benchmark["params"])
                values = rows.set_index(["strategy", "batch"])["value"].reindex(combinations)
                unknown = [None] * len(values)  # one for each combination
                result = BenchmarkResult(
                    result=values.tolist(),
                    samples=unknown,
                    number=unknown,
                    errcode=0,
                    stderr="",
                    profile=None,
                )
                results.add_result(benchmark, result)
        if results.get_all_result_keys():
            results.save(str(folder))


class Regression(NamedTuple):
    """A quantity of a case that is worse in a release than in the one before it."""

    machine: str  # or of a plan the device, followed by `-planned`
    before: str  # jax-0.9.2
    after: str
    case: Case
    quantity: str
    metric: str  # of `benchmarks/common.py`
    change: float | None  # 0.3 is 30 % more; None for a case that fails
    accepted_reason: str | None = None  # why it is accepted, if it is

    @property
    def benchmark(self) -> str:
        """Return the case and its metric as asv's page names them."""
        parameters = ", ".join(name_parameters(self.case))
        return f"{name_benchmark(self.case, self.metric)}({parameters})"

    def sort_key(self) -> tuple[str, str, Version, Version, float]:
        """Return the key that puts those of one machine and release together, the largest first."""
        framework, _, after = self.after.partition("-")
        before = self.before.partition("-")[2]
        return self.machine, framework, Version(after), Version(before), -(self.change or 0.0)


def find_regressions(
    records: Sequence[Record],
    plans: Iterable[PlannedPeak],
    accepted: Sequence[AcceptedRegression],
) -> list[Regression]:
    """Return what `versions compare` calls a regression, of each release and the one before it."""
    regressions = list_measured(records, accepted)
    regressions += list_planned(plans, accepted)
    regressions.sort(key=Regression.sort_key)
    return regressions


def describe_unchanged(
    releases: Sequence[TaggedRelease], regressions: Sequence[Regression]
) -> list[str]:
    """Return a sentence for each framework without a regression, or without two releases.

    `releases` are those of the history, in their order.
    """
    sentences = []
    for framework in FRAMEWORKS:
        tags = []
        for release in releases:
            if release.framework == framework and release.has_results:
                tags.append(release.tag)
        if not tags:
            sentences.append(f"{framework}: no case has numbers of two releases")
        elif all(regression.case.framework != framework for regression in regressions):
            sentences.append(
                f"{framework}: no regression in the {len(tags)} releases with results, "
                f"{tags[0]} to {tags[-1]}"
            )
    return sentences


def list_measured(
    records: Sequence[Record], accepted: Sequence[AcceptedRegression]
) -> list[Regression]:
    """Return the regressions of measured releases."""
    regressions = []
    metrics = {TIME.name: "track_step_time", FIRST_STEP.name: "track_first_step"}
    for rows in compare_successive(select_single(records), make_release_blocks(records)):
        for row in rows:
            if row.verdict != REGRESSION:
                continue
            metric = metrics.get(row.quantity) or name_peak_metric(row.instrument)
            regression = Regression(
                machine=row.machine,
                before=row.base.replace("==", "-"),
                after=row.change.replace("==", "-"),
                case=Case.from_id(row.case),
                quantity=row.quantity,
                metric=metric,
                change=None if row.ratio is None else row.ratio - 1,
                accepted_reason=find_reason(
                    accepted, row.change, row.case, row.quantity, row.ratio
                ),
            )
            regressions.append(regression)
    return regressions


def list_planned(
    plans: Iterable[PlannedPeak], accepted: Sequence[AcceptedRegression]
) -> list[Regression]:
    """Return the regressions of planned releases."""
    plans_by_case: dict[tuple[str, Case], list[PlannedPeak]] = defaultdict(list)
    for plan in plans:
        plans_by_case[plan.device, plan.case].append(plan)
    regressions = []
    for (device, case), case_plans in plans_by_case.items():
        case_plans.sort(key=lambda plan: Version(plan.version))
        for base, change in pairwise(case_plans):
            if judge_growth(base.peak_bytes, change.peak_bytes, PEAK.minimum) != REGRESSION:
                continue
            ratio = change.peak_bytes / base.peak_bytes
            release = f"{case.framework}=={change.version}"
            regression = Regression(
                machine=f"{device}-planned",
                before=f"{case.framework}-{base.version}",
                after=f"{case.framework}-{change.version}",
                case=case,
                quantity=PEAK.name,
                metric="track_own_counter_peak",
                change=ratio - 1,
                accepted_reason=find_reason(accepted, release, case.id, PEAK.name, ratio, device),
            )
            regressions.append(regression)
    return regressions


def publish(config_file: Path, regressions: Iterable[Regression]) -> None:
    """Make asv's page, which lists none but these as regressions. Raises NoHistoryError.

    asv looks for steps in a graph, and does not know an instrument's noise. So its list of steps is
    cut down to those that `versions compare` calls a regression.
    """
    command = [sys.executable, "-m", "asv", "publish", "--no-pull", "--config", str(config_file)]
    run_program(command)
    judged = {(regression.machine, regression.benchmark) for regression in regressions}
    folder = Path(load_config(config_file).html_dir)
    cut_list(folder / "regressions.json", judged)
    cut_feed(folder / "regressions.xml", judged)


def cut_list(file: Path, judged: Collection[tuple[str, str]]) -> None:
    """Keep the steps of asv's list that are of these machines and benchmarks."""
    content = json.loads(file.read_text())
    shown = []
    for step in content["regressions"]:
        benchmark, graph_path, *_ = step
        machine = re.search(r"/machine-([^/]+)/", graph_path)
        if machine and (machine[1], benchmark) in judged:
            shown.append(step)
    util.write_json(str(file), {**content, "regressions": shown}, compact=True)


def cut_feed(file: Path, judged: Collection[tuple[str, str]]) -> None:
    """Keep the entries of asv's Atom feed that are of these machines and benchmarks."""
    ElementTree.register_namespace("", ATOM)
    tree = ElementTree.parse(file)
    feed = tree.getroot()
    for entry in feed.findall(f"{{{ATOM}}}entry"):
        # the title is a change and the benchmark
        _, benchmark = entry.findtext(f"{{{ATOM}}}title", "").split(" ", 1)
        linked_machine = read_machine(entry)
        is_judged = False
        for machine, judged_benchmark in judged:
            is_of_machine = linked_machine in (None, machine)
            if is_of_machine and benchmark == judged_benchmark:
                is_judged = True
        if not is_judged:
            feed.remove(entry)
    tree.write(file, encoding="utf-8", xml_declaration=True)


def read_machine(entry: ElementTree.Element) -> str | None:
    """Return the machine that an entry's link names, or None: asv names it if there are several."""
    link = entry.find(f"{{{ATOM}}}link")
    if link is None:
        return None
    address = urlsplit(link.get("href", ""))
    # such as index.html#transformer.TransformerJaxTrain.track_peak_memory?machine=zen4-2core
    parameters = parse_qs(urlsplit(address.fragment).query)
    return parameters["machine"][0] if "machine" in parameters else None
