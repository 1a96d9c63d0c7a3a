"""Check the strategies of a user's model in float64 against the baseline of the same model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from framebench.engine import mathematics
from framebench.engine.capacity import fits, read_free_memory
from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.engine.timed_process import Variant
from framebench.instruments import nvml
from framebench.models.spec import load_workload
from framebench.suite.case import Case
from framebench.suite.result import Mathematics
from framebench.user_file.trial import UserModel
from framebench.user_model.look import compiles

FLOAT64_BY_FLOAT32 = 2  # bytes of a number
# samples, where the batch has as many: with one alone nothing shows that samples are mixed up
SMALLEST = 2


class Float64Checks:
    """Check the strategies of one session in float64 when a run asks for them.

    When the first strategy that compiles nothing is due, all of its kind are checked at once. One
    that compiles for minutes is checked when its turn comes. `baseline_bytes` is what a process of
    the baseline took: it decides how many processes run at once.
    """

    def __init__(self, model: UserModel, variants: list[Variant], baseline_bytes: int) -> None:
        self.model = model
        self.variants = variants
        self.baseline_bytes = baseline_bytes
        self.batch = choose_small_batch([variant.case for variant in variants])

    def __call__(
        self,
        variants: list[Variant],
        options: Options,
        on_phase: Callable[[Case, str], None],
    ) -> dict[Variant, Mathematics]:
        """Return the outcome of these variants, and of all that are checked together with them."""
        by_environment: dict[Environment, list[Variant]] = defaultdict(list)
        for variant in self.add_uncompiled(variants):
            by_environment[variant.environment].append(variant)
        file = Path(load_workload("own").folder) / "mathematics.jsonl"
        baseline = replace(self.model.baseline, batch=self.batch)
        outcomes: dict[Variant, Mathematics] = {}
        for environment, together in by_environment.items():
            small = {variant: replace(variant.case, batch=self.batch) for variant in together}
            outcome_by_case = mathematics.compute_missing(
                file,
                list(small.values()),
                environment,
                options,
                partial(on_phase, together[0].case),
                baseline,
                self.count_processes(options),
            )
            for variant, case in small.items():
                outcomes[variant] = outcome_by_case[case.id]
        return outcomes

    def add_uncompiled(self, variants: list[Variant]) -> list[Variant]:
        """Return the variants; if any of them compiles nothing, also all others that do not."""
        if all(compiles(variant.case) for variant in variants):
            return variants
        others = [
            variant
            for variant in self.variants
            if not compiles(variant.case) and variant not in variants
        ]
        return [*variants, *others]

    def count_processes(self, options: Options) -> int:
        """Return how many processes may run at once: one on a GPU, or where memory is short."""
        processes = 1 if nvml.list_gpus() else len(options.list_cores())
        if not fits([FLOAT64_BY_FLOAT32 * self.baseline_bytes], read_free_memory(), processes - 1):
            return 1
        return processes


def choose_small_batch(cases: list[Case]) -> int:
    """Return the smallest part of the batch that divides into the micro-batches of each of these
    cases.
    """
    batch = cases[0].batch
    for part in range(min(SMALLEST, batch), batch + 1):
        if batch % part == 0 and all(part % case.plan.micro_batches == 0 for case in cases):
            return part
    return batch
