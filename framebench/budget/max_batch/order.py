"""The order that the parent gives a probe worker. Standard library only, as both import it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

UNDER_LIMIT = "under the limit"  # ends the name of a phase in which the limit is enforced


@dataclass(frozen=True)
class ProbeOrder:
    """The orders of a probe's process. Without a budget it runs without a limit."""

    task: Literal["fit", "evaluate"]
    case: str  # an id whose batch may be any
    budget: int | None  # bytes
    samples: int = 0  # evaluate: how many there are in all
    first: int = 0  # evaluate: the index of the first sample that is not yet done
