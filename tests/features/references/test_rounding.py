"""Which right computations tolerances come from."""

from __future__ import annotations

import gzip
import json
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from framebench.features.references import golden, rounding
from framebench.features.references.rounding import ROUNDS, cases
from framebench.features.references.rounding_worker import Nudged, off
from framebench.models.spec import names
from framebench.suite.profiles import every_case
from framebench.suite.selectors import parse
from tests.processes import ROOT, framebench


@pytest.mark.parametrize("size", ["tiny", "cpu"])
@pytest.mark.parametrize("workload", names())
def test_all_that_may_change_the_order_of_sums_is_measured(workload: str, size: str) -> None:
    """Once for each framework and scenario, but for what a processor cannot run."""
    assert {part.axis for case in every_case() for part in case.plan.parts} >= ROUNDS
    measured = {(c.framework, c.scenario, c.strategy) for c in cases(workload, size)}
    for case in every_case():
        here = (case.workload, case.size) == (workload, size) and case.support.supported and not case.support.gpu
        if here and any(part.axis in ROUNDS for part in case.plan.parts):
            assert (case.framework, case.scenario, case.strategy) in measured


def test_a_case_in_which_a_framework_is_wrong_widens_no_tolerance(monkeypatch: pytest.MonkeyPatch) -> None:
    faulty = SimpleNamespace(known_fault=lambda: "a kernel leaves it unwritten")
    monkeypatch.setattr("framebench.adapters.load", lambda case: faulty)
    assert off(parse("unet3d/torch/train/amp_bf16/b4/cpu")) == {"reason": "a kernel leaves it unwritten"}


def test_nudged_weights_are_as_good_as_the_canonical_ones() -> None:
    case = parse("resnet50/torch/train/fp32/b4/tiny")
    first, second = (Nudged(**{f.name: getattr(case, f.name) for f in fields(case)}, seed=seed) for seed in range(2))
    assert first.golden_key == case.golden_key
    for name, plain in case.weights.items():
        moved, other = first.weights[name], second.weights[name]
        assert moved.dtype == np.float32
        assert np.all((moved == plain) | (moved == np.nextafter(plain, np.float32(0))))
        if plain.size > 100:
            assert 0.3 < np.mean(moved != plain) < 0.7
            assert np.any(moved != other)


def test_new_errors_are_written_beside_those_that_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounding, "path", lambda workload: tmp_path / "honest.json")

    def line(error: float) -> dict[str, object]:
        return {"errors": {"value": {"loss_0": (error, 0.0)}}}

    rounding.write("transformer", {"transformer/torch/train/fp32/b4/tiny": line(1e-7)})
    rounding.write("transformer", {"transformer/torch/finetune/lora/b4/tiny": line(2e-7)}, beside=True)
    (machine,) = json.loads((tmp_path / "honest.json").read_text())["machines"].values()
    assert machine["cases"] == 2
    assert {key: kinds["value"]["loss_0"][0] for key, kinds in machine["errors"]["torch"]["fp32"].items()} == {
        "tiny/train/b4": 1e-7,
        "tiny/finetune/b4/lora": 2e-7,
    }
    rounding.write("transformer", {"transformer/torch/finetune/lora/b4/tiny": line(2e-7)})
    (machine,) = json.loads((tmp_path / "honest.json").read_text())["machines"].values()
    assert machine["errors"]["torch"]["fp32"].keys() == {"tiny/finetune/b4/lora"}


def test_new_references_are_written_beside_those_that_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def values(loss: float) -> golden.Values:
        return {"new": {"values": {"loss": loss}, "tensors": {"output": {"logits": [1.0, 0.5, 0.25, 0.125]}}}}

    known = {"old": {"loss": 3.0}, "gone": {"loss": 5.0}}, {"old": {"output": {"logits": (2.0, 1.0)}}, "gone": {}}
    monkeypatch.setattr(
        golden, "workload", lambda name: SimpleNamespace(folder=tmp_path, golden=known[0], golden_tensors=known[1])
    )
    (tmp_path / "golden.json").write_text('{"largest_difference": "4e-12"}')
    golden.write("any", values(1.0), values(1.0 + 1e-13), beside=["old"])
    written = json.loads((tmp_path / "golden.json").read_text())
    assert (written["largest_difference"], written["values"]) == ("4e-12", {"old": {"loss": 3.0}, "new": {"loss": 1.0}})
    tensors = json.loads(gzip.decompress((tmp_path / "tensors.json.gz").read_bytes()))
    assert tensors == {"old": {"output": {"logits": [2.0, 1.0]}}, "new": values(1.0)["new"]["tensors"]}
    with pytest.raises(ValueError, match=r"differ by 1\.0e-03"):
        golden.write("any", values(1.0), values(1.001), beside=["old"])


def test_where_nothing_is_missing_nothing_is_written() -> None:
    before = (ROOT / "models/resnet50/honest.json").read_bytes()
    done = framebench("dev", "rounding", "resnet50", "--missing")
    assert (done.returncode, done.stdout) == (0, "resnet50: no case's errors are unknown\n")
    assert (ROOT / "models/resnet50/honest.json").read_bytes() == before
