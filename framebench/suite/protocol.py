"""What parent and worker agree on: the protocol's version and the knobs of a measurement.

A worker is started with a Task as JSON on its command line, and prints one JSON object a line: `{"phase": ...}` while it works,
then `{"result": {...}}` or `{"error": {...}}`. Parts of the result are told before, `{"measured": {...}}`, when they are known:
what ends the worker later does not take them. Both sides import it.

The part `time` says `{"ready": {"step_s": ..., "verification": ..., "queues": ...}}` once it has warmed up, and takes orders,
one JSON object a line on standard input: to `{"turn": n}` it makes n steps and answers `{"turn": {"wall_s": ..., "cpu_s": ...,
"instructions": ..., "device_s": ...}}`, all of one step. Where it `queues` steps, on a device, `{"synced": n}` asks for n that
are waited for one by one, and is answered by the seconds of one. After `{"finish": true}`, which may name a `"core"` to do it
on, it verifies what was timed and gives its result. If its standard input ends before, so does it, without a result.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from framebench.suite.tensors import Summaries

# Raised whenever a change makes new numbers incomparable with old ones. 2: Jittor's views count as what they keep. 3: other
# canonical values, verified tensor by tensor; garbage is collected before live bytes are read.
VERSION = 3
HELD = "study-memory"  # begins the names of the blocks of docs/study.md that are for memory


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
    warmup: int = 3  # steps that do not count, of those that verification needs
    budget_s: float = 900.0  # a case whose steps would take longer altogether ends at once
    memory_steps: int = 3  # at most so many steady steps whose peak is taken, beginning with the second step of all
    memory_budget_s: float = 1.0  # after which one of them is enough
    core: int | None = None  # pin the process to this core
    built_on: int | None = None  # but until it is ready to this one
    memory_limit: int | None = None  # bytes of private memory the worker may map
    reference: Reference | None = None  # where golden.json has no values
    # For studies of what verdicts find, which plant a known difference. No case is measured like this.
    spin: float = 0.0  # a share of its own time by which each timed step is made longer
    extra: float = 0.0  # a share of its peak by which each step holds more

    @staticmethod
    def from_dict(fields: dict[str, Any]) -> Task:
        """The inverse of `as_dict`."""
        reference = fields.get("reference")
        return Task(**{**fields, "reference": Reference(**reference) if reference else None})

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def turns(count: int, steps: int = 1) -> str:
    """All orders of a block of its own, for a worker whose standard input is a file."""
    return "".join(json.dumps(order) + "\n" for order in [*([{"turn": steps}] * count), {"finish": True}])


LOSS_STEPS = 1  # the second verified loss is observed after this many updates
