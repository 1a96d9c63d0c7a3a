"""Measure the cases of a user's model block by block, until their ratios are decided."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from framebench.engine import blocks, runner
from framebench.engine.groups import Group
from framebench.engine.progress import CaseProgress
from framebench.engine.timed_process import Variant

# by the fact of `user_file.reference` that they are about
REMARKS = {
    "narrow": "the file computes in a lower precision by itself: its strategies are checked in "
    "that precision alone",
    "compiled": "the file compiles its model: strategies run it uncompiled, but for those that "
    "compile",
}


@dataclass
class Deadline:
    """When all must end, by `time.monotonic` in seconds; None: whenever it is done.

    What is asked about first is allowed in any case, so that a command that is repeated goes on.
    """

    moment: float | None
    progress: CaseProgress
    has_begun: bool = False  # whether something was allowed
    is_over: bool = False  # whether something was not allowed

    def has_time(self, variants: Sequence[Variant]) -> bool:
        """Return whether these variants can still be measured once, by what they should take."""
        if self.moment is None or not self.has_begun:
            return True
        cases = [variant.case for variant in variants]
        end = time.monotonic() + self.progress.estimate_block(cases)
        return not self.is_over and end <= self.moment

    def allows(self, variants: Sequence[Variant]) -> bool:
        """Return whether these variants may be measured now. If not, all is over."""
        self.is_over = not self.has_time(variants)
        self.has_begun = True
        return not self.is_over


def measure_blocks(
    variants: list[Variant],
    run: blocks.Run,
    least: int,
    deadline: float | None,
    decided: Callable[[list[Variant]], bool] | None,
) -> int:
    """Measure blocks of these variants, of which the first is the baseline; return how many.

    Args:
        variants: The baseline, and what is compared with it. What did not come out right in the
            first block, or takes many times as long because the processor has no units for it, is
            in no other: its interval is not worth the wait.
        run: Where the records go.
        least: Blocks that are measured, if there is time.
        deadline: When measuring is to end (`time.monotonic`, in seconds). Until then more blocks
            follow while ratios are undecided; the first block is measured in any case. None: the
            least, however long they take.
        decided: Whether the ratios of these variants need no more blocks. None: they need no more
            than the least.
    """
    baseline, *others = variants
    if has_failed(baseline, run):
        return 0
    others = [variant for variant in others if not has_failed(variant, run)]
    # what torch.compile takes a minute for comes last, two at once: next to it, what is built in
    # seconds would wait
    others.sort(key=lambda variant: variant.case.strategy_spec.compiles)
    number = 0
    while True:
        number += 1
        block_began = time.monotonic()
        group = Group(baseline.case.id, (baseline,), tuple(others))
        blocks.measure_group(group, run, number - 1)
        remaining = []
        for variant in (baseline, *others):
            if run.get_records(variant)[-1].usable and not runner.explain_slowness(variant.case):
                remaining.append(variant)
            else:
                run.listener.on_skipped(variant.case)
        if baseline not in remaining:
            return number
        others = [variant for variant in remaining if variant != baseline]
        now = time.monotonic()
        # another block may take as long
        is_late = deadline is not None and now + (now - block_began) > deadline
        is_decided = deadline is None or decided is None or decided(remaining)
        has_enough = number >= least and is_decided
        if is_late or has_enough:
            return number


def has_failed(variant: Variant, run: blocks.Run) -> bool:
    """Return whether a variant failed verification or broke in a first look, if there was one."""
    records = run.get_records(variant)
    return bool(records) and records[-1].status != "ok"


def list_remarks(facts: dict[str, Any]) -> list[str]:
    """Return sentences on what verification cannot see in this model, by the facts of its file."""
    remarks = []
    counts = facts.get("without_gradient", {"first": 0, "ever": [], "weights": 0})
    none = f"of {counts['weights']} weights get no gradient, or one of zeros"
    if counts["ever"]:
        remarks.append(f"{len(counts['ever'])} {none}, such as {counts['ever'][0]}")
    elif counts["first"]:
        remarks.append(f"{counts['first']} {none}, in the first step: the second verifies them")
    for name, remark in REMARKS.items():
        if facts.get(name):
            remarks.append(remark)
    return remarks
