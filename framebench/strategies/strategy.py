"""What a strategy is, and how strategies combine. The rows are in `catalog/`; `registry.py` joins them.

The worker reads this inside any framework's environment, so it needs the standard library alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from framebench.models.spec import Optimizer, Workload

TITLES = {"torch": "PyTorch", "jax": "JAX", "jittor": "Jittor"}
FRAMEWORKS = tuple(TITLES)


@dataclass(frozen=True)
class Cell:
    """How one framework does one strategy. `why` is the mechanism, or the reason against it."""

    why: str
    gpu: bool = False  # it exists on a GPU only
    env: Mapping[str, str] = field(default_factory=dict)  # must precede the framework's import
    undone_on_cpu: str = ""  # what undoes it there: the proof must then say no
    package: str = ""  # requirements/<package>.txt has it and the framework: an environment of its own

    @property
    def supported(self) -> bool:
        return not isinstance(self, Unsupported)

    @property
    def kind(self) -> str:
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(self).__name__).lower()
        return words + (" (GPU)" if self.gpu else "")


class Native(Cell):
    """The framework has it."""


class Emulated(Cell):
    """Written by us with the framework's public parts."""


class AlwaysOn(Cell):
    """The framework always works this way: unless it is the scenario's baseline, the case would be another one's double."""


class Unsupported(Cell):
    """Cannot be done, and this is why."""


def cells(torch: Cell, jax: Cell, jittor: Cell) -> dict[str, Cell]:
    """A row's cells."""
    return {"torch": torch, "jax": jax, "jittor": jittor}


def everywhere(cell: Cell) -> dict[str, Cell]:
    """The same cell for every framework."""
    return dict.fromkeys(FRAMEWORKS, cell)


@dataclass(frozen=True)
class Scenario:
    """What one step does, and which strategy the others are compared with."""

    name: str
    summary: str
    baseline: str
    observes: Literal["training", "logits", "loss"]  # what verification looks at
    workloads: tuple[str, ...] | None = None  # those that it is for; None: all
    declared: str = ""  # what a workload must declare to have it
    mathematics: str = ""  # the scenario whose golden values hold here too

    @property
    def trains(self) -> bool:
        return self.observes == "training"

    def suits(self, workload: Workload) -> bool:
        able = not self.declared or getattr(workload, self.declared) is not None
        return able and (self.workloads is None or workload.name in self.workloads)


@dataclass(frozen=True)
class Strategy:
    """One row. `how` names the function that switches it on, with `options`: in `adapters/<framework>/<file of the row>.py`, or
    for rows of `catalog/claims.py`, in the file named like their tuple there."""

    name: str
    scenarios: tuple[str, ...]
    axis: str  # two strategies of one axis exclude each other
    summary: str
    effect: str  # what proves, other than memory, that it was on
    cells: Mapping[str, Cell]
    how: str = ""  # its name, unless several rows share a function
    options: Mapping[str, Any] = field(default_factory=dict)
    precision: str = "fp32"  # selects the tolerance of the verification
    micro_batches: int = 1
    variant: str = ""  # of the model: the mathematics differs, with golden values of its own
    mathematics: str = ""  # a name for golden values of its own where the step, not the model, differs
    optimizer: Optimizer | None = None  # in the place of the workload's
    workloads: tuple[str, ...] | None = None  # those that it is for; None: all
    exceptions: Mapping[str, str] = field(default_factory=dict)  # workload/framework, or with its size -> why not there
    clashes: Mapping[str, str] = field(default_factory=dict)  # strategies it makes no sense with, and why
    needs: tuple[str, ...] = ()  # strategies of which one must be combined with it
    quick: bool = False  # part of the quick profile
    only_for_claims: bool = False  # it tests an article's sentence; nobody would choose it
    over_ranks: bool = False  # there is no such thing in a single process
    parts: tuple[Strategy, ...] = ()  # of a combination

    def __post_init__(self) -> None:
        missing = [f for f in FRAMEWORKS if f not in self.cells]
        if missing:
            raise ValueError(f"strategy {self.name} has no cell for {', '.join(missing)}")
        object.__setattr__(self, "how", self.how or self.name)
        object.__setattr__(self, "parts", self.parts or (self,))

    @property
    def same_loss(self) -> bool:
        """Whether it must leave the loss what the baseline's is."""
        return not (self.variant or self.mathematics)

    def suits(self, workload: Workload) -> bool:
        has_variant = not self.variant or self.variant in workload.variants
        return has_variant and (self.workloads is None or workload.name in self.workloads)


