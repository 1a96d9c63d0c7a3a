"""A GPU's own history of its allocator, replayed on the model:
studies/gpu_allocator/data/histories.
"""

from itertools import count
from operator import attrgetter

import pytest

from framebench.devices.simulation.addresses import Addresses
from studies.gpu_allocator.replay import histories, replay

EVERY = pytest.mark.parametrize("history", list(histories()), ids=attrgetter("case"))


@EVERY
def test_replayed_histories_reserve_the_same_bytes(history):
    """They are compared to the byte, and segment by segment."""
    allocator = replay(history)
    assert allocator.stats.reserved_peak == history.reserved
    ours = [event.size for event in allocator.trace if event.action == "segment_alloc"]
    assert sorted(ours) == sorted(history.segments)
    most_in_use = max(used for used, *_ in history.steps)
    assert allocator.stats.allocated_peak == pytest.approx(most_in_use, rel=1e-3)


@EVERY
def test_a_history_with_missing_requests_reserves_another_peak(history):
    """One that keeps nothing in its cache needs less: a tenth of the requests left out is enough to
    see it.
    """
    dropped = set(range(0, len(history.events), 10))
    assert replay(history, dropped).stats.reserved_peak != history.reserved


@EVERY
def test_segment_addresses_are_ordered_as_by_the_driver(history):
    """Two segments of one size are nearly always in the same order as by the driver. They would
    seldom be if each lay above the one before it, as in a heap.
    """
    alike, pairs = history.in_order(Addresses().take)
    assert alike / pairs > 0.93
    heap = count()

    def take_next_above(size):
        return next(heap)

    alike_in_a_heap, _ = history.in_order(take_next_above)
    assert alike_in_a_heap / pairs < 0.3
