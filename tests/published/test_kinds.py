"""Each committed file of a feature is a record of the kind that the feature names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from framebench.extensions import record_kinds
from tests.processes import ROOT

RESULTS = ROOT / "results"


def files(place: str) -> Iterator[Path]:
    where = RESULTS / place
    yield from [where] if where.is_file() else sorted(where.rglob("*.json"))


@pytest.mark.parametrize("place", record_kinds())
def test_what_lies_there_can_be_read(place: str) -> None:
    for file in files(place):
        record_kinds()[place].model_validate_json(file.read_bytes())
