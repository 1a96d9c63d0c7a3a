"""Record a tensor's memory from its making to its end in one step. Standard library only."""

from __future__ import annotations

import math
from dataclasses import dataclass

NEVER = math.inf


@dataclass(eq=False)
class Value:
    """One tensor's memory, alive from event `born` until before event `died`."""

    kind: str
    layer: str  # path of the module that made it
    phase: str  # the phase that made it, or "before" if it was there before the step
    by: str = ""  # the operator that made it
    size: int = 0  # bytes
    born: float = 0
    died: float = NEVER

    def is_alive(self, event: int) -> bool:
        """Return whether the memory is held at an event."""
        return self.born <= event < self.died
