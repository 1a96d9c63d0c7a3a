"""References that one framework alone has values for, and cases that have none."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from framebench.engine import runner
from framebench.models import spec
from framebench.references import golden
from framebench.suite.selectors import parse

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
    by_maker = {SHARED: VALUES, ALONE: VALUES}
    pair = [by_maker if maker == name else {SHARED: VALUES} for name in golden.MAKERS]
    with pytest.raises(ValueError, match=f"values for {ALONE}; --unconfirmed takes them"):
        golden.write_confirmed("transformer", *pair)
    assert not list(tmp_path.iterdir())

    path = golden.write_confirmed("transformer", *pair, unconfirmed=True)

    workload.references.update(json.loads(path.read_text()))
    assert workload.golden == {SHARED: VALUES["values"], ALONE: VALUES["values"]}
    by = golden.describe_maker(maker)
    assert workload.unconfirmed == {ALONE: f"{by}, confirmed by no other framework"}


@pytest.mark.parametrize(
    ("makers", "advice"),
    [
        (["torch", "jax"], "; make them: framebench dev golden transformer --missing"),
        (["torch"], "; make them: framebench dev golden transformer --missing --unconfirmed"),
        (["jittor"], ", and neither PyTorch nor JAX, which make them, supports the strategy"),
    ],
)
def test_a_case_without_references_says_how_they_are_made(workload, makers, advice, monkeypatch):
    """The frameworks that have the case are given; no strategy of the suite is in one alone."""
    cases = [parse(f"transformer/{maker}/train/checkpoint/b4/tiny") for maker in makers]
    monkeypatch.setattr(runner.profiles, "list_cases", lambda: cases)
    why = runner.explain_unsupported(cases[0])
    assert why == f"no reference: golden.json has no values for {SHARED}{advice}"
