"""Evaluation of many samples within a budget of memory, whose batch is halved when it runs out.

If the framework raises, the worker recovers by itself. If the process dies, a new one begins at the
first sample that was not reported. Only samples that were reported to this process count as done.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from framebench.budget.max_batch.order import ProbeOrder
from framebench.budget.max_batch.probes import Progress, find_first_line, run_order
from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.engine.timed_process import ignore_phase
from framebench.suite.case import Case
from framebench.suite.counting import format_count
from framebench.suite.protocol import BatchReport


@dataclass(frozen=True)
class Recovery:
    """Memory ran out at sample `first` with batch `batch`; the next attempt took half of it."""

    first: int
    batch: int
    how: Literal["in the process", "by a new process"]
    reason: str


@dataclass
class EvaluationReport:
    """The losses that processes reported of `samples` samples, and how often memory ran out.

    `failure` says why the evaluation ended before its last sample; empty if it did not.
    """

    samples: int
    losses: dict[int, float] = field(default_factory=dict)  # by sample
    twice: int = 0  # how many samples were reported a second time
    batches: Counter[int] = field(default_factory=Counter)  # size -> how many were finished
    recoveries: list[Recovery] = field(default_factory=list)
    limited: bool = False
    failure: str = ""

    @property
    def first_undone(self) -> int:
        """Return the first sample that is not done, or `samples` where all are."""
        return min(set(range(self.samples)) - self.losses.keys(), default=self.samples)

    @property
    def lost(self) -> int:
        """Return how many samples have no loss."""
        return self.samples - len(self.losses)

    @property
    def total(self) -> float:
        """Return the correctly rounded sum of the losses, which does not depend on the batches."""
        return math.fsum(self.losses.values())

    def add(self, report: BatchReport) -> None:
        """Add one finished or failed batch."""
        first, batch = report["first"], report["batch"]
        if "losses" in report:
            losses = dict(enumerate(report["losses"], first))
            self.twice += len(losses.keys() & self.losses.keys())
            self.losses |= losses
            self.batches[batch] += 1
        elif "ran_out" in report:
            reason = find_first_line(report["ran_out"])
            self.recoveries.append(Recovery(first, batch, "in the process", reason))

    def as_dict(self) -> dict[str, Any]:
        """Return the evaluation for programs."""
        return {
            "samples": self.samples,
            "done": len(self.losses),
            "lost": self.lost,
            "done_twice": self.twice,
            "loss_sum": self.total,
            "loss_mean": self.total / len(self.losses) if self.losses else None,
            "batches": self.batches,
            "recoveries": [vars(recovery) for recovery in self.recoveries],
            "limited": self.limited,
            "failure": self.failure or None,
        }


def evaluate_in(
    environment: Environment,
    case: Case,
    samples: int,
    budget: int | None,
    options: Options,
    progress: Progress = ignore_phase,
) -> EvaluationReport:
    """Evaluate samples in batches of at most `case.batch`.

    Where a process dies for lack of memory, a new one goes on with half of its batch. Where it ends
    for another reason, or with a batch of one sample, `failure` of the report says why.
    """
    evaluation = EvaluationReport(samples)
    batch = min(case.batch, samples)
    while evaluation.lost:
        first = evaluation.first_undone
        order = ProbeOrder("evaluate", replace(case, batch=batch).id, budget, samples, first)
        outcome = run_order(order, environment, options, progress)
        for report in outcome.reports:
            evaluation.add(report)
        evaluation.limited = evaluation.limited or outcome.answer.get("limited", False)
        # without the second condition, a process that does nothing would be started for ever
        if outcome.status == "ok" and evaluation.first_undone > first:
            continue
        # the worker may have halved the batch before it died
        last_batch = outcome.reports[-1]["batch"] if outcome.reports else batch
        reason = find_first_line(outcome.reason or "the worker ended without a result")
        if not outcome.ran_out:
            evaluation.failure = reason
            break
        if last_batch == 1:
            evaluation.failure = f"batch 1 does not fit: {reason}"
            break
        recovery = Recovery(evaluation.first_undone, last_batch, "by a new process", reason)
        evaluation.recoveries.append(recovery)
        batch = last_batch // 2
    return evaluation


def describe_evaluation(evaluation: EvaluationReport) -> Iterator[str]:
    """Yield lines with the counts of an evaluation: samples, recoveries and loss."""
    done = len(evaluation.losses)
    yield (
        f"samples done {done} of {evaluation.samples}, lost {evaluation.lost}, done twice "
        f"{evaluation.twice}"
    )
    yield f"memory ran out {format_count(len(evaluation.recoveries), 'time')}"
    for recovery in evaluation.recoveries:
        attempt = f"at sample {recovery.first} with batch {recovery.batch}"
        yield f"  {attempt}, recovered {recovery.how}: {recovery.reason}"
    if done:
        yield f"loss: mean {evaluation.total / done:.6f}, sum {evaluation.total:.6f}"
    if not evaluation.limited and not evaluation.failure:
        yield "nothing enforces a limit on this device"
