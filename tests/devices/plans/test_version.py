"""Which cached predictions are current."""

from __future__ import annotations

import pytest

from framebench.devices.plans import version
from framebench.devices.plans.version import is_current

HASH_OF_SOURCES = "4dbafa85deb35cd4"


@pytest.mark.parametrize(
    ("planner_version", "current"),
    [(1, {"1", HASH_OF_SOURCES}), (2, {"2"}), (12, {"12"})],
)
def test_a_hash_of_sources_counts_as_version_1(
    monkeypatch: pytest.MonkeyPatch, planner_version: int, current: set[str]
) -> None:
    monkeypatch.setattr(version, "PLANNER_VERSION", planner_version)
    assert {code for code in ("1", "2", "12", HASH_OF_SOURCES) if is_current(code)} == current
