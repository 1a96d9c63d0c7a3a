"""An adapter of no framework: what a test needs of it, and nothing else."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from framebench.suite.case import Case


class ScriptedAdapter:
    """Steps that do nothing, whose losses are those that a test gives."""

    budget_s = 900.0
    loader = None

    def __init__(self, case: Case, losses: Iterable[float] = ()) -> None:
        self.case = case
        self.workload: Any = case.workload_spec
        self.config = case.config
        self.losses: Iterator[float] = iter(losses)
        self.outputs = 0
        self.outputs_per_step: Counter[int] = Counter()
        self.seconds_spent: dict[str, float] = defaultdict(float)
        self.steps = 0
        self.restored_at = 0
        self.is_restored = False
        self.can_restore = True
        self.known_fault: str | None = None
        self.inputs: Any = None
        self.stream: Any = None

    def step(self) -> None:
        """Make no step."""

    def disable_randomness(self) -> AbstractContextManager[None]:
        return nullcontext()

    def synchronize(self) -> None:
        """Wait for nothing."""

    def make_stopwatch(self) -> None:
        """Return no stopwatch: there is no device."""

    def device(self) -> str:
        return "cpu"

    def loss(self) -> float:
        return next(self.losses)

    def restore(self) -> None:
        self.is_restored = True

    def repeat_with_exact_sums(self, make_steps: Callable[[], Any]) -> tuple[Any, int] | None:
        return None

    def find_known_fault(self) -> str | None:
        return self.known_fault

    def put(self, x: Any, y: Any) -> tuple[Any, Any]:
        return x, y
