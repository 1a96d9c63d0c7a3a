"""Predictions that older code has made are counted, and what renews them is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.features.devices.catalog import find
from framebench.features.devices.plans import store
from framebench.features.devices.plans.fingerprint import fingerprint
from framebench.features.devices.tables.kept import kept
from framebench.suite.case import Case
from tests.features.devices.made import CASE, origin, planned
from tests.processes import framebench

OTHER = CASE.replace("fp32", "checkpoint")


def code(case: str = CASE, device: str = "h100-80gb") -> str:
    return fingerprint(Case.of(case), find(device))


def test_those_of_older_sources_are_counted() -> None:
    mine = planned(origin=origin(code=code()))
    shown = kept([mine, planned(case=OTHER), planned(device="a100-40gb", origin=origin(code=code()))])
    assert shown
    assert shown.rows == (("h100-80gb", "jax 0.10.2", "2", "1"), ("a100-40gb", "jax 0.10.2", "1", "1"))
    assert "2 of 3 were made by older code" in shown.caption, "another device's figures are other sources too"
    assert "framebench predict CASES --device NAME" in shown.caption
    assert kept([]) is None


@pytest.mark.parametrize("case", ["transformer/jax/train/once_there/b1/tiny", "once/jax/train/fp32/b1/tiny"])
def test_a_case_that_is_no_more_is_of_older_sources(case: str) -> None:
    shown = kept([planned(case=case)])
    assert shown
    assert shown.rows[0][-1] == "1"


def test_both_commands_say_so(tmp_path: Path) -> None:
    store.write(tmp_path, planned(origin=origin(code=code())))
    store.write(tmp_path, planned(case=OTHER))
    for words in (("devices",), ("report", "--device", "h100-80gb")):
        told = framebench(*words, "--results", str(tmp_path))
        assert told.returncode == 0, told.stderr
        assert "1 of 2 were made by older code" in " ".join(told.stdout.split())
