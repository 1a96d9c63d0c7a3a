"""The simulation's requests beside those that a real card's allocator got, one by one:
studies/gpu_allocator/data/histories.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from framebench.devices.simulation.blocks import SMALL
from framebench.engine.environments import Environment
from studies.gpu_allocator.replay import History, histories
from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "card_requests.py"
KEPT = list(histories())
Request = tuple[str, int, int]


@pytest.fixture(scope="module")
def simulated(environment: dict[str, Environment]) -> Any:
    return run_inside(environment["torch"], PROGRAM, *(one.case for one in KEPT))


def rounded(requests: Iterable[Request]) -> list[Request]:
    """As PyTorch's allocator rounds sizes."""
    return [(action, -(-size // 512) * 512, address) for action, size, address in requests]


def of_card(history: History) -> list[Request]:
    return rounded(
        (action, size, at)
        for action, size, at in history.events
        if size > SMALL and "segment" not in action
    )


def lasting(requests: Iterable[Request]) -> list[Request]:
    """Without what is given back before anything else is asked for: such are workspaces of
    convolutions.
    """
    kept: list[Request] = []
    for request in requests:
        if kept and (kept[-1][0], request[0], kept[-1][2]) == (
            "alloc",
            "free_requested",
            request[2],
        ):
            kept.pop()
        else:
            kept.append(request)
    return kept


def without_addresses(requests: Iterable[Request]) -> list[tuple[str, int]]:
    return [(action, size) for action, size, _ in requests]


@pytest.mark.parametrize("history", KEPT, ids=lambda one: one.case)
def test_simulated_requests_equal_those_of_a_gpu(simulated: Any, history: History) -> None:
    """Thousands, over four steps: each activation, gradient, copy and temporary of the large pool,
    none too many. Of a model with convolutions those alone that are kept: which workspaces cuDNN
    takes is another question.
    """
    ours, card = rounded(simulated[history.case]), of_card(history)
    if not history.case.startswith("transformer"):
        ours, card = lasting(ours), lasting(card)
    assert without_addresses(ours) == without_addresses(card)


def test_a_softmax_copies_a_permuted_gradient(environment: dict[str, Environment]) -> None:
    """Channels last, as the labels of U-Net 3D are: the product of gradient and probabilities is
    made contiguous.
    """
    counted: Any = run_inside(environment["torch"], PROGRAM.with_name("softmax.py"))
    assert counted["permuted"] == counted["contiguous"] + 1