class IncompatibleStrategies(ValueError):
    """A combination that makes no sense; the message says why."""


def combine(parts: tuple[Strategy, ...], scenario: Scenario) -> Strategy:
    """`a+b` as one strategy. Raises IncompatibleStrategies."""
    name = "+".join(p.name for p in parts)
    for i, one in enumerate(parts):
        if one.name == scenario.baseline:
            why = f"{one.name} is the baseline of {scenario.name}, it adds nothing"
            raise IncompatibleStrategies(f"{name} makes no sense: {why}")
        for other in parts[i + 1 :]:
            if one.axis == other.axis:
                why = f"{one.name} and {other.name} are alternatives ({one.axis})"
                raise IncompatibleStrategies(f"{name} makes no sense: {why}")
            if one.mathematics and other.mathematics:
                why = f"{one.name} and {other.name} each change what a step computes"
                raise IncompatibleStrategies(f"{name} makes no sense: {why}")
            if clash := one.clashes.get(other.name) or other.clashes.get(one.name):
                raise IncompatibleStrategies(f"{name} makes no sense: {clash}")

    def first(attribute: str, default: Any) -> Any:
        return next((v for p in parts if (v := getattr(p, attribute)) != default), default)

    return Strategy(
        name, (scenario.name,), "combination", " and ".join(p.summary for p in parts), "; ".join(p.effect for p in parts),
        {f: join(f, parts) for f in FRAMEWORKS},
        precision=first("precision", "fp32"), micro_batches=first("micro_batches", 1), variant=first("variant", ""),
        mathematics=first("mathematics", ""), optimizer=first("optimizer", None),
        workloads=shared([p.workloads for p in parts if p.workloads is not None]),
        exceptions={k: v for p in parts for k, v in p.exceptions.items()},
        only_for_claims=any(p.only_for_claims for p in parts), over_ranks=any(p.over_ranks for p in parts), parts=parts,
    )  # fmt: skip


def shared(several: list[tuple[str, ...]]) -> tuple[str, ...] | None:
    """The workloads that all of them name; None where nobody names any."""
    return tuple(w for w in several[0] if all(w in each for each in several)) if several else None


def join(framework: str, parts: tuple[Strategy, ...]) -> Cell:
    """The cell of a combination: unsupported if a part is or two exclude each other, always on if a part adds nothing, else
    emulated if a part is."""
    cells = {p.name: p.cells[framework] for p in parts}
    for decisive in (Unsupported, AlwaysOn):
        if reasons := [f"{name}: {c.why}" for name, c in cells.items() if isinstance(c, decisive)]:
            return decisive("; ".join(reasons))
    for variable in {v for c in cells.values() for v in c.env}:
        values = {name: c.env[variable] for name, c in cells.items() if variable in c.env}
        if len(set(values.values())) > 1:
            return Unsupported(f"{' and '.join(values)} each set {variable}")
    if len(packages := {c.package: name for name, c in cells.items() if c.package}) > 1:
        return Unsupported(f"{' and '.join(packages.values())} need environments of their own")
    kind = Emulated if any(isinstance(c, Emulated) for c in cells.values()) else Native
    env = {k: v for c in cells.values() for k, v in c.env.items()}
    return kind(
        "; ".join(dict.fromkeys(c.why for c in cells.values())), any(c.gpu for c in cells.values()), env,
        "; ".join(dict.fromkeys(c.undone_on_cpu for c in cells.values() if c.undone_on_cpu)),
        next((c.package for c in cells.values() if c.package), ""),
    )  # fmt: skip
