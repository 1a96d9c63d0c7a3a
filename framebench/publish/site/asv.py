"""asv's own pages for a folder without network or server.

`asv publish` writes numbers as JSON, and a page that loads its scripts and a style sheet from
content networks and then asks a server for the JSON: opened from a file it shows an error. Pages
of the site have the same histories as tables; the files themselves, tens of megabytes, are read and
left out.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asv.graph import Graph

from framebench.records.provenance import ROOT, drop_repository
from framebench.records.record import Record
from framebench.versions import asv_history

PUBLISHED = ("index.json", "info.json", "regressions.json", "graphs")  # what is kept of asv's files
# what asv's configuration needs for publishing; the rest is for measuring
SETTINGS = (
    "version",
    "project",
    "branches",
    "regressions_first_commits",
    "regressions_thresholds",
)
# parts of asv's environments that are the same in all of them, or named elsewhere on the page
UNNAMED = ("machine", "branch", "python", "framework")
LIMIT_S = 300
HASH_DIGITS = 8


@dataclass(frozen=True)
class Series:
    """One benchmark at one set of parameters: its values in the order of the commits."""

    parameters: str
    where: str  # machine and framework version
    points: tuple[tuple[str, float], ...]  # (commit or tag, value)

    @property
    def change(self) -> float | None:
        """Return last against first, relative; None where there is nothing to compare."""
        first, last = self.points[0][1], self.points[-1][1]
        if len(self.points) < 2 or not first:
            return None
        return last / first - 1


@dataclass(frozen=True)
class Benchmark:
    """A benchmark with the series of all machines. Its title names the instrument of a peak."""

    name: str
    title: str
    unit: str
    series: tuple[Series, ...]


class Unpublished(Exception):
    """There is nothing of asv's to show; the message says why."""


def has_several_commits(results: Path) -> bool:
    """Return whether a machine measured several commits; else no series has two points."""
    for machine in (results / "asv").glob("*/"):
        commits = {file.name.partition("-")[0] for file in machine.glob("*-*.json")}
        if len(commits) > 1:
            return True
    return False


def publish_histories(results: Path, target: Path) -> None:
    """Run `asv publish` on `results`/asv, and move its data to `target`. Raises Unpublished."""
    if not (results / "asv" / "benchmarks.json").exists():
        raise Unpublished(
            f"asv has measured nothing: there is no {results.name}/asv/benchmarks.json",
        )
    with tempfile.TemporaryDirectory() as folder:
        html = Path(folder) / "html"
        run_publish(make_configuration(results, html), Path(folder))
        target.mkdir(parents=True)
        for name in PUBLISHED:
            shutil.move(html / name, target / name)


def make_configuration(results: Path, html: Path) -> dict[str, object]:
    """Return the project's configuration of asv, with the folders of this run."""
    project = json.loads((ROOT / "asv.conf.json").read_text())
    configuration = {name: project[name] for name in SETTINGS}
    configuration["repo"] = str(ROOT)
    configuration["results_dir"] = str((results / "asv").resolve())
    configuration["html_dir"] = str(html)
    return configuration


def run_publish(configuration: dict[str, object], folder: Path) -> None:
    """Run `asv publish` in a folder.

    Raises Unpublished with asv's last line if it fails: for instance without git, or where commits
    are missing.
    """
    file = folder / "asv.conf.json"
    file.write_text(json.dumps(configuration))
    command = [sys.executable, "-m", "asv", "publish", "--no-pull", "--config", str(file)]
    try:
        subprocess.run(
            command,
            cwd=folder,
            env=drop_repository(os.environ),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout).strip().splitlines() or ["no reason given"]
        raise Unpublished(f"asv publish failed: {lines[-1]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unpublished(f"asv publish did not run: {error}") from error


def read_release_benchmarks(
    records: list[Record],
    plans: list[asv_history.Plan],
) -> list[Benchmark]:
    """Return asv's history of the frameworks' releases (`framebench versions publish`).

    It is empty without two releases.
    """
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / asv_history.CONFIG.name
        try:
            # its paths are relative to where it lies
            shutil.copy(asv_history.CONFIG, config)
            asv_history.write(records, config, plans)
            asv_history.publish(config)
        except (asv_history.NoHistoryError, OSError):
            return []
        return read_benchmarks(Path(asv_history.load_config(config).html_dir))


def read_benchmarks(folder: Path) -> list[Benchmark]:
    """Return what asv published in a folder; benchmarks without a value are left out."""
    index = json.loads((folder / "index.json").read_text())
    benchmarks = []
    for name, about in sorted(index["benchmarks"].items()):
        series: list[Series] = []
        for place in index["graph_param_list"]:
            series += read_series(folder, index, about, place)
        if series:
            title = about.get("pretty_name") or name
            benchmarks.append(Benchmark(name, title, about["unit"], tuple(series)))
    return benchmarks


def read_series(
    folder: Path,
    index: dict[str, Any],
    about: dict[str, Any],
    place: dict[str, str | None],
) -> Iterator[Series]:
    """Yield the series of one benchmark in one environment, one for each combination of parameters.

    `index` is asv's index.json, `about` its entry of the benchmark, and `place` the environment. A
    point of the file is (revision, the values of all combinations).
    """
    file = folder / Graph.get_file_path(place, f"{about['name']}.json")
    if not file.exists():
        return
    revisions = json.loads(file.read_text())
    names = name_revisions(index)
    for number, parameters in enumerate(itertools.product(*about["params"])):
        points = []
        for revision, values in revisions:
            # a list only where the benchmark has parameters
            value = values[number] if isinstance(values, list) else values
            if value is not None:
                points.append((names[revision], value))
        if points:
            described = describe_parameters(about["param_names"], parameters)
            yield Series(described, describe_place(place), tuple(points))


def name_revisions(index: dict[str, Any]) -> dict[int, str]:
    """Return by asv's number of a revision its tag, or else the first digits of its hash."""
    names = {}
    for revision, commit in index["revision_to_hash"].items():
        names[int(revision)] = commit[:HASH_DIGITS]
    for tag, revision in index["tags"].items():
        names[revision] = tag
    return names


def describe_parameters(names: list[str], values: tuple[str, ...]) -> str:
    """Return `strategy fp32, batch 4`; asv has texts in quotation marks."""
    return ", ".join(f"{name} {value.strip(chr(39))}" for name, value in zip(names, values))


def describe_place(place: dict[str, str | None]) -> str:
    """Return machine and version: `xeon-2core, jax 0.10.2`."""
    parts = [place["machine"] or ""]
    for name, value in sorted(place.items()):
        if value and name not in UNNAMED:
            parts.append(f"{name} {value}")
    return ", ".join(parts)
