"""The peak of one rank that was not measured, as `framebench predict CASE --ranks N --json` prints
it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from framebench.records.record import Part


class Prediction(Part):
    """The peak of a steady step of the fullest rank, in bytes. The parts sum to it."""

    case: str  # with the batch of all ranks together
    ranks: int
    rank: int  # which of them it is
    instrument: Literal["predicted"] = "predicted"
    peak_bytes: int
    parts: dict[str, int]
    note: str  # what is not in it
    versions: dict[str, str]

    @model_validator(mode="after")
    def check_sum(self) -> Prediction:
        """Raise ValueError unless the parts sum to the peak."""
        total = sum(self.parts.values())
        if total != self.peak_bytes:
            raise ValueError(f"the parts sum to {total} bytes, the peak is {self.peak_bytes}")
        return self
