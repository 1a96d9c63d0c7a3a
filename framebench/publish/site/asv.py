"""asv's own pages for a folder without network or server.

`asv publish` writes numbers as JSON, and a page that loads its scripts and a style sheet from content networks and then asks a
server for the JSON: opened from a file it shows an error. A page of ours draws the same histories without scripts; the files
themselves, tens of megabytes, are read and left out.
"""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asv.graph import Graph

from framebench.records.provenance import ROOT
from framebench.records.record import Record
from framebench.versions import asv_history as history

KEPT = ("index.json", "info.json", "regressions.json", "graphs")
LIMIT_S = 300


@dataclass(frozen=True)
class Series:
    """One benchmark at one set of parameters: its values in the order of the commits."""

    parameters: str
    where: str  # machine, framework version, branch
    points: tuple[tuple[str, float], ...]  # (commit or tag, value)

    @property
    def change(self) -> float | None:
        """Last against first, relative; None where there is nothing to compare."""
        if len(self.points) < 2 or not self.points[0][1]:
            return None
        return self.points[-1][1] / self.points[0][1] - 1

    @property
    def line(self) -> str:
        """The points of an SVG polyline in a box of 100 x 20, from zero up."""
        top = max(value for _, value in self.points) or 1.0
        across = max(len(self.points) - 1, 1)
        return " ".join(f"{2 + 96 * i / across:.2f},{19 - 18 * value / top:.2f}" for i, (_, value) in enumerate(self.points))


@dataclass(frozen=True)
class Benchmark:
    name: str
    title: str  # names the instrument of a peak
    unit: str
    series: tuple[Series, ...]


class Unpublished(Exception):
    """There is nothing of asv's to show; the message says why."""


def several_commits(results: Path) -> bool:
    """Whether a machine measured more than one: with one, no series has two points."""
    of_machines = [{file.name.partition("-")[0] for file in kept.glob("*-*.json")} for kept in (results / "asv").glob("*/")]
    return any(len(commits) > 1 for commits in of_machines)


def write(results: Path, target: Path) -> None:
    """Runs `asv publish` on `results`/asv and keeps its data under `target`. Raises Unpublished."""
    if not (results / "asv" / "benchmarks.json").exists():
        raise Unpublished(f"asv has measured nothing: there is no {results.name}/asv/benchmarks.json")
    with tempfile.TemporaryDirectory() as folder:
        html = Path(folder) / "html"
        publish(_configuration(results, html), Path(folder))
        target.mkdir(parents=True)
        for name in KEPT:
            shutil.move(html / name, target / name)


def _configuration(results: Path, html: Path) -> dict[str, Any]:
    """The project's own, with the folders of this run and without what only measuring needs."""
    project_settings = json.loads((ROOT / "asv.conf.json").read_text())
    folders = {"repo": str(ROOT), "results_dir": str((results / "asv").resolve()), "html_dir": str(html)}
    kept = ("version", "project", "branches", "regressions_first_commits", "regressions_thresholds")
    return {name: project_settings[name] for name in kept} | folders


def publish(settings: dict[str, Any], folder: Path) -> None:
    """Raises Unpublished with asv's last line if it fails: for instance without git, or where commits are missing."""
    where = folder / "asv.conf.json"
    where.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "asv", "publish", "--no-pull", "--config", str(where)]
    try:
        subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout).strip().splitlines() or ["no reason given"]
        raise Unpublished(f"asv publish failed: {lines[-1]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unpublished(f"asv publish did not run: {error}") from error


def releases(records: list[Record], plans: list[history.Plan]) -> list[Benchmark]:
    """Return asv's history of the frameworks' releases (`framebench versions publish`); none without two releases."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / history.CONFIG.name
        try:
            # its paths are relative to where it lies
            shutil.copy(history.CONFIG, config)
            history.write(records, config, plans)
            history.publish(config)
        except (history.NoHistoryError, OSError):
            return []
        return benchmarks(Path(history.load_config(config).html_dir))


def benchmarks(folder: Path) -> list[Benchmark]:
    """What asv published, benchmark by benchmark; those without a value are left out."""
    index = json.loads((folder / "index.json").read_text())
    kept_benchmarks = []
    for name, about in sorted(index["benchmarks"].items()):
        series = tuple(s for place in index["graph_param_list"] for s in histories(folder, index, about, place))
        if series:
            kept_benchmarks.append(Benchmark(name, about.get("pretty_name") or name, about["unit"], series))
    return kept_benchmarks


def histories(folder: Path, index: dict[str, Any], about: dict[str, Any], place: dict[str, str | None]) -> Iterator[Series]:
    """The series of one benchmark in one environment: a point is (revision, one value for each combination of parameters)."""
    file = folder / Graph.get_file_path(place, f"{about['name']}.json")
    if not file.exists():
        return
    points = json.loads(file.read_text())
    tags = {revision: tag for tag, revision in index["tags"].items()}
    for i, parameters in enumerate(itertools.product(*about["params"])):
        mine = [(revision, values[i] if isinstance(values, list) else values) for revision, values in points]
        measured_points = tuple(
            (tags.get(revision) or index["revision_to_hash"][str(revision)][:8], value)
            for revision, value in mine
            if value is not None
        )
        if measured_points:
            named = ", ".join(f"{name} {value.strip(chr(39))}" for name, value in zip(about["param_names"], parameters))
            yield Series(named, _described(place), measured_points)


def _described(place: dict[str, str | None]) -> str:
    """Machine and version: `xeon-2core, jax 0.10.2`."""
    others = [f"{k} {v}" for k, v in sorted(place.items()) if v and k not in ("machine", "branch", "python", "framework")]
    return ", ".join([place["machine"] or "", *others])
