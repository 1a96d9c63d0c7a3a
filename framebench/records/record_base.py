"""Name the instruments, statuses and cases of records."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal

from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case

Status = Literal["ok", "oom", "timeout", "crashed", "unsupported", "wrong"]
# The first of these that a record has is its `peak`: exact counters of the framework come before
# the kernel's view.
OWN_COUNTERS = ("allocator.in_use", "compiler.plan")  # no two frameworks count the same
INSTRUMENTS = (*OWN_COUNTERS, "host.rss")
# NVML's: of the process, and of a GPU that nobody else used
ON_GPU = ("device.process", "device.card")
ROUNDS = 3  # the fewest by which a block's times count; fewer were measured for peaks


# of a workload, scenario, strategy or size; a point stands between others alone, as in 1.3B
NAME = re.compile(r"[\w+-]+(?:\.[\w+-]+)*")


@cache  # reading thousands of records asks for the same cases again and again
def parse_case(text: str) -> Case:
    """Return the case with this id, whether this version has it (`Case.is_known`) or not.

    Records outlive the catalog. Raises ValueError for what is no such id.
    """
    mistake = f"{text!r} is no case: workload/framework/scenario/strategy/bN/size"
    try:
        case = Case.from_id(text)
    except ValueError:
        raise ValueError(mistake) from None
    if case.framework not in FRAMEWORKS or not all(map(NAME.fullmatch, text.split("/"))):
        raise ValueError(mistake)
    return case


def find_first(instruments: Sequence[str], peaks: Mapping[str, int]) -> str | None:
    """Return the first of these instruments that read a peak, or None if none of them did."""
    for name in instruments:
        if name in peaks:
            return name
    return None
