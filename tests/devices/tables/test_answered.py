"""The table of what is answered of PyTorch's strategies."""

from dataclasses import replace

import pytest

from framebench.devices.tables.answered import tabulate_answered
from framebench.models import spec
from framebench.suite import profiles

WITH_CONVOLUTIONS = {
    "with convolutions whose workspaces cuDNN is asked for",
    "with convolutions, without cuDNN",
}


@pytest.fixture
def forget_cases():
    """Let the suite's cases be listed anew, here and by the tests that follow."""
    listings = (profiles.list_cases, profiles.list_rank_cases, profiles.list_by_id)
    for listing in listings:
        listing.cache_clear()
    yield
    for listing in listings:
        listing.cache_clear()


@pytest.mark.usefixtures("forget_cases")
@pytest.mark.parametrize(
    ("declared", "where"),
    [
        (True, WITH_CONVOLUTIONS),
        (None, WITH_CONVOLUTIONS),
        (False, {"without convolutions"}),
    ],
)
def test_a_workload_that_does_not_say_may_have_convolutions(declared, where, monkeypatch):
    """Without its pool a step has an upper bound, of convolutions where cuDNN is asked."""
    plain = spec.load_declaration("transformer")
    declaration = replace(plain, has_convolutions=declared)
    monkeypatch.setattr(spec, "load_declaration", lambda name: declaration)
    monkeypatch.setattr(spec, "list_workloads", lambda: ("transformer",))

    rows = tabulate_answered().rows

    places = {row[2] for row in rows if "pool_off" in row[1].split(", ")}
    assert places == where
