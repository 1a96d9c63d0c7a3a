"""The list of releases that have records or predictions."""

from __future__ import annotations

from framebench.suite.case import Case
from framebench.versions.recorded import tabulate_recorded
from tests.devices.fake_predictions import make_planned, make_unplanned
from tests.fake_records import RIGHT, provenance, record


def test_releases_with_a_peak_are_listed_newest_first():
    records = []
    for version, batch in (("2.9.0", 4), ("2.13.0", 4), ("2.13.0", 8), ("2.13.0", 8)):
        case = Case("transformer", "torch", "train", "fp32", batch, "tiny")
        where = provenance(machine="here", versions={"torch": version})
        records.append(record(case, peaks={"host.rss": 2**20}, provenance=where, **RIGHT))
    failed = record(status="oom", reason="memory", provenance=provenance(versions={"torch": "1"}))
    predictions = [make_planned(framework_version="0.8.3"), make_unplanned("failed")]
    assert tabulate_recorded([*records, failed], predictions).rows == (
        ("PyTorch", "torch==2.13.0", "here 2", "-"),
        ("PyTorch", "torch==2.9.0", "here 1", "-"),
        ("JAX", "jax==0.8.3", "-", "h100-80gb 1"),
    )
