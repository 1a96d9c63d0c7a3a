"""The memory that a user's file holds is found in whatever holds it, and has a name."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest

from framebench.adapters import holders
from framebench.adapters.holders import find_array_storage, find_holders

SAMPLES = 100
SAMPLE_BYTES = 80


def make_sample(place: int) -> dict[str, Any]:
    """Return a step of a replay buffer: an array of SAMPLE_BYTES, numbers and a text."""
    return {"state": np.full(10, place, np.float64), "reward": place / 7, "action": f"a{place}"}


def make_samples() -> list[dict[str, Any]]:
    return [make_sample(place) for place in range(SAMPLES)]


def make_object_array() -> np.ndarray:
    array = np.empty(SAMPLES, object)
    array[:] = make_samples()
    return array


def make_closure() -> Any:
    samples = make_samples()
    return lambda: samples


HOLDERS = {
    "list": make_samples(),
    "dictionary": dict(enumerate(make_samples())),
    "deque": deque(make_samples(), maxlen=SAMPLES),
    "array of objects": make_object_array(),
    "function": make_closure(),
}


@pytest.mark.parametrize("kind", HOLDERS)
def test_arrays_are_found_in_what_holds_them(kind):
    found = find_holders([("the buffer", HOLDERS[kind])], find_array_storage, ())
    overhead = HOLDERS[kind].nbytes if kind == "array of objects" else 0
    assert found == {"the buffer": SAMPLES * SAMPLE_BYTES + overhead}


def test_a_holder_that_was_searched_in_part_says_so(monkeypatch):
    monkeypatch.setattr(holders, "MOST_VISITED", SAMPLES // 2)
    found = find_holders([("the buffer", make_samples())], find_array_storage, ())
    ((name, size),) = found.items()
    assert name == "the buffer, of which 50 objects were searched"
    assert 0 < size < SAMPLES * SAMPLE_BYTES
