"""What a worker's answer says of a bug: the status by the harness's own rule, what was furthest
off, and by how much.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from framebench.engine.recording import judge
from framebench.engine.runner import CaseOutcome
from framebench.records.record import Status, read_result
from framebench.suite.case import Case
from framebench.suite.result import Mathematics, to_json

LATER = " after the timed steps"
IN_FLOAT64 = " in float64"
WORDS = {  # of verification's reasons that are no error of a value or tensor, by what they contain
    "states take": "bytes of the optimizer's states",
    "that should have none": "tensors that should not exist",
    "no gradient of": "missing tensors",
    "as it was": "steps that changed nothing",
    "had stopped": "the clock",
    "other inputs": "other inputs",
    "as the first one did": "steps without an output of their own",
    "repeated, a step": "repeated steps",
}


@dataclass(frozen=True)
class Found:
    """What came of one worker.

    `by` is the quantity with the largest error, `margin` that error in units of its tolerance:
    above 1 it is wrong. None: there is no such number, and `by` says what was seen instead.
    """

    status: str  # as of a record, and "not proven" for an `ok` without a confirmed effect
    by: str
    margin: float | None
    reason: str
    seconds: float


def outcome_of(code: int, out: str, log: str) -> CaseOutcome:
    final: dict[str, Any] = {}
    for line in out.splitlines():
        with suppress(ValueError):
            final |= json.loads(line)
    if "result" in final:
        return CaseOutcome(result=read_result(final["result"]))
    said = final.get(
        "error", {"type": f"exit code {code}", "message": "\n".join(log.splitlines()[-5:])}
    )
    status: Status = "unsupported" if said.get("no_device") else "crashed"
    return CaseOutcome(
        status, f"{said['type']} during {final.get('phase')}: {said['message']}", log=log
    )


def judged(
    case: Case, outcome: CaseOutcome, seconds: float, mathematics: Mathematics | None = None
) -> Found:
    """Give the status by the harness's own rule."""
    verdict = judge(outcome, mathematics, "time", case)
    reason = shorten(verdict.reason or "")
    if mathematics and not mathematics.passed:
        by, margin = in_float64(mathematics)
        return Found(verdict.status, by, margin, reason, round(seconds, 1))
    effect = outcome.result.effect
    is_unproven = verdict.status == "ok" and not (effect and effect.proven)
    by, margin = worst(to_json(outcome.result.verification) if outcome.result.verification else {})
    return Found(
        "not proven" if is_unproven else verdict.status, by, margin, reason, round(seconds, 1)
    )


def in_float64(mathematics: Mathematics) -> tuple[str, float | None]:
    """What was furthest off in float64, and by how many tolerances; None where tensors are missing
    or infinite.
    """
    error, tolerance = mathematics.error, mathematics.tolerance
    if error is None or not tolerance or error <= tolerance:
        reason = mathematics.reason or ""
        return next(
            (word for text, word in WORDS.items() if text in reason), "mathematics"
        ) + IN_FLOAT64, None
    return mathematics.worst + IN_FLOAT64, error / tolerance


def shorten(reason: str, most: int = 500) -> str:
    """Beginning and end: a framework's message names its cause last."""
    return reason if len(reason) <= most else f"{reason[: most // 2]} ... {reason[-most // 2 :]}"


def worst(verification: dict[str, Any]) -> tuple[str, float | None]:
    """What is furthest off of all values and kinds of tensors, before the timed steps and after
    them, and by how many tolerances. Where nothing is beyond its tolerance and it is wrong all the
    same, the reason in a few words, and None.
    """
    off = dict(margins(verification))
    by = max(off, key=lambda name: math.inf if math.isnan(off[name]) else off[name], default="")
    if reason := next(reasons(verification), "") if not by or off[by] <= 1 else "":
        return reason, None
    return by, off[by] if by and math.isfinite(off[by]) else None


def margins(verification: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Error over tolerance of each value, and of the worst tensor of each kind."""
    tolerances = verification.get("tolerance", {})
    for part, when in ((verification, ""), (verification.get("again") or {}, LATER)):
        for name, error in part.get("relative_error", {}).items():
            yield name + when, over(error, part.get("tolerance", tolerances)[name])
        for kind, found in part.get("tensors", {}).items():
            yield (
                f"{kind} of {found['worst']}{when}" if found["worst"] else kind + when,
                over(found["error"], found["tolerance"]),
            )


def over(error: float | None, tolerance: float) -> float:
    return math.nan if error is None else error / tolerance


def reasons(verification: dict[str, Any]) -> Iterator[str]:
    """Yield why verification failed, before and after the timed steps, in a few words."""
    for part, when in ((verification, ""), (verification.get("again") or {}, LATER)):
        reason = part.get("reason")
        if part.get("passed", True) or not reason:
            continue
        known = [word for text, word in WORDS.items() if text in reason]
        yield (known[0] if known else reason[:60]) + when
