"""Define what a strategy is, and how strategies combine.

The strategies are declared in the TOML files of this folder, which `registry.py` reads. A worker
does so in any framework's environment, so this needs only the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal

from framebench.models.spec import Optimizer, Workload

TITLES = {"torch": "PyTorch", "jax": "JAX", "jittor": "Jittor"}
FRAMEWORKS = tuple(TITLES)
COMPILING = ("compile", "compile_step")  # the switches that have a compiler make the step


@dataclass(frozen=True)
class Support:
    """One framework's support of one strategy."""

    why: str  # the mechanism, or the reason against it
    gpu: bool = False  # it exists on a GPU only
    env: Mapping[str, str] = field(default_factory=dict)  # must precede the framework's import
    undone_on_cpu: str = ""  # why it has no effect on a CPU: the proof must then fail
    # requirements/<package>.txt has it and the framework: an environment of its own
    package: str = ""

    @property
    def supported(self) -> bool:
        """Return whether the framework can do it."""
        return not isinstance(self, Unsupported)

    @property
    def kind(self) -> str:
        """Return the class's name in words, such as `always on` or `native (GPU)`."""
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(self).__name__).lower()
        return f"{words} (GPU)" if self.gpu else words


class Native(Support):
    """The framework has it."""


class Emulated(Support):
    """Written by us with the framework's public parts."""


class AlwaysOn(Support):
    """The framework always works this way.

    Unless it is the scenario's baseline, the case would be a duplicate of another one.
    """


class Unsupported(Support):
    """The framework cannot do it, and `why` says why."""


def use_everywhere(support: Support) -> dict[str, Support]:
    """Return the same support for every framework."""
    return dict.fromkeys(FRAMEWORKS, support)


@dataclass(frozen=True)
class Scenario:
    """A kind of step, and the strategy that others are compared with in it."""

    name: str
    summary: str
    baseline: str  # the strategy that the others are compared with
    observes: Literal["training", "logits", "loss"]  # the results that are verified
    workloads: tuple[str, ...] | None = None  # those that it is for; None: all
    declared: str = ""  # the field of a workload without which it cannot have the scenario
    mathematics: str = ""  # the scenario whose golden values hold here too

    @property
    def trains(self) -> bool:
        """Return whether a step updates weights."""
        return self.observes == "training"

    def suits(self, workload: Workload) -> bool:
        """Return whether the workload has this scenario."""
        if self.declared and getattr(workload, self.declared) is None:
            return False
        return self.workloads is None or workload.name in self.workloads


@dataclass(frozen=True)
class Strategy:
    """One row: a way to make a step take less memory or time, in every framework.

    `switch` names the function that switches it on, with `options`. The function is in
    `adapters/<framework>/<name of the row's file>.py`, without its `claims_`.
    """

    name: str
    scenarios: tuple[str, ...]
    axis: str  # two strategies of one axis exclude each other
    summary: str
    effect: str  # the proof, other than memory, that it was on
    support: Mapping[str, Support]  # by framework
    switch: str = ""  # by default the name; several rows may share a function
    options: Mapping[str, Any] = field(default_factory=dict)
    precision: str = "fp32"  # selects the tolerance of the verification
    micro_batches: int = 1
    variant: str = ""  # of the model: the mathematics differs, with golden values of its own
    # a name for golden values of its own where the step, not the model, differs
    mathematics: str = ""
    optimizer: Optimizer | None = None  # in place of the workload's
    workloads: tuple[str, ...] | None = None  # those that it is for; None: all
    # workload/framework, or workload/framework/size -> why it does not apply there
    exceptions: Mapping[str, str] = field(default_factory=dict)
    clashes: Mapping[str, str] = field(default_factory=dict)  # other strategy -> why not together
    needs: tuple[str, ...] = ()  # strategies of which one must be combined with it
    # "speed": it takes as much memory as the baseline, or more, for the sake of time; "control": it
    # undoes what the framework does by itself, and so shows what that is worth
    purpose: Literal["memory", "speed", "control"] = "memory"
    quick: bool = False  # part of the quick profile
    only_for_claims: bool = False  # it tests an article's sentence; nobody would choose it
    over_ranks: bool = False  # there is no such thing in a single process
    parts: tuple[Strategy, ...] = ()  # of a combination; otherwise the strategy itself

    def __post_init__(self) -> None:
        """Fill in `switch` and `parts`. Raises ValueError if a framework has no `support`."""
        missing = [framework for framework in FRAMEWORKS if framework not in self.support]
        if missing:
            raise ValueError(f"strategy {self.name} has no support for {', '.join(missing)}")
        object.__setattr__(self, "switch", self.switch or self.name)
        object.__setattr__(self, "parts", self.parts or (self,))

    @property
    def same_loss(self) -> bool:
        """Return whether the strategy must leave the loss of the baseline unchanged."""
        return not (self.variant or self.mathematics)

    @property
    def compiles(self) -> bool:
        """Return whether it, or a part of it, has a compiler make the step (`torch.compile`)."""
        return any(part.switch in COMPILING for part in self.parts)

    def suits(self, workload: Workload) -> bool:
        """Return whether it is for this workload."""
        if self.variant and self.variant not in workload.variants:
            return False
        return self.workloads is None or workload.name in self.workloads


class IncompatibleStrategies(ValueError):
    """A combination that makes no sense; the message says why."""


