"""Have the strategies of a user's model checked in float64, against its own baseline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from framebench.engine import mathematics
from framebench.engine.capacity import fits, free_memory
from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.engine.timed_process import Arm
from framebench.instruments import nvml
from framebench.models.spec import load_workload
from framebench.suite.case import Case
from framebench.suite.result import Mathematics
from framebench.user_file.trial import UserModel
from framebench.user_model.look import compiles

FLOAT64_BY_FLOAT32 = 2  # bytes of a number
SMALLEST = 2  # samples, where the batch has as many: with one alone nothing shows that samples are mixed up


class Float64Checks:
    """Checks arms of one session when a run asks for them.

    All that compile nothing are checked when the first of them is asked for; what compiles for minutes is checked
    when its turn comes. `held` is what a process of the baseline took, in bytes: it decides how many run at once.
    """

    def __init__(self, model: UserModel, arms: list[Arm], held: int) -> None:
        self.model, self.arms, self.held = model, arms, held
        self.batch = small_batch([arm.case for arm in arms])

    def __call__(self, arms: list[Arm], options: Options, on_phase: Callable[[Case, str], None]) -> dict[Arm, Mathematics]:
        """Return what float64 says of these arms, and of all that are checked with them."""
        wanted = list(arms)
        if any(not compiles(arm.case) for arm in arms):
            wanted += [arm for arm in self.arms if not compiles(arm.case) and arm not in arms]
        file = Path(load_workload("own").folder) / "mathematics.jsonl"
        groups: dict[Environment, list[Arm]] = defaultdict(list)
        for arm in wanted:
            groups[arm.environment].append(arm)
        outcomes: dict[Arm, Mathematics] = {}
        for environment, several in groups.items():
            small = {arm: replace(arm.case, batch=self.batch) for arm in several}
            baseline = replace(self.model.baseline, batch=self.batch)
            told = partial(on_phase, several[0].case)
            processes = 1 if nvml.list_gpus() else len(options.cores())
            if not fits([FLOAT64_BY_FLOAT32 * self.held], free_memory(), processes - 1):
                processes = 1
            lines = mathematics.compute_missing(file, list(small.values()), environment, options, told, baseline, processes)
            for arm, case in small.items():
                outcomes[arm] = lines[case.id]
        return outcomes


def small_batch(cases: list[Case]) -> int:
    """Return the smallest part of the batch that divides into the micro-batches of each of these cases."""
    batch = cases[0].batch
    for part in range(min(SMALLEST, batch), batch + 1):
        if batch % part == 0 and all(part % case.plan.micro_batches == 0 for case in cases):
            return part
    return batch
