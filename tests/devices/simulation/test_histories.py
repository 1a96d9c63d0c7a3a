"""A GPU's own history of its allocator, replayed on the model:
studies/gpu_allocator/data/histories.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from framebench.devices.simulation.addresses import Addresses
from studies.gpu_allocator.replay import History, histories, replay, replayed

MIB = 2**20
KEPT = list(histories())
EVENTS = [
    ("alloc", 3 * MIB, 1),
    ("alloc", 18 * MIB, 2),
    ("free_requested", 18 * MIB, 2),
    ("alloc", 2000, 3),
    ("segment_alloc", 2 * MIB, 3),
]
SMALL_CASE = History(
    "w/torch/train/fp32/b1/tiny", "a card", "2.11.0", 0, [(21 * MIB, 40 * MIB, 5)], EVENTS
)


@pytest.mark.parametrize("history", KEPT, ids=[one.case for one in KEPT])
def test_replayed_histories_reserve_the_same_bytes(history: History) -> None:
    """To the byte, and segment by segment."""
    allocator = replay(history)
    assert allocator.stats.reserved_peak == history.reserved
    ours = [event.size for event in allocator.trace if event.action == "segment_alloc"]
    assert sorted(ours) == sorted(history.segments)
    assert abs(allocator.stats.allocated_peak / max(used for used, *_ in history.steps) - 1) < 1e-3


@pytest.mark.parametrize("history", KEPT, ids=[one.case for one in KEPT])
def test_a_history_with_missing_requests_reserves_another_peak(history: History) -> None:
    """One that keeps nothing in its cache needs less: a tenth of the requests left out is enough to
    see it.
    """
    dropped = set(range(0, len(history.events), 10))
    assert replay(history, dropped).stats.reserved_peak != history.reserved


@pytest.mark.parametrize("history", KEPT, ids=[one.case for one in KEPT])
def test_segment_addresses_are_ordered_as_by_the_driver(history: History) -> None:
    """Of two of one size, nearly always; if each lay above the one before it, as the addresses of a
    heap do, seldom.
    """
    alike, pairs = history.in_order(Addresses().take)
    assert alike / pairs > 0.93
    higher = count()
    assert history.in_order(lambda _: next(higher))[0] / pairs < 0.3


def test_a_workspace_is_given_back_before_anything_else() -> None:
    assert SMALL_CASE.workspaces() == {1}, "not the block that stays, and not the small one"
    kept = replace(
        SMALL_CASE, events=[*SMALL_CASE.events[:2], ("alloc", 2 * MIB, 4), *SMALL_CASE.events[2:]]
    )
    assert kept.workspaces() == set()
    assert replayed(SMALL_CASE).reserved_peak == (20 + 18 + 2) * MIB
    assert replay(SMALL_CASE, {1}).stats.reserved_peak == (20 + 2) * MIB
