"""The list of releases that have records or predictions."""

from __future__ import annotations

from framebench.versions.recorded import tabulate_recorded
from tests.devices.fake_predictions import make_planned, make_unplanned
from tests.fake_records import make_measured, provenance, record


def test_releases_with_a_peak_are_listed_newest_first():
    records = []
    for version, batch in (("2.9.0", 4), ("2.13.0", 4), ("2.13.0", 8), ("2.13.0", 8)):
        origin = {"machine": "here", "versions": {"torch": version}}
        records.append(make_measured("fp32", 2**20, batch=batch, origin=origin))
    failed = record(status="oom", reason="memory", provenance=provenance(versions={"torch": "1"}))
    predictions = [make_planned(framework_version="0.8.3"), make_unplanned("failed")]
    assert tabulate_recorded([*records, failed], predictions).rows == (
        ("PyTorch", "torch==2.13.0", "here 2", "-"),
        ("PyTorch", "torch==2.9.0", "here 1", "-"),
        ("JAX", "jax==0.8.3", "-", "h100-80gb 1"),
    )
