"""Check the strategies of a user's model in float64 against the baseline of the same model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from framebench.engine import mathematics
from framebench.engine.capacity import fits, read_free_memory
from framebench.engine.runner import Options
from framebench.engine.timed_process import Variant
from framebench.instruments import nvml
from framebench.models.spec import USER_MODEL, load_workload
from framebench.suite.case import Case
from framebench.suite.result import Mathematics

FLOAT64_BY_FLOAT32 = 2  # bytes of a number
# samples, where the batch has as many: with one alone nothing shows that samples are mixed up
SMALLEST = 2


@dataclass
class Float64Checks:
    """Check the strategies of one session in float64 when a run asks for them.

    When the first strategy that compiles nothing is due, all of its kind are checked at once, if
    `checks_ahead`. One that compiles for minutes is checked when its turn comes. `baseline_bytes`
    is what a process of the baseline took: it decides how many processes run at once.
    """

    variants: list[Variant]  # the baseline first; all in one environment
    baseline_bytes: int
    checks_ahead: bool = True

    def __call__(
        self,
        variants: list[Variant],
        options: Options,
        on_phase: Callable[[Case, str], None],
    ) -> dict[Variant, Mathematics]:
        """Return the outcome of these variants, and of all that are checked together with them."""
        together = self.add_others(variants)
        batch = choose_small_batch([variant.case for variant in self.variants])
        small = [replace(variant.case, batch=batch) for variant in together]
        outcomes = mathematics.compute_missing(
            load_workload(USER_MODEL).folder / "mathematics.jsonl",
            small,
            together[0].environment,
            options,
            partial(on_phase, together[0].case),
            replace(self.variants[0].case, batch=batch),
            self.choose_processes(options),
        )
        return {variant: outcomes[case.id] for variant, case in zip(together, small)}

    def add_others(self, variants: list[Variant]) -> list[Variant]:
        """Return these variants, and all others that are checked ahead with them."""
        if not self.checks_ahead or all(map(compiles, variants)):
            return variants
        others = []
        for variant in self.variants:
            if variant not in variants and not compiles(variant):
                others.append(variant)
        return variants + others

    def choose_processes(self, options: Options) -> int:
        """Return how many processes check at once: one for each core, or one if memory is small."""
        if nvml.list_gpus():
            return 1
        processes = len(options.list_cores())
        process_bytes = FLOAT64_BY_FLOAT32 * self.baseline_bytes
        can_run_together = fits([process_bytes], read_free_memory(), more=processes - 1)
        return processes if can_run_together else 1


def compiles(variant: Variant) -> bool:
    """Return whether the variant's strategy compiles the step."""
    return variant.case.strategy_spec.compiles


def choose_small_batch(cases: list[Case]) -> int:
    """Return the smallest part of the batch that every case can cut into its micro-batches.

    It has at least SMALLEST samples, if the batch has as many, and divides the batch.
    """
    batch = cases[0].batch
    for part in range(min(SMALLEST, batch), batch + 1):
        if batch % part == 0 and all(
            part % case.strategy_spec.micro_batches == 0 for case in cases
        ):
            return part
    return batch
