"""Predictions as lines of a file: what is told is read back as it was, and no line is lost."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from framebench.devices.plans import store
from framebench.devices.plans.planned import Buffer, Planned
from framebench.devices.plans.store import PlannedWarning
from tests.devices.fake_predictions import CASE, MIB, origin, planned
from tests.processes import framebench

OTHERS = [CASE.replace("b1", f"b{batch}") for batch in range(2, 10)]


def test_a_prediction_survives_the_round_trip(tmp_path: Path) -> None:
    result = planned(
        largest=(Buffer(bytes=MIB, line="flax_model.py:12", shape="f32[8]"),),
        not_held=("the context",),
    )
    path = store.write(tmp_path, result)
    assert path == tmp_path / "planned/h100-80gb/jax-0.10.2.jsonl"
    assert store.read(path) == {CASE: result}
    assert list(store.every(tmp_path)) == [result]


def test_own_predictions_are_published_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store.choose_writable_folder(tmp_path) == tmp_path, (
        "a folder that was named takes its answers itself"
    )
    assert store.publish(tmp_path, lambda _: True) == []
    monkeypatch.setattr(store, "PUBLISHED", tmp_path)
    store.write(tmp_path, planned())
    mine, rest = (
        planned(
            peak_bytes=11 * MIB,
            parts=planned().parts | {"temporaries": planned().parts["temporaries"] - MIB},
        ),
        planned(case=OTHERS[0]),
    )
    for one in (mine, rest):
        store.write(store.choose_writable_folder(tmp_path), one)
    assert list(store.every(tmp_path)) == [planned()]
    assert store.publish(tmp_path, lambda one: one.case == CASE) == [mine]
    assert list(store.every(tmp_path)) == [mine]
    assert list(store.every(store.choose_writable_folder(tmp_path))) == [rest]


def test_what_a_framework_lacks_is_not_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor what failed, a file of one's own, or what older code has made."""
    rules: list[Callable[[Planned], bool]] = []
    monkeypatch.setattr(store, "publish", lambda _, chosen: rules.append(chosen) or [])
    assert framebench("dev", "publish").returncode == 0
    (chosen,) = rules
    assert chosen(planned())
    lacking = planned(
        case=CASE.replace("fp32", "compile"),
        outcome="not planned",
        reason="always so",
        peak_bytes=None,
        source=None,
        parts={},
    )
    assert not chosen(lacking)
    assert not chosen(lacking.model_copy(update={"case": CASE, "outcome": "failed"}))
    assert not chosen(planned(origin=origin(code="old")))


def test_a_newer_prediction_replaces_the_older(tmp_path: Path) -> None:
    store.write(tmp_path, planned())
    store.write(
        tmp_path,
        refused := planned(
            outcome="refused", reason="needs 90 GiB", peak_bytes=None, parts={}, needs_bytes=90
        ),
    )
    assert list(store.every(tmp_path)) == [refused]


def test_concurrent_writers_lose_nothing(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda case: store.write(tmp_path, planned(case=case)), [CASE, *OTHERS]))
    assert {one.case for one in store.every(tmp_path)} == {CASE, *OTHERS}


def test_a_damaged_line_is_named_and_preserved(tmp_path: Path) -> None:
    path = store.write(tmp_path, planned())
    path.write_text(path.read_text() + '{"case": "a"}\nnot JSON\n')
    with pytest.warns(PlannedWarning) as warned:
        assert list(store.read(path)) == [CASE]
    assert [str(w.message).partition(" of ")[0] for w in warned] == [
        "skipped line 2",
        "skipped line 3",
    ]
    assert "jax-0.10.2.jsonl: " in str(warned[0].message)
    store.write(tmp_path, planned(case=OTHERS[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert list(store.read(path)) == [CASE, OTHERS[0]]
    assert {'{"case": "a"}', "not JSON"} <= set(path.read_text().splitlines())
