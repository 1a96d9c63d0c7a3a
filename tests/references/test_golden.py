"""References that one framework alone has values for, and cases that have none."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from framebench.engine import runner
from framebench.models import spec
from framebench.references import golden
from framebench.suite.selectors import parse
from tests.record_files import DAMAGED_LINES

SHARED, ALONE = "tiny/train/b4", "tiny/train/b4/clipped"
VALUES: golden.GoldenValues = {
    "values": {"loss_0": 2.0},
    "tensors": {"gradient": {"head.weight": (2.0, 1.0)}},
}


@pytest.fixture
def workload(tmp_path, monkeypatch) -> spec.Workload:
    """Return a workload whose references are written into a folder of the test."""
    loaded = spec.load_workload("transformer")
    folder = SimpleNamespace(folder=tmp_path, golden={}, golden_tensors={})
    monkeypatch.setattr(golden, "load_workload", lambda name: folder)
    monkeypatch.setitem(vars(loaded), "references", {})
    return loaded


@pytest.mark.parametrize("maker", ["torch", "jax"])
def test_values_of_one_framework_are_written_if_asked_for_and_marked(workload, maker, tmp_path):
    values = {name: {SHARED: VALUES} for name in golden.MAKERS}
    values[maker][ALONE] = VALUES
    with pytest.raises(ValueError, match=f"values for {ALONE}; --unconfirmed takes them"):
        golden.write_references("transformer", values)
    assert not list(tmp_path.iterdir())

    path = golden.write_references("transformer", values, unconfirmed=True)

    workload.references.update(json.loads(path.read_text()))
    assert workload.golden == {SHARED: VALUES["values"], ALONE: VALUES["values"]}
    by = golden.describe_maker(maker)
    assert workload.unconfirmed == {ALONE: f"{by}, confirmed by no other framework"}


@pytest.mark.usefixtures("workload")
def test_a_case_without_references_says_how_they_are_made():
    why = runner.explain_unsupported(parse("transformer/torch/train/checkpoint/b4/tiny"))
    assert why == (
        f"no reference: golden.json has no values for {SHARED}; make them: framebench dev golden "
        "transformer --missing"
    )


def test_damaged_lines_of_cached_references_are_left_out(tmp_path):
    """A killed process leaves them, to which the next one appends, or a machine that crashed."""
    file = tmp_path / "cached"
    good = [json.dumps({key: VALUES}).encode() for key in (SHARED, ALONE)]
    file.write_bytes(b"\n".join([good[0], *DAMAGED_LINES, good[1], good[0][:30]]))
    assert golden.read_cached(file).keys() == {SHARED, ALONE}
