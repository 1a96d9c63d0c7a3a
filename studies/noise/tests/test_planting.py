"""Planted slowdowns lengthen a step, and planted memory raises its peak, by their shares."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import pytest

from framebench.engine import environments
from framebench.engine.blocks import measure_group
from framebench.engine.environments import Environment
from framebench.engine.groups import Group
from framebench.engine.runner import Options, Variant
from framebench.records.record import Record
from framebench.suite.case import Case
from studies.noise.planting import PlantingRun, plant

# so large that the kernel's count of pages is exact enough
CASE = Case.from_id("transformer/torch/eval/no_grad/b4/cpu")


def test_planted_shares_are_measured(tmp_path: Path) -> None:
    """The bounds are far wider than what equal variants differ by on a busy machine."""
    environment = environments.ensure("torch")
    plain = Variant(CASE, environment)
    planted = Variant(CASE, plant(environment, tmp_path / "scripts", spin=1.0, extra=0.5))
    with PlantingRun("s", Options(rounds=5), tmp_path / "results") as run:
        measure_group(Group("planted", (plain, planted)), run)
        (plain_record,) = run.get_records(plain)
        (planted_record,) = run.get_records(planted)
    assert plain_record.usable
    assert planted_record.status == "ok"
    assert planted_record.provenance.planted == {"spin": 1.0, "extra": 0.5}
    assert not planted_record.usable
    assert 1.5 < compute_median_ratio(plain_record, planted_record) < 2.7
    assert planted_record.peak_bytes is not None
    assert plain_record.peak_bytes is not None
    assert planted_record.peak_bytes / plain_record.peak_bytes == pytest.approx(1.5, abs=0.05)


def compute_median_ratio(base: Record, change: Record) -> float:
    """Return the median ratio of step times over the rounds."""
    pairs = zip(base.step_s, change.step_s, strict=True)
    return statistics.median(changed / plain for plain, changed in pairs)


def test_other_modules_run_as_without_planting(tmp_path: Path) -> None:
    environment = Environment("torch", "1", Path(sys.executable), installed=True)
    planted = plant(environment, tmp_path, spin=0.1)
    module = "framebench.claims.probes.names"
    printed = environments.run_module(planted, module, "os.path", "os.nowhere")
    assert json.loads(printed) == {"os.path": True, "os.nowhere": False}
