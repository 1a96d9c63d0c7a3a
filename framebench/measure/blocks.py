"""Times that can be compared: the arms of a block are processes that are alive at once on one core, and take turns.

Equal processes that run one after the other differ by tens of per cent, since a machine drifts; in turn they differ by a few.
So a ratio is taken within a round of a block, and judged over several blocks, each of fresh processes. A case whose memory was
not yet measured in the session has a process of its own for that when the block's rounds are over.
"""

from __future__ import annotations

import random
import secrets
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from framebench.instruments import nvml
from framebench.measure import pending, references, runner
from framebench.measure.environments import Environment, describe
from framebench.measure.groups import Group
from framebench.measure.live import Arm, Live, Product, Timed
from framebench.measure.room import Room
from framebench.measure.runner import RESULTS, USUAL, Options
from framebench.measure.supervisor import Outcome
from framebench.records import provenance, store
from framebench.records.record import Record, Turns
from framebench.suite.case import Case


class Listener:
    """Who wants to know how it goes; here nobody."""

    def phase(self, case: Case, what: str) -> None: ...

    def done(self, record: Record) -> None: ...


NOBODY = Listener()


@dataclass
class Run:
    """One run of the suite, as far as it measures: where records go, and what was compiled in it."""

    id: str
    options: Options
    results: Path = RESULTS
    told: Listener = field(default_factory=Listener)

    def __enter__(self) -> Run:
        self.stack = ExitStack()
        self.scratch = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="framebench-")))
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    def records(self, arm: Arm) -> list[Record]:
        """What this session has of an arm by now, oldest first."""
        where = store.folder(self.results, provenance.machine_name(), arm.environment.name, arm.case)
        return [r for r in store.all_of_session(where, self.id) if r.provenance.planted == arm.planted]

    def write(self, record: Record, arm: Arm) -> None:
        store.write(record, store.folder(self.results, record.provenance.machine, arm.environment.name, arm.case))
        self.told.done(record)


def measure(found: list[Group], run: Run, blocks: int = 1) -> None:
    """So many blocks of each group, but for what the session has already: the first of every group, then the second.

    Raises OSError if a record cannot be written.
    """
    for number in range(blocks):
        for group in found:
            measure_group(group, run, number)


def measure_group(group: Group, run: Run, number: int = 0) -> None:
    """The group's block of this number, or where memory does not suffice for one, several."""
    name = f"{run.id}/{group.name}/{number}"
    if waiting := pending.read(run.results, name):
        complete(waiting, run)
    records = {arm: run.records(arm) for arm in (*group.always, *group.others)}
    blocks = {arm: {r.turns.block for r in records[arm] if r.turns} for arm in records}
    taken = {block for found in blocks.values() for block in found if block.startswith(f"{name}.")}
    left = [arm for arm in records if taken.isdisjoint(blocks[arm])]
    lot = 1 + max((int(block.rpartition(".")[2]) for block in taken), default=-1)
    while left:
        others = [arm for arm in group.others if arm in left]
        timed, left, crowded = one_block(f"{name}.{lot}", [*group.always, *others], len(group.always), run)
        for arm in crowded:  # memory ran out among others: the answer is what it does alone
            lot += 1
            timed += one_block(f"{name}.{lot}", [arm], 1, run)[0]
        lot += 1
        pending.write(run.results, name, timed)
        complete(timed, run)


def one_block(block: str, arms: list[Arm], first: int, run: Run) -> tuple[list[Timed], list[Arm], list[Arm]]:
    """A block of as many arms as fit, of which the `first` and one more are tried in any case: what became of each, the arms
    that did not fit, and those that ran out of memory beside others."""
    options, room, load, lives = run.options, Room(), runner.load_average(), list[Live]()
    try:
        for arm in arms:
            if len(lives) > first and not room.fits_another([live for live in lives if live.ready]):
                break
            folder = run.scratch / arm.environment.name / arm.case.id.replace("/", ".")
            live = Live(arm, options, folder, partial(run.told.phase, arm.case))
            lives.append(live)
            live.start(reference(arm.case, run, lives))
            room.enter()
        seed = secrets.randbelow(2**31)
        product = take_turns([live for live in lives if live.ready], seed, run)
        for live in lives:
            if live.ready:
                live.finish()
    finally:
        for live in lives:
            live.kill()
    disown(lives)
    timed = [
        Timed(live.arm, turns(live, i, lives, block, seed, product), outcome(live), live.cold, load)
        for i, live in enumerate(lives)
    ]
    crowded = [t for t in timed if t.outcome.status == "oom" and len(lives) > 1 and options.memory_limit is None]
    return [t for t in timed if t not in crowded], arms[len(lives) :], [t.arm for t in crowded]


def take_turns(lives: list[Live], seed: int, run: Run) -> Product | None:
    """The rounds: in each the reference product, then every arm in random order."""
    if not lives:
        return None
    order, start = random.Random(seed), time.monotonic()
    with Product(run.options, run.scratch) as product:
        for number in range(run.options.rounds):
            run.told.phase(lives[0].arm.case, f"round {number + 1} of {run.options.rounds}, {len(lives)} in turn")
            product.turn(number)
            for live in order.sample(lives, len(lives)):
                if live.ready and number < live.rounds:
                    live.turn(number, start)
    return product


