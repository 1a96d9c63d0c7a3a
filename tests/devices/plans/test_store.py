"""Predictions as lines of a file: what was written is read as it was, and no line is lost."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

import pytest
from pydantic import ValidationError

from framebench.devices.plans import store, version
from framebench.devices.plans.answer import LineBuffers
from framebench.devices.plans.planned import Planned
from framebench.devices.plans.store import PlannedWarning
from framebench.devices.plans.version import is_current
from tests.callbacks import ignore
from tests.devices.fake_predictions import CASE, MIB, make_origin, make_planned, make_unplanned
from tests.processes import framebench

OTHER_CASES = [CASE.replace("b1", f"b{batch}") for batch in range(2, 10)]


def test_a_newer_prediction_replaces_the_older(tmp_path):
    store.write(tmp_path, make_unplanned("refused", needs_bytes=90), ignore)
    newer = make_planned(largest=(LineBuffers(MIB, "flax_model.py:12", "f32[8]", 1),))
    path = store.write(tmp_path, newer, ignore)
    assert path == tmp_path / "planned/h100-80gb/jax-0.10.2.jsonl"
    assert store.read(path) == {CASE: newer}
    assert list(store.read_every(tmp_path)) == [newer]


def is_of_case(prediction: Planned) -> bool:
    """Return whether a prediction is of the case that is published here."""
    return prediction.case == CASE


def test_own_predictions_are_published_on_request(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "PUBLISHED", tmp_path)
    own = store.choose_writable_folder(tmp_path)
    published_before = make_planned()
    newer = make_planned(peak_bytes=11 * MIB)  # of the same case
    of_another_case = make_planned(case=OTHER_CASES[0])
    store.write(tmp_path, published_before, ignore)
    store.write(own, newer, ignore)
    store.write(own, of_another_case, ignore)
    assert list(store.read_every(tmp_path)) == [published_before]

    assert store.publish(tmp_path, is_of_case, ignore) == [newer]

    assert list(store.read_every(tmp_path)) == [newer]
    assert list(store.read_every(own)) == [of_another_case]


def test_dev_publish_chooses_current_predictions_of_supported_cases(monkeypatch):
    """Cases that a framework does not support, failures and predictions by older code stay."""
    rules = []

    def publish(folder, is_chosen, say):
        rules.append(is_chosen)
        return []

    monkeypatch.setattr(store, "publish", publish)
    framebench("dev", "publish", code=0)
    (is_chosen,) = rules
    assert is_chosen(make_planned())
    assert not is_chosen(make_unplanned("not planned", case=CASE.replace("fp32", "compile")))
    assert not is_chosen(make_unplanned("failed"))
    assert not is_chosen(make_planned(origin=make_origin(code="old")))


def test_concurrent_writers_lose_nothing(tmp_path):
    predictions = [make_planned(case=case) for case in (CASE, *OTHER_CASES)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(store.write, repeat(tmp_path), predictions, repeat(ignore)))
    written = {prediction.case for prediction in store.read_every(tmp_path)}
    assert written == {CASE, *OTHER_CASES}


def test_a_damaged_line_is_named_and_preserved(tmp_path):
    path = store.write(tmp_path, make_planned(), ignore)
    damaged = ['{"case": "a"}', "not JSON"]
    path.write_text("\n".join([path.read_text().strip(), *damaged]))
    with pytest.warns(PlannedWarning, match=r"skipped line \d of .*jax-0.10.2.jsonl: ") as warned:
        assert list(store.read(path)) == [CASE]
    assert len(warned) == 2
    store.write(tmp_path, make_planned(case=OTHER_CASES[0]), ignore)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert list(store.read(path)) == [CASE, OTHER_CASES[0]]
    assert set(damaged) <= set(path.read_text().splitlines())


@pytest.mark.parametrize("separator", ["\u2028", "\x85", "\x1c"])
def test_unicode_line_separators_in_a_reason_do_not_split_its_record(separator, tmp_path):
    refused = make_unplanned("refused", needs_bytes=90, reason=f"one{separator}two")
    path = store.write(tmp_path, refused, ignore)
    assert store.read(path) == {CASE: refused}
    # writing another case rewrites the whole file
    store.write(tmp_path, make_planned(case=OTHER_CASES[0]), ignore)
    assert store.read(path)[CASE] == refused


def test_an_unplanned_case_needs_a_reason_and_must_not_have_a_peak():
    with pytest.raises(ValidationError, match="not planned, and no reason"):
        make_unplanned("not planned", reason=None)
    with pytest.raises(ValidationError, match="refused, with the peak"):
        make_unplanned("refused", peak_bytes=1)


@pytest.mark.parametrize(
    ("same_sizes_since", "current"),
    [(1, {"1", "2", "12", "4dbafa85deb35cd4"}), (2, {"2", "12"}), (12, {"12"})],
)
def test_predictions_since_the_last_change_of_sizes_are_current(
    monkeypatch, same_sizes_since, current
):
    """A hash of sources, which stood in place of a version once, counts as version 1."""
    monkeypatch.setattr(version, "PLANNER_VERSION", 12)
    monkeypatch.setattr(version, "SAME_SIZES_SINCE", same_sizes_since)
    codes = ("1", "2", "12", "4dbafa85deb35cd4")
    assert {code for code in codes if is_current(code)} == current
