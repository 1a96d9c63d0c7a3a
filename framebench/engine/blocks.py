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
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from framebench.engine import mathematics, pending, references, runner
from framebench.engine import page_cache as pages
from framebench.engine.capacity import Capacity, fits, free_memory
from framebench.engine.environments import Environment
from framebench.engine.groups import Group
from framebench.engine.runner import RESULTS, Memory, Options
from framebench.engine.supervisor import Outcome
from framebench.engine.timed_process import Arm, ReferenceProduct, Timed, TimedProcess
from framebench.instruments import nvml
from framebench.records import provenance, store
from framebench.records.record import Record, Turns
from framebench.suite.case import Case
from framebench.suite.protocol import Mathematics

Item = TypeVar("Item")
MathematicsCheck = Callable[[list[Arm], Options, Callable[[Case, str], None]], dict[Arm, Mathematics]]


class Listener:
    """Who wants to know how it goes; here nobody."""

    def phase(self, case: Case, what: str) -> None: ...

    def done(self, record: Record) -> None: ...

    def skipped(self, case: Case) -> None: ...


NOBODY = Listener()


@dataclass
class Run:
    """One run of the suite, as far as it measures: where records go, and what was compiled in it."""

    id: str
    options: Options
    results: Path = RESULTS
    told: Listener = field(default_factory=Listener)
    mathematics_by_arm: dict[Arm, Mathematics] = field(default_factory=dict)  # what float64 says of each arm's strategy
    check_mathematics: MathematicsCheck = mathematics.check

    def __enter__(self) -> Run:
        self.stack = ExitStack()
        self.scratch = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="framebench-")))
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    @property
    def without_times(self) -> bool:
        """Only what a loaded machine does not change: whether cases are right, and their memory."""
        return not self.options.rounds

    @property
    def compiles_alone(self) -> bool:
        return self.options.first_alone and not self.without_times

    def records(self, arm: Arm) -> list[Record]:
        """What this session has of an arm by now, oldest first."""
        where = store.folder(self.results, provenance.machine_name(), arm.environment.name, arm.case)
        return [r for r in store.all_of_session(where, self.id) if r.provenance.planted == arm.planted]

    def scratch_of(self, arm: Arm) -> Path:
        """Where the arm's programs lie once they are compiled."""
        return self.scratch / arm.environment.name / arm.case.id.replace("/", ".")

    def can_share(self, arm: Arm) -> bool:
        """Whether it may be built beside another: it has been compiled, or may compile there."""
        return not self.compiles_alone or self.scratch_of(arm).exists()

    def write(self, record: Record, arm: Arm) -> None:
        store.write(record, store.folder(self.results, record.provenance.machine, arm.environment.name, arm.case))
        self.told.done(record)


def measure(groups: list[Group], run: Run, blocks: int = 1) -> None:
    """So many blocks of each group, but for what the session has already: the first of every group, then the second.

    Raises OSError if a record cannot be written.
    """
    for number in range(blocks):
        for group in [_in_any_order(groups)] if run.without_times else groups:
            measure_group(group, run, number)


def _in_any_order(groups: list[Group]) -> Group:
    """All as one, where nothing is compared: what others are verified against comes first, and processes wait for nobody
    else."""
    arms = dict.fromkeys([arm for group in groups for arm in group.always] + [arm for g in groups for arm in g.others])
    return Group("without-times", (), tuple(arms))


def measure_group(group: Group, run: Run, number: int = 0) -> None:
    """The group's block of this number, or where memory does not suffice for one, several."""
    name = f"{run.id}/{group.name}/{number}"
    if waiting := pending.read(run.results, name):
        _complete(waiting, run)
    records = {arm: run.records(arm) for arm in (*group.always, *group.others)}
    blocks = {arm: {r.turns.block for r in records[arm] if r.turns} for arm in records}
    taken = {block for arm_blocks in blocks.values() for block in arm_blocks if block.startswith(f"{name}.")}
    left = [arm for arm in records if taken.isdisjoint(blocks[arm])]
    if run.without_times:  # nothing is compared: what is in another group's block of this number need not be in this one's
        left = [arm for arm in left if number not in map(_number_of, blocks[arm])]
    left = without_wrong_mathematics(left, run)
    sub_block = 1 + max((int(block.rpartition(".")[2]) for block in taken), default=-1)
    while left:
        arms, later = together(group, left, run)
        timed, left, crowded = _one_block(f"{name}.{sub_block}", arms, len(group.always), run)
        left += later
        for arm in crowded:  # memory ran out among others: the answer is what it does alone
            sub_block += 1
            timed += _one_block(f"{name}.{sub_block}", [arm], 1, run)[0]
        sub_block += 1
        pending.write(run.results, name, timed)
        _complete(timed, run)


