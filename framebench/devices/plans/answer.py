"""What a planner answers: JSON on its last line, which the parent reads.

Standard library only, as planners use it.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

# in `flags`: whether cuDNN was asked for the workspaces of a simulation's convolutions
CONVOLUTIONS = "convolutions"
ASKED = "workspaces asked of cuDNN"
NOT_ASKED = "workspaces not known"
# in `parts` of a case that is not planned: bytes that it takes at least, and at most
AT_LEAST = "at_least"
AT_MOST = "at_most"
# in `flags` of a user's file: the kind of prediction, which the case alone does not tell
STEP_KIND = "kind of step"

# refused: the compiler says that it cannot fit. not planned: nothing can tell, and trying again
# gives the same answer. failed: what was not foreseen, or ran out of time; tried again when asked
# for again
PlanOutcome = Literal["planned", "refused", "not planned", "failed"]


@dataclass(frozen=True)
class LineBuffers:
    """The buffers of one shape that one line of the source requests."""

    bytes: int  # of all of them
    # of the source that asked for it, or the operator; empty if the compiler does not tell
    line: str
    shape: str
    count: int


@dataclass
class PlannerAnswer:
    """Fields of `planned.Planned`, which says what they mean, and of its origin."""

    outcome: PlanOutcome
    reason: str | None = None
    needs_bytes: int | None = None
    peak_bytes: int | None = None
    parts: dict[str, int] = field(default_factory=dict)
    largest: Sequence[LineBuffers] = ()
    not_held: Sequence[str] = ()
    notes: Sequence[str] = ()
    compiler: str = ""
    flags: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the answer in one line."""
        return json.dumps(asdict(self))


def parse_answer(printed: str) -> PlannerAnswer:
    """Return the answer in the last line of what a planner printed.

    Raises ValueError if the line is no answer.
    """
    lines = printed.strip().splitlines()
    try:
        return PlannerAnswer(**json.loads(lines[-1]))
    except (IndexError, TypeError, RecursionError) as error:
        raise ValueError("the last line is no answer") from error


def describe_end(code: int, errors: str) -> str:
    """Return why a planner ended without an answer: by its exit code and what it printed."""
    if code == -signal.SIGKILL:
        return "the planner was killed: this machine ran out of memory, or somebody ended it"
    return f"the planner ended with {code}: {shorten_error(errors)}"


def shorten_error(text: str) -> str:
    """Return the line of an error that names the last exception, or else the last line.

    Messages of PyTorch's go on for pages.
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    named = [
        line for line in lines if re.match(r"[\w.]+(Error|Exception|Exit|Fault|Interrupt): ", line)
    ]
    return (named or lines or ["it said nothing"])[-1].strip()[:500]
