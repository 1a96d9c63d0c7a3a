"""Reading records stays linear: what publishes a year of results must not slow down with it."""

from __future__ import annotations

import time
from itertools import cycle, islice
from pathlib import Path

from framebench.analysis import frames
from framebench.publish.tables import make_tables_in_use
from framebench.records import store
from tests.sample_records import RESULTS


def copies(count: int, results: Path) -> Path:
    """A results folder with `count` of the kept records, spread over one machine for each
    hundred.
    """
    sources = [p.read_text() for p in sorted((RESULTS / "records").rglob("*.json"))]
    for i, text in enumerate(islice(cycle(sources), count)):
        where = results / "records" / f"machine-{i // 100}"
        where.mkdir(parents=True, exist_ok=True)
        (where / f"{i}.json").write_text(
            text.replace('"machine": "', f'"machine": "{i // 100}-', 1)
        )
    return results


def processor_seconds(results: Path) -> float:
    """To read a folder and make its tables; processor time, as others may use the machine."""
    start = time.process_time()
    make_tables_in_use(frames.make_frame(store.read_all(results)))
    return time.process_time() - start


def test_reading_and_tabulating_is_linear(tmp_path: Path) -> None:
    """Ten times the records take about ten times as long; a quadratic step would take a hundred
    times as long.
    """
    small, large = copies(100, tmp_path / "small"), copies(1000, tmp_path / "large")
    processor_seconds(small)  # imports and caches
    assert processor_seconds(large) / processor_seconds(small) < 25
