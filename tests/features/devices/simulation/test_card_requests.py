"""The simulation's requests beside those that a real card's allocator got, one by one: results/histories."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from framebench.engine.environments import Environment
from framebench.features.devices.judge.replay import History, histories
from framebench.features.devices.simulation.blocks import SMALL
from framebench.records.provenance import ROOT
from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "card_requests.py"
KEPT = list(histories(ROOT / "results"))
Request = tuple[str, int, int]


@pytest.fixture(scope="module")
def simulated(environment: dict[str, Environment]) -> Any:
    return run_inside(environment["torch"], PROGRAM, *(one.case for one in KEPT))


def lasting(requests: Iterable[Request]) -> list[tuple[str, int]]:
    """Without what is given back before anything else is asked for: such are workspaces of convolutions. Sizes as PyTorch's
    allocator rounds them."""
    kept: list[Request] = []
    for action, size, address in requests:
        if kept and (kept[-1][0], action, kept[-1][2]) == ("alloc", "free_requested", address):
            kept.pop()
        else:
            kept.append((action, -(-size // 512) * 512, address))
    return [(action, size) for action, size, _ in kept]


def of_card(history: History) -> list[tuple[str, int]]:
    return lasting((action, size, at) for action, size, at in history.events if size > SMALL and "segment" not in action)


@pytest.mark.parametrize("history", KEPT, ids=lambda one: one.case)
def test_requests_come_in_the_card_s_order_with_its_sizes(simulated: Any, history: History) -> None:
    """Thousands, over four steps: each activation, gradient, copy and temporary of the large pool, none too many."""
    assert lasting(simulated[history.case]) == of_card(history)
