"""The table of replayed histories."""

from __future__ import annotations

from framebench.devices.plans.store import read_every
from studies.gpu_allocator.__main__ import FIRST_PREDICTIONS
from studies.gpu_allocator.replay import histories, table


def test_a_history_without_a_prediction_has_a_row() -> None:
    made = table([])
    assert made is not None
    assert len(made.rows) == len(list(histories())) > 0
    assert "simulated" not in made.head, "a column without any number is not shown"


def test_what_the_simulation_lacks_are_the_workspaces() -> None:
    """Without them the model reserves what was predicted."""
    made = table(read_every(FIRST_PREDICTIONS, "planned_earlier"))
    assert made is not None
    for row in made.rows:
        told = dict(zip(made.head, row, strict=True))
        assert told["without them"] == told["simulated"]
