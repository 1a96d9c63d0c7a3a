"""The list of claims has the step times that stand beside a claim about something else."""

from __future__ import annotations

from dataclasses import replace

from framebench.claims.show import in_short
from tests.published.test_claims import entries


def measured(name: str) -> str:
    (found,) = [entry for entry in entries("xeon-2core") if entry.name == name]
    return in_short([found]).rows[0][2]


def test_times_beside_a_claim_are_those_of_plain_arms_with_an_interval() -> None:
    """Whoever asks whether checkpointing makes a step 30 % slower finds passes judged, and what a processor's steps took."""
    (passes,) = [entry for entry in entries("xeon-2core") if entry.name == "B2 passes"]
    named = {
        one.name.split()[0]: one for one in passes.lines if one.name.split()[1:] in (["time", "b8/cpu"], ["time", "b4/cpu"])
    }
    beside = [100 * (one.value - 1) for one in named.values() if one.value is not None and one.low is not None]
    assert len(beside) > 5
    assert measured("B2 passes").endswith(f"; its time on a CPU: {min(beside):+.1f} to {max(beside):+.1f} %")
    plain = next(one for one in passes.lines if one.name == "resnet50/torch time b8/cpu")
    draws = [replace(plain, value=9.0, low=None, high=None), replace(plain, value=9.0, low=9.0, high=9.0, device="a card")]
    assert in_short([replace(passes, lines=(*passes.lines, *draws))]).rows == in_short([passes]).rows


def test_a_claim_without_times_beside_it_has_none() -> None:
    assert "its time" not in measured("A11")
