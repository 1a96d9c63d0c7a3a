"""Two cases measured alternately, each time in fresh processes, so that what disturbs the machine disturbs both alike.

A round is one record of each case, taken within a minute or so. Rounds go A B, B A, A B, ...: what drifts steadily, or favours
whoever comes second, cancels over two rounds. `analysis.statistics` judges the rounds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from framebench.measure import runner
from framebench.measure.environments import Environment
from framebench.records import provenance, store
from framebench.records.record import Record
from framebench.records.rounds import Round
from framebench.suite.case import Case


class NotMeasured(Exception):
    """A case gave no numbers, so there is nothing to compare; the message names it and why."""


def differences(base: Case, change: Case) -> list[str]:
    """Where the cases differ in what they compute, not only in how: `batch: 4 and 8`. Empty for a fair comparison."""
    pairs = {name: (getattr(base, name), getattr(change, name)) for name in ("workload", "scenario", "batch", "size")}
    return [f"{name}: {a} and {b}" for name, (a, b) in pairs.items() if a != b]


def order(rounds: int) -> Iterator[tuple[int, int]]:
    """Arms (0 is the base) in the order of each round: (0, 1), (1, 0), (0, 1), ..."""
    for i in range(rounds):
        yield (0, 1) if i % 2 == 0 else (1, 0)


def measure(
    pair: tuple[Case, Case],
    rounds: int,
    session: str,
    ready: dict[str, Environment],
    options: runner.Options,
    results: Path,
    say: Callable[[Record], None] = lambda record: None,
) -> list[Round]:
    """The rounds, each arm a record of its own in the usual place; what this session has measured already is not repeated,
    so that the arms of a round that was interrupted lie further apart than others.

    Raises NotMeasured, OSError if a record cannot be written; what was measured until then is kept.
    """
    found = []
    machine = provenance.machine_name()
    folders = {case: store.folder(results, machine, ready[case.framework].name, case) for case in pair}
    # by case, not by arm: of a case against itself the records lie in one folder, in the order of the rounds
    kept = {case: deque(store.all_of_session(folder, session)) for case, folder in folders.items()}
    for arms in order(rounds):
        pieces: dict[int, Record] = {}
        for arm in arms:
            case = pair[arm]
            earlier = kept[case].popleft() if kept[case] else None
            record = earlier or runner.measure(case, session, ready[case.framework], options, results)
            if record.status != "ok":
                raise NotMeasured(f"{case.id} gave no numbers: {record.status}: {record.reason}")
            if not earlier:
                say(record)
            pieces[arm] = record
        found.append(Round(pieces[0], pieces[1]))
    return found
