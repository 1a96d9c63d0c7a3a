"""What counts as a choice of a step, and how many of its entries are others."""

from pathlib import Path

from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "choices.py"


def test_entries_that_were_not_chosen_before_are_counted_along_their_axis(environment):
    """The order within a top-k does not count. A `max` of a whole tensor chooses no index."""
    found = run_inside(environment["torch"], PROGRAM)
    assert found["another entry"] == 1
    assert found["another order"] == 0
    assert found["other rows"] == 2
    assert found["operators"] == ["argmax", "topk", "max"]