def check_mathematics(arms: list[Arm], run: Run) -> None:
    """Have the mathematics of these arms checked in float64, unless the run knows of them."""
    unknown = [arm for arm in arms if arm not in run.mathematics_by_arm]
    if unknown:
        run.mathematics_by_arm |= run.check_mathematics(unknown, run.options, run.told.phase)


def without_wrong_mathematics(arms: list[Arm], run: Run) -> list[Arm]:
    """Check the mathematics of these arms in float64, and return those that may be measured.

    An arm whose mathematics is wrong gets its record at once: nothing of it is worth measuring.
    """
    check_mathematics(arms, run)
    measurable = []
    for arm in arms:
        outcome = run.mathematics_by_arm.get(arm)
        if outcome is None or outcome["passed"]:
            measurable.append(arm)
        elif not run.records(arm):
            run.write(joined(arm, {}, run), arm)
    return measurable


def _number_of(block: str) -> int:
    return int(block.rpartition("/")[2].partition(".")[0])


def together(group: Group, left: list[Arm], run: Run) -> tuple[list[Arm], list[Arm]]:
    """The arms of the next block and those that wait for another. Without times nothing is compared: then as many as there are
    cores, so that little is lost by an interruption."""
    if run.without_times:
        at_once = len(run.options.cores())
        return left[:at_once], left[at_once:]
    return [*group.always, *(arm for arm in group.others if arm in left)], []


def _one_block(block: str, arms: list[Arm], first: int, run: Run) -> tuple[list[Timed], list[Arm], list[Arm]]:
    """A block of as many arms as fit, of which the `first` and one more are tried in any case: what became of each, the arms
    that did not fit, and those that ran out of memory beside others."""
    options, load, lives, files = run.options, runner.load_average(), list[TimedProcess](), set[Path]()
    try:
        start(arms, first, lives, run)
        files = set[Path]().union(*(live.files() for live in lives))
        seed = secrets.randbelow(2**31)
        product = _take_turns([live for live in lives if live.ready], seed, run)
        for some in _parted([live for live in lives if live.ready], len(options.cores())):
            for live, core in zip(some, options.cores()):
                live.finish(core)
            for live in some:
                live.end()
    finally:
        for live in lives:
            live.kill()
    if not run.without_times and not nvml.gpus():  # kernels on a card do not lie in the host's pages
        pages.renew(files)
    _disown(lives)
    timed = [
        Timed(live.arm, turns(live, i, lives, block, seed, product), outcome(live), live.cold, load)
        for i, live in enumerate(lives)
    ]
    crowded = [t for t in timed if t.outcome.status == "oom" and len(lives) > 1 and options.memory_limit is None]
    return [t for t in timed if t not in crowded], arms[len(lives) :], [t.arm for t in crowded]


def start(arms: list[Arm], first: int, lives: list[TimedProcess], run: Run) -> None:
    """Fill `lives`, of which the `first` and one more are tried in any case. What compiles is alone, since its first step is
    timed; what finds everything compiled is built beside others, each on a core of its own."""
    capacity, cores = Capacity(), run.options.cores()
    while left := arms[len(lives) :]:
        ready, some = [live for live in lives if live.ready], list[TimedProcess]()
        for arm, core in zip(left, cores):
            must = len(lives) <= first
            alone = some and (not run.can_share(arm) or (some[0].cold and run.compiles_alone))
            if alone or _waits(arm.case, some, run, lives) or not (must or capacity.fits_more(ready, 1 + len(some))):
                break
            live = TimedProcess(arm, run.options, run.scratch_of(arm), partial(run.told.phase, arm.case))
            lives.append(live)
            some.append(live)
            live.start(reference(arm.case, run, lives), core)
        if not some:
            return
        for live in some:
            live.get_ready()
            capacity.enter(live.worker.process.pid if live.worker else None)


def _waits(case: Case, some: list[TimedProcess], run: Run, lives: list[TimedProcess]) -> bool:
    """For the values of one that is being built, which it will be verified against."""
    rivals = any(live.arm.case.golden_key == case.golden_key for live in some)
    return rivals and references.needed(case) and reference(case, run, lives) is None


def _parted(items: list[Item], at_once: int) -> Iterator[list[Item]]:
    for i in range(0, len(items), at_once):
        yield items[i : i + at_once]


def _take_turns(lives: list[TimedProcess], seed: int, run: Run) -> ReferenceProduct | None:
    """The rounds: in each the reference product, then every arm in random order."""
    if not lives or run.without_times:
        return None
    order, start = random.Random(seed), time.monotonic()
    with ReferenceProduct(run.options, run.scratch) as product:
        for number in range(run.options.rounds):
            run.told.phase(lives[0].arm.case, f"round {number + 1} of {run.options.rounds}, {len(lives)} in turn")
            product.turn(number)
            for live in order.sample(lives, len(lives)):
                if live.ready and number < live.rounds:
                    live.turn(number, start)
    return product


