"""Versions of a framework as history: stock asv shows them, and a timeline harms nothing that it did not make."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from analysis.rounds import Point, points
from analysis.statistics import FEWEST
from framebench.measure import timeline
from framebench.records import store
from framebench.records.record import Record
from tests.processes import ROOT, framebench
from tests.rounds import at, broken, equal_rounds, originals, plant, rounds, write


@pytest.fixture
def equal() -> list[Record]:
    return equal_rounds()


@pytest.fixture
def history(equal: list[Record], tmp_path: Path) -> Path:
    """Results in which one case got slower, and another larger."""
    slow, large = sorted({r.case for r in equal})[1:3]
    return write(plant(equal, slow, large), tmp_path / "results")


def asv(where: Path, *arguments: str) -> str:
    """Stock asv, with a home of its own."""
    command = [str(Path(sys.executable).with_name("asv")), *arguments]
    done = subprocess.run(command, cwd=where, env={**os.environ, "HOME": str(where)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_stock_asv_shows_versions_as_history(history: Path, equal: list[Record], tmp_path: Path) -> None:
    to = tmp_path / "timeline"
    done = framebench("versions", "timeline", "--to", str(to), "--results", str(history))
    assert done.returncode == 0, done.stderr
    assert "asv compare jax-0.9.2 jax-0.10.2" in done.stdout
    told = subprocess.run(["git", "log", "--format=%D"], cwd=to, capture_output=True, text=True).stdout
    assert told.split("\n")[:2] == ["HEAD -> versions, tag: jax-0.10.2", "tag: jax-0.9.2"]
    slow, large = sorted({r.case for r in equal})[1:3]
    lines = asv(to, "compare", "-f", "1.03", "jax-0.9.2", "jax-0.10.2").splitlines()
    worse = [line for line in lines if line.startswith("| +")]
    expected = [(slow, "track_step_time"), (large, "track_peak_memory")]
    for case, metric in expected:
        workload, framework, rest = case.split("/", 2)
        assert any(f"{workload}.{framework}.{metric}('{rest}')" in line for line in worse), lines
    assert len(worse) == len(expected)
    assert not [line for line in lines if line.startswith("| -")]
    assert "throughput" not in "".join(lines)
    asv(to, "publish")
    index = json.loads((to / "html/index.json").read_text())
    assert set(index["tags"]) == {"jax-0.9.2", "jax-0.10.2"}
    assert json.loads((to / "html/regressions.json").read_text()) == {"regressions": []}, (
        "asv's would take two points for a step"
    )
    assert list((to / "html/graphs").rglob("*track_step_time.json"))


def test_a_timeline_is_made_anew_and_harms_nothing_else(history: Path, tmp_path: Path) -> None:
    found = [timeline.Point(*p) for p in points(store.read_all(history))]
    to = tmp_path / "timeline"
    first = timeline.build(found, to)
    assert timeline.build(found, to) == first, "an earlier one is replaced"
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/only-copy.txt").write_text("years of work")
    with pytest.raises(timeline.NoTimeline, match="holds something else"):
        timeline.build(found, tmp_path / "thesis")
    assert (tmp_path / "thesis/only-copy.txt").exists()
    with pytest.raises(timeline.NoTimeline, match="which git tracks"):
        timeline.build(found, ROOT / "docs" / "no-such-folder")
    assert not (ROOT / "docs" / "no-such-folder").exists()
    with pytest.raises(timeline.NoTimeline, match="framebench versions run"):
        timeline.build([], to)


def test_failures_and_strange_names_in_a_timeline(tmp_path: Path) -> None:
    (original,) = originals(1)
    found = [Point("../evil", p.case, p.version, p.processes) for p in points(rounds(original, change=broken))]
    made = timeline.build([timeline.Point(*p) for p in found], tmp_path / "timeline")
    assert made.machines == ["_evil"]
    assert "| !" in asv(made.folder, "compare", "jax-0.9.2", "jax-0.10.2"), "asv's mark for what fails now"
    assert not list(tmp_path.glob("evil*"))


def test_history_is_one_session_with_enough_processes() -> None:
    (original,) = originals(1)
    few = rounds(original, FEWEST - 1, session="later")
    later = [at(r, str(r.framework_version), r.provenance.measured_at + timedelta(days=1), "later") for r in few]
    enough = rounds(original)
    assert points(later) == []
    assert {r.provenance.session for p in points([*enough, *later]) for r in p.processes} == {"s"}
    assert [p.version for p in points(enough)] == ["0.9.2", "0.10.2"]
