"""What a probe worker is told to do: read by the parent and by the worker. Standard library only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

UNDER = "under the limit"  # ends the name of a phase in which the limit is enforced


@dataclass(frozen=True)
class Order:
    """What a probe worker is to do. Without a budget it does the same without a limit."""

    do: Literal["fit", "evaluate"]
    case: str  # an id whose batch may be any
    budget: int | None  # bytes
    samples: int = 0  # evaluate: of so many, which are the same whatever the batch
    first: int = 0  # evaluate: the first that is not yet done

    def as_dict(self) -> dict[str, object]:
        return asdict(self)