def outcome(live: TimedProcess) -> Outcome:
    assert live.outcome
    live.outcome.seconds = live.seconds
    return live.outcome


def turns(
    live: TimedProcess, number: int, lives: list[TimedProcess], block: str, seed: int, product: ReferenceProduct | None
) -> Turns:
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


def reference(case: Case, run: Run, lives: list[TimedProcess]) -> references.Reference | None:
    """What the case is verified against where there are no float64 values: an arm of this block, or a record of the run."""
    alive = [(live.arm.case, live.verification) for live in lives if live.verification]
    return references.among(case, alive) or references.find(case, run.id, run.results / "records" / provenance.machine_name())


def _disown(lives: list[TimedProcess]) -> None:
    """An arm that was verified against one that came out wrong in the end is not verified."""
    for live in lives:
        against = live.verification.get("against")
        for other in lives:
            if other.arm.case.id == against and not (outcome(other).status == "ok" and runner.passed(outcome(other))):
                verdict = outcome(live).result.get("verification")
                if verdict is not None:
                    verdict |= {"passed": False, "reason": f"it was verified against {against}, which came out wrong"}


def _complete(timed: list[Timed], run: Run) -> None:
    """The memory of those arms that the session has none of yet, and the records of all. What comes to its end is written at
    once, and what was interrupted goes on from there."""
    name = timed[0].turns.block
    having = {t.turns.arm for t in timed if any(r.peaks and not _in_block(r, t) for r in run.records(t.arm))}
    left = [t for t in timed if not any(_in_block(r, t) and r.turns and r.turns.arm == t.turns.arm for r in run.records(t.arm))]
    roomy = fits([max((t.outcome.held for t in left), default=0)], free_memory(), len(run.options.cores()))
    for some in _parted(left, len(run.options.cores()) if roomy else 1):
        with ExitStack() as stack:
            due = [t for t in some if run.options.peaks_each_block or t.turns.arm not in having]
            wanted = due if run.options.memory else []
            memory = {t.turns.arm: m for t in wanted if (m := _memory_of(t, run, stack))}
            for t in some:
                run.write(record(t, run, memory.get(t.turns.arm)), t.arm)
    pending.remove(run.results, name.rpartition(".")[0])


def _memory_of(timed: Timed, run: Run, stack: ExitStack) -> Memory | None:
    """The process for the arm's memory, gone when the stack closes; none where the other half did not come out right."""
    if timed.outcome.status != "ok" or not runner.passed(timed.outcome):
        return None
    memory_process = Memory(timed.arm.case, timed.arm.environment, run.options, run.scratch_of(timed.arm), timed.arm.extra)
    stack.callback(memory_process.kill)
    return memory_process


def _in_block(record: Record, timed: Timed) -> bool:
    return record.turns is not None and record.turns.block == timed.turns.block


def record(timed: Timed, run: Run, memory: Memory | None) -> Record:
    """Both halves of an arm, when the memory's process has ended."""
    outcomes, card = {"time": timed.outcome}, nvml.state()
    if memory:
        outcomes["memory"] = memory.end(partial(run.told.phase, timed.arm.case))
    if not timed.cold or run.without_times or (nvml.gpus() and not run.compiles_alone):
        timed.outcome.result.pop("first_step_s", None)  # it found compiled what the first block's compiled, or was not alone
    return joined(timed.arm, outcomes, run, timed.turns, timed.load, card)


def joined(
    arm: Arm, outcomes: dict[str, Outcome], run: Run, turns: Turns | None = None, load: float | None = None,
    card: dict[str, Any] | None = None,
) -> Record:  # fmt: skip
    """The record of an arm, by what its processes found."""
    fields, status, reason = runner.join(outcomes, run.mathematics_by_arm.get(arm))
    if status == "timeout" and (cause := runner.too_slow(arm.case)):
        reason = f"{reason}; {cause}"
    origin = runner.provenance_of(
        arm.case, run.id, arm.environment, run.options, load, outcomes, run.results, card, arm.planted
    )
    log = next((o.log for o in outcomes.values() if o.log), None)
    return Record(
        case=arm.case.id, status=status, reason=reason, log_tail=log, provenance=origin, turns=turns,
        spent_s=runner.spent(outcomes), **fields,
    )  # fmt: skip


def not_measured(case: Case, run: Run, environment: Environment) -> Record:
    """The record of a case that this machine cannot measure: the reason. Once in a run."""
    arm = Arm(case, environment)
    if earlier := run.records(arm):
        return earlier[-1]
    origin = runner.provenance_of(case, run.id, environment, run.options, runner.load_average(), {}, run.results)
    new_record = Record(case=case.id, status="unsupported", reason=runner.unsupported(case), provenance=origin)
    run.write(new_record, arm)
    return new_record