def combine(parts: tuple[Strategy, ...], scenario: Scenario) -> Strategy:
    """Return `a+b` as one strategy. Raises IncompatibleStrategies."""
    check_combination(parts, scenario)
    exceptions: dict[str, str] = {}
    for part in parts:
        exceptions |= part.exceptions
    return Strategy(
        name="+".join(part.name for part in parts),
        scenarios=(scenario.name,),
        axis="combination",
        summary=" and ".join(part.summary for part in parts),
        effect="; ".join(part.effect for part in parts),
        support={framework: combine_support(framework, parts) for framework in FRAMEWORKS},
        precision=find_setting(parts, "precision", default="fp32"),
        micro_batches=find_setting(parts, "micro_batches", default=1),
        variant=find_setting(parts, "variant", default=""),
        mathematics=find_setting(parts, "mathematics", default=""),
        optimizer=find_setting(parts, "optimizer", default=None),
        workloads=intersect_workloads(parts),
        exceptions=exceptions,
        only_for_claims=any(part.only_for_claims for part in parts),
        over_ranks=any(part.over_ranks for part in parts),
        parts=parts,
    )


def check_combination(parts: tuple[Strategy, ...], scenario: Scenario) -> None:
    """Raise IncompatibleStrategies if a part adds nothing, or two of them exclude each other."""
    name = "+".join(part.name for part in parts)
    for part in parts:
        if part.name == scenario.baseline:
            why = f"{part.name} is the baseline of {scenario.name}, it adds nothing"
            raise IncompatibleStrategies(f"{name} makes no sense: {why}")
    for first, second in combinations(parts, 2):
        clash = explain_clash(first, second)
        if clash:
            raise IncompatibleStrategies(f"{name} makes no sense: {clash}")


def explain_clash(first: Strategy, second: Strategy) -> str | None:
    """Return why two strategies exclude each other, or None if they do not."""
    if first.axis == second.axis:
        return f"{first.name} and {second.name} are alternatives ({first.axis})"
    if first.mathematics and second.mathematics:
        return f"{first.name} and {second.name} each change what a step computes"
    return first.clashes.get(second.name) or second.clashes.get(first.name)


def find_setting(parts: tuple[Strategy, ...], attribute: str, default: Any) -> Any:
    """Return the attribute of the first part that has another than the default, or the default."""
    for part in parts:
        value = getattr(part, attribute)
        if value != default:
            return value
    return default


def intersect_workloads(parts: tuple[Strategy, ...]) -> tuple[str, ...] | None:
    """Return the workloads that all parts are for, or None if no part names any."""
    declared = [part.workloads for part in parts if part.workloads is not None]
    if not declared:
        return None
    first, *others = declared
    common = set(first).intersection(*others)
    return tuple(name for name in first if name in common)


def combine_support(framework: str, parts: tuple[Strategy, ...]) -> Support:
    """Return how a framework does a combination.

    The combination is unsupported if a part is, or if two parts exclude each other; always on if a
    part adds nothing; else emulated if a part is, and otherwise native.
    """
    support_by_part = {part.name: part.support[framework] for part in parts}
    for kind in (Unsupported, AlwaysOn):
        reasons = []
        for name, support in support_by_part.items():
            if isinstance(support, kind):
                reasons.append(f"{name}: {support.why}")
        if reasons:
            return kind("; ".join(reasons))
    conflict = explain_conflict(support_by_part)
    if conflict:
        return Unsupported(conflict)
    kind_of_whole: type[Support] = Native
    env: dict[str, str] = {}
    for support in support_by_part.values():
        env |= support.env
        if isinstance(support, Emulated):
            kind_of_whole = Emulated
    supports = support_by_part.values()
    return kind_of_whole(
        why=join_once(support.why for support in supports),
        gpu=any(support.gpu for support in supports),
        env=env,
        undone_on_cpu=join_once(support.undone_on_cpu for support in supports),
        package=join_once(support.package for support in supports),  # one, or none
    )


def explain_conflict(support_by_part: Mapping[str, Support]) -> str:
    """Return why parts cannot share a process, by their support, or "" if they can.

    A variable of the environment has one value, and an environment has one extra package.
    """
    values: dict[str, tuple[str, str]] = {}  # by variable: its value, and the part that sets it
    part_by_package: dict[str, str] = {}
    for name, support in support_by_part.items():
        for variable, value in support.env.items():
            first_value, first_part = values.setdefault(variable, (value, name))
            if first_value != value:
                return f"{first_part} and {name} each set {variable}"
        if support.package:
            part_by_package[support.package] = name
    if len(part_by_package) > 1:
        return f"{' and '.join(part_by_package.values())} need environments of their own"
    return ""


def join_once(texts: Iterable[str]) -> str:
    """Join texts by semicolons, each only once and without empty ones."""
    return "; ".join(dict.fromkeys(text for text in texts if text))


Purpose = Literal["baseline", "memory", "speed", "control", "other mathematics", "claim"]


def find_purpose(strategy: Strategy, baseline: str) -> Purpose:
    """Return what the strategy is for, so that tables can be filtered by it.

    - `claim`: it only tests a sentence of an article.
    - `other mathematics`: another model or another loss.
    - `control`: it, or a part of it, undoes what the framework does by itself.
    - `speed`: all parts are meant to save time.
    - `memory`: all others.
    """
    if strategy.name == baseline:
        return "baseline"
    if strategy.only_for_claims:
        return "claim"
    if not strategy.same_loss:
        return "other mathematics"
    purposes = {part.purpose for part in strategy.parts}
    if "control" in purposes:
        return "control"
    return "speed" if purposes == {"speed"} else "memory"