def outcome(live: Live) -> Outcome:
    assert live.outcome
    live.outcome.seconds = live.seconds
    return live.outcome


def turns(live: Live, number: int, lives: list[Live], block: str, seed: int, product: Product | None) -> Turns:
    """Without rounds where there are no times."""
    timed = bool(outcome(live).result.get("step_s"))
    seconds = product.seconds if product else {}
    return Turns(
        block=block,
        arm=number,
        arms=[other.arm.case.id for other in lives],
        seed=seed,
        steps=live.steps,
        round=live.round if timed else [],
        at_s=live.at if timed else [],
        reference_s=[seconds[r] for r in live.round if r in seconds] if timed else [],
        reference_flop=product.flop if product else 0.0,
    )


def reference(case: Case, run: Run, lives: list[Live]) -> references.Reference | None:
    """What the case is verified against where there are no float64 values: an arm of this block, or a record of the run."""
    alive = [(live.arm.case, live.verification) for live in lives if live.verification]
    return references.among(case, alive) or references.find(case, run.id, run.results / "records" / provenance.machine_name())


def disown(lives: list[Live]) -> None:
    """An arm that was verified against one that came out wrong in the end is not verified."""
    for live in lives:
        against = live.verification.get("against")
        for other in lives:
            if other.arm.case.id == against and not (outcome(other).status == "ok" and runner.passed(outcome(other))):
                found = outcome(live).result.get("verification")
                if found is not None:
                    found |= {"passed": False, "reason": f"it was verified against {against}, which came out wrong"}


def complete(timed: list[Timed], run: Run) -> None:
    """The memory of those arms that the session has none of yet, and the records of all. What comes to its end is written at
    once, and what was interrupted goes on from there."""
    name = timed[0].turns.block
    having = {t.turns.arm for t in timed if any(r.peaks and not in_block(r, t) for r in run.records(t.arm))}
    for t in timed:
        if not any(in_block(r, t) and r.turns and r.turns.arm == t.turns.arm for r in run.records(t.arm)):
            wanted = run.options.peaks_each_block or t.turns.arm not in having
            run.write(record(t, run, wanted), t.arm)
    pending.remove(run.results, name.rpartition(".")[0])


def in_block(record: Record, timed: Timed) -> bool:
    return record.turns is not None and record.turns.block == timed.turns.block


def record(timed: Timed, run: Run, with_memory: bool) -> Record:
    """Both halves of an arm: the memory's process runs now, if it is wanted and the other half came out right."""
    arm, outcomes, card = timed.arm, {"time": timed.outcome}, nvml.state()
    folder = run.scratch / arm.environment.name / arm.case.id.replace("/", ".")
    folder.mkdir(parents=True, exist_ok=True)
    if with_memory and timed.outcome.status == "ok" and runner.passed(timed.outcome):
        on_phase = partial(run.told.phase, arm.case)
        outcomes["memory"] = runner.measure_memory(arm.case, arm.environment, run.options, folder, on_phase, arm.extra)
    fields, status, reason = runner.join(outcomes)
    if status == "timeout" and (cause := runner.too_slow(arm.case)):
        reason = f"{reason}; {cause}"
    if not timed.cold:
        fields.pop("first_step_s", None)  # it found compiled what the first block's compiled
    origin = runner.provenance_of(
        arm.case, run.id, arm.environment, run.options, timed.load, outcomes, run.results, card, arm.planted
    )
    log = next((o.log for o in outcomes.values() if o.log), None)
    return Record(
        case=arm.case.id, status=status, reason=reason, log_tail=log, provenance=origin, turns=timed.turns,
        spent_s=runner.spent(outcomes), **fields,
    )  # fmt: skip


def not_measured(case: Case, run: Run, environment: Environment) -> Record:
    """The record of a case that this machine cannot measure: the reason. Once in a run."""
    arm = Arm(case, environment)
    if earlier := run.records(arm):
        return earlier[-1]
    origin = runner.provenance_of(case, run.id, environment, run.options, runner.load_average(), {}, run.results)
    found = Record(case=case.id, status="unsupported", reason=runner.unsupported(case), provenance=origin)
    run.write(found, arm)
    return found


def alone(
    case: Case, session: str, environment: Environment | None = None, options: Options = USUAL, results: Path = RESULTS,
    told: Listener = NOBODY,
) -> Record:  # fmt: skip
    """A case in a block of its own, whose times have nothing to be compared with; its record, read if the session has it."""
    arm = Arm(case, environment or describe(case.framework))
    with Run(session, options, results, told) as opened:
        if runner.unsupported(case):
            return not_measured(case, opened, arm.environment)
        measure([Group(f"alone/{case.id}", (arm,))], opened)
        return opened.records(arm)[-1]
