"""The simulation's requests next to those that a real GPU's allocator got, one by one:
studies/gpu_allocator/data/histories.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from framebench.devices.simulation.blocks import SMALL, round_up
from studies.gpu_allocator.replay import histories
from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "card_requests.py"
EVERY = list(histories())


@pytest.fixture(scope="module")
def simulated(environment) -> Any:
    return run_inside(environment["torch"], PROGRAM, *(history.case for history in EVERY))


def list_large(
    events: Iterable[tuple[str, int, int]], without_workspaces: bool
) -> list[tuple[str, int]]:
    """Return action and rounded bytes of each request for the large pool.

    Args:
        events: Action, bytes and address.
        without_workspaces: Leave out what is given back before anything else is asked for: such are
            workspaces of convolutions.
    """
    large = []
    for action, size, address in events:
        if size > SMALL and action in ("alloc", "free_requested"):
            is_workspace = (
                action == "free_requested" and large and large[-1][::2] == ("alloc", address)
            )
            if without_workspaces and is_workspace:
                large.pop()
            else:
                large.append((action, size, address))
    return [(action, round_up(size, 512)) for action, size, _ in large]


@pytest.mark.parametrize("history", EVERY, ids=attrgetter("case"))
def test_simulated_requests_equal_those_of_a_gpu(simulated, history):
    """Thousands, over four steps: each activation, gradient, copy and temporary of the large pool,
    none too many. Of a model with convolutions those alone that are kept: which workspaces cuDNN
    takes is another question.
    """
    has_convolutions = not history.case.startswith("transformer")
    ours = list_large(simulated[history.case], has_convolutions)
    assert ours == list_large(history.events, has_convolutions)


def test_operators_copy_what_is_not_contiguous(environment):
    """Norms copy their input; the backward passes of three operators copy their gradient."""
    counted = run_inside(environment["torch"], PROGRAM.with_name("copies.py"))
    texts = counted.pop("texts")
    contiguous, permuted = counted.pop("normalize_batch_by_torch")
    assert permuted == contiguous
    assert len(counted) == 5
    for contiguous, permuted in counted.values():
        assert permuted == contiguous + 1
    # leaf, input and result; the copy that cuDNN gets is kept in the place of the input
    assert texts == [[3, 3], [4, 3]]
