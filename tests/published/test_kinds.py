"""Each committed file of a feature is a record of the kind that the feature names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kinds import record_kinds
from tests.processes import ROOT

RESULTS = ROOT / "results"


def texts(place: str) -> Iterator[str]:
    """Of each record: a file, or a line of one."""
    where = RESULTS / place
    for file in [where] if where.is_file() else sorted(where.rglob("*.json")):
        yield file.read_text()
    for file in sorted(where.rglob("*.jsonl")):
        yield from file.read_text().splitlines()


@pytest.mark.parametrize("place", record_kinds())
def test_what_lies_there_can_be_read(place: str) -> None:
    for text in texts(place):
        record_kinds()[place].model_validate_json(text)
