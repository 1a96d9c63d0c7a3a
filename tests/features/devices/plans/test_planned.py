"""The record of a prediction: what holds together is kept, and read back as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from framebench.features.devices.plans import planned as store
from framebench.features.devices.plans.planned import Buffer, PlannedWarning
from framebench.suite.case import Case
from tests.features.devices.made import CASE, MIB, PARTS, planned


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    told = planned(largest=(Buffer(bytes=MIB, line="flax_model.py:12", shape="f32[8]"),), not_held=("the context",))
    path = store.write(tmp_path, told)
    assert path == store.file(tmp_path, "h100-80gb", "jax-0.10.2", Case.of(CASE))
    assert store.read(path) == told
    assert list(store.every(tmp_path)) == [told]


def test_told_again_it_is_written_over(tmp_path: Path) -> None:
    store.write(tmp_path, planned())
    store.write(
        tmp_path, refused := planned(outcome="refused", reason="needs 90 GiB", peak_bytes=None, parts={}, needs_bytes=90)
    )
    assert list(store.every(tmp_path)) == [refused]


def test_a_plan_is_its_parts() -> None:
    with pytest.raises(ValidationError, match="the parts give 12582912 bytes, the peak is 1"):
        planned(peak_bytes=1)
    with pytest.raises(ValidationError, match="a plan has the parts aliased, arguments"):
        planned(parts=PARTS | {"more": 1})


def test_what_was_not_planned_has_a_reason_and_no_peak() -> None:
    with pytest.raises(ValidationError, match="not planned, and no reason"):
        planned(outcome="not planned", peak_bytes=None, parts={})
    with pytest.raises(ValidationError, match="refused, with the peak"):
        planned(outcome="refused", reason="too large")


def test_a_damaged_file_is_named_and_left(tmp_path: Path) -> None:
    path = store.write(tmp_path, planned())
    path.write_text("{}")
    with pytest.warns(PlannedWarning, match="skipped .*tiny.json"):
        assert store.read(path) is None
    assert path.exists()
