"""Lower bounds are below every published peak."""

from framebench.analysis import lower_bound
from tests.published.committed_files import read_records


def test_lower_bounds_are_below_every_measured_peak():
    """Only cases of a single process are compared, since ranks divide its memory."""
    checked = 0
    for record in read_records():
        if record.status == "ok" and record.peaks and record.parsed.ranks == 1:
            least = lower_bound.compute_lower_bound(record.parsed).total
            assert least <= min(record.peaks.values()), record.case
            checked += 1
    assert checked > 100
