"""What features start as processes and keep as records is named in one place, their `FEATURE`."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from pydantic import BaseModel

from framebench import extensions
from framebench.extensions import NoSuchWorker, features, worker_module
from tests.kinds import record_kinds
from tests.processes import ROOT

FOLDER = Path(extensions.__file__).parent / "features"
MAIN = re.compile(r'^if __name__ == "__main__"', re.MULTILINE)
# programs that a person starts
BY_HAND = {"card.table", "devices.judge.torch_asked", "devices.judge.torch_history", "study.study"}


def test_every_program_of_a_feature_is_a_worker_that_it_names() -> None:
    programs = {
        ".".join(file.relative_to(FOLDER).with_suffix("").parts)
        for file in FOLDER.rglob("*.py")
        if MAIN.search(file.read_text())
    }
    named = {f"{name}.{worker}" for name, feature in features().items() for worker in feature.workers}
    assert programs == named | BY_HAND


def test_no_module_of_a_feature_is_started_but_as_a_worker() -> None:
    text = re.compile(r'f?"framebench\.features\.[a-z_]+\.(?!\{)')
    assert {str(file) for file in FOLDER.rglob("*.py") if text.search(file.read_text())} == set()


def test_a_worker_that_is_not_named_is_refused() -> None:
    assert find_spec(worker_module("growth", "worker"))
    with pytest.raises(NoSuchWorker, match="growth has no worker table; it names: worker"):
        worker_module("growth", "table")


def test_each_kind_of_record_is_a_class_and_has_its_place_in_the_manual() -> None:
    manual = (ROOT / "results/README.md").read_text()
    for place, kind in record_kinds().items():
        assert issubclass(kind, BaseModel), place
        assert place.split("/")[0] in manual, place


def test_features_call_each_other_by_hooks_that_no_contract_sees() -> None:
    """CONTRIBUTING names two that call each other; where none do any more, its sentence goes with this test."""
    calls = {
        (file.relative_to(FOLDER).parts[0], called)
        for file in FOLDER.rglob("*.py")
        for called in re.findall(r'needed\(\s*"\w+",\s*"(\w+)"', file.read_text())
    }
    assert {("user_model", "max_batch"), ("max_batch", "user_model")} <= calls
    told = " ".join((ROOT / "CONTRIBUTING.md").read_text().split())
    assert '`needed("largest_batch", "max_batch")` in `user_model`' in told
