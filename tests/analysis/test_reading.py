"""Reading records stays linear: what publishes a year of results must not slow down with it."""

from __future__ import annotations

import json
import time
from itertools import cycle, islice
from pathlib import Path

from framebench.analysis import frames
from framebench.publish.tables import make_tables_in_use
from framebench.records import store
from tests.record_files import plant
from tests.sample_records import RESULTS


def copy_records(count: int, results: Path) -> Path:
    """Return a results folder with `count` records, a hundred of each machine."""
    files = sorted((RESULTS / "records").glob("*/*.jsonl"))
    sources = [line for file in files for line in file.read_text().splitlines()]
    for number, text in enumerate(islice(cycle(sources), count)):
        record = json.loads(text)
        record["provenance"]["machine"] = f"machine-{number // 100}"
        file = store.find_file(results, f"machine-{number // 100}", "release")
        plant(file, json.dumps(record))
    return results


def measure_reading(results: Path) -> float:
    """Return the processor seconds of reading a folder and making its tables.

    They are not those of a clock, as others may use the machine.
    """
    start = time.process_time()
    make_tables_in_use(frames.make_frame(store.read_all(results)))
    return time.process_time() - start


def test_reading_and_tabulating_is_linear(tmp_path: Path) -> None:
    """Ten times the records take about ten times as long; a quadratic step takes a hundred."""
    small = copy_records(100, tmp_path / "small")
    large = copy_records(1000, tmp_path / "large")
    measure_reading(small)  # imports and caches
    assert measure_reading(large) / measure_reading(small) < 25
