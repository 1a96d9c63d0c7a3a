"""What parent and worker agree on: the protocol's version and the knobs of a measurement.

A worker is started with a Task as JSON on its command line, and prints one JSON object a line: `{"phase": ...}` while it works,
then `{"result": {...}}` or `{"error": {...}}`. Both sides import it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from framebench.suite.tensors import Summaries

# Raised whenever a change makes new numbers incomparable with old ones. 2: Jittor's views count as what they keep. 3: other
# canonical values, verified tensor by tensor; garbage is collected before live bytes are read.
VERSION = 3


@dataclass(frozen=True)
class Reference:
    """Values of another case of the session to verify against, where there are none in float64."""

    case: str
    values: dict[str, float]
    tensors: Summaries
    wider: float  # the tolerance is so many times that against float64


@dataclass(frozen=True)
class Task:
    """One worker's orders."""

    case: str  # a full case id
    part: str  # "time" | "memory"
    samples: int = 20  # at most so many timed steps
    min_samples: int = 3  # at least so many, however slow they are
    warmup: int = 3  # steps that do not count, of those that verification needs
    budget_s: float = 2.0  # sampling stops after this time once min_samples are there
    memory_steps: int = 3  # at most so many steady steps whose peak is taken, beginning with the second step of all
    memory_budget_s: float = 1.0  # after which one of them is enough
    core: int | None = None  # pin the process to this core
    memory_limit: int | None = None  # bytes of private memory the worker may map
    reference: Reference | None = None  # where golden.json has no values

    @staticmethod
    def from_dict(fields: dict[str, Any]) -> Task:
        """The inverse of `as_dict`."""
        reference = fields.get("reference")
        return Task(**{**fields, "reference": Reference(**reference) if reference else None})

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


LOSS_STEPS = 3  # the second verified loss is observed after this many updates
