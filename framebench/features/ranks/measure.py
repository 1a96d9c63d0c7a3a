"""A case over several ranks: two processes, one after the other, each of which launches its ranks; the record has one entry for
each rank. Ranks that share cores have no step times, and such a case is in no block."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from framebench.engine import runner
from framebench.engine.blocks import Run
from framebench.engine.environments import Environment
from framebench.engine.supervisor import Outcome, Worker
from framebench.engine.timed_process import Arm
from framebench.features.ranks import predicted as predicted_rank
from framebench.records.record import INSTRUMENTS, Record
from framebench.suite.case import Case


def measure(case: Case, environment: Environment, run: Run) -> Record:
    """Its record, which the session may have already. Raises OSError if it cannot be written."""
    arm = Arm(case, environment)
    if earlier := run.records(arm):
        return earlier[-1]
    load, outcomes = runner.load_average(), dict[str, Outcome]()
    with tempfile.TemporaryDirectory(prefix="framebench-") as scratch:
        for part in ("time", "memory"):
            outcomes[part] = carry_out(part, arm, run, Path(scratch))
            if outcomes[part].status != "ok" or not runner.passed(outcomes[part]):
                break
    every = outcomes.get("memory", Outcome()).result.pop("ranks", [])
    if every:
        outcomes["memory"].result |= {name: value for name, value in fullest(every).items() if name in runner.MEMORY_FIELDS}
    fields, status, reason = runner.join(outcomes)
    log = next((o.log for o in outcomes.values() if o.log), None)
    origin = runner.provenance_of(case, run.id, environment, run.options, load, outcomes, run.results)
    record = Record(
        case=case.id, status=status, reason=reason, log_tail=log, provenance=origin, spent_s=runner.spent(outcomes),
        ranks=every if status == "ok" else [], predicted_bytes=predicted(arm) if status == "ok" else None, **fields,
    )  # fmt: skip
    run.write(record, arm)
    return record


def predicted(arm: Arm) -> int | None:
    """Beside what was measured, where there is a prediction."""
    try:
        return predicted_rank.predict(arm.case, arm.environment).peak_bytes
    except predicted_rank.Unpredicted:
        return None


def fullest(every: list[dict[str, Any]]) -> dict[str, Any]:
    """By the first instrument that all have."""
    instrument = next(i for i in INSTRUMENTS if all(i in one_rank["peaks"] for one_rank in every))
    return max(every, key=lambda one_rank: one_rank["peaks"][instrument])


def carry_out(part: str, arm: Arm, run: Run, scratch: Path) -> Outcome:
    """Never raises for a worker's fault. No rank is pinned."""
    started = time.monotonic()
    variables = runner.worker_variables(arm.environment, arm.case, part, run.options) | arm.environment.scratch(scratch)
    variables |= {"TMPDIR": str(scratch)}  # PyTorch's launcher leaves a folder there
    task = run.options.task(arm.case, part).as_dict() | {"core": None}
    worker = Worker(arm.environment, "framebench.features.ranks.worker", task, variables, scratch / f"{part}.log")
    outcome = worker.end(partial(run.told.phase, arm.case), run.options.time_limit_s)
    outcome.seconds = time.monotonic() - started
    return outcome
