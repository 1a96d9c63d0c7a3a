"""What each machine measured, counted from its records."""

from __future__ import annotations

from pathlib import Path

from framebench.analysis.reports.machines import make_table
from framebench.analysis.results import Results
from tests.fake_records import make_crash, make_measured, provenance
from tests.record_files import add_records

MIB = 2**20


def test_cases_times_and_curves_are_counted(tmp_path: Path) -> None:
    """PyTorch has three batches, one without a time; JAX two, one of them in a newer release, which
    alone counts. One more case died.
    """
    records = [make_measured("fp32", batch * MIB, 1.0, batch=batch) for batch in (4, 8, 16)]
    records[-1] = records[-1].model_copy(update={"step_s": [], "turns": None})
    records += [
        make_measured("fp32", batch * MIB, 1.0, framework="jax", batch=batch) for batch in (4, 8)
    ]
    newer = provenance(versions={"jax": "2"})
    records.append(records[-1].model_copy(update={"provenance": newer}))
    records.append(make_crash())
    add_records(tmp_path, *records)

    table = make_table(Results(tmp_path))

    (row,) = (dict(zip(table.head, cells)) for cells in table.rows)
    assert row == {
        "machine": "m",
        "sizes": "tiny",
        "cases": "5",
        "usable": "4",
        "timed": "3",
        "peak at 3 batches": "1",
        "throughput at 3 batches": "0",
        "several releases": "jax 1, 2",
    }
