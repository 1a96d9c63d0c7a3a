"""A case: workload x framework x scenario x strategy x batch x size. Its id sorts, and can be typed at the command line."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import numpy as np

from framebench.suite.registry import SCENARIOS, STRATEGIES, names
from framebench.suite.strategy import FRAMEWORKS, AlwaysOn, Cell, Nonsense, Scenario, Strategy, Unsupported, find
from models import spec

DEFAULT_SIZE = "cpu"


class UnknownCase(ValueError):
    """A selector that names nothing; the message lists what is valid at the place that was wrong."""


@dataclass(frozen=True, order=True)
class Case:
    workload: str
    framework: str
    scenario: str
    strategy: str
    batch: int
    size: str = DEFAULT_SIZE

    @classmethod
    def of(cls, case_id: str) -> Case:
        """The case of an id that has its six parts, whether it is declared or not. Raises ValueError if it has not."""
        workload, framework, scenario, strategy, batch, size = case_id.split("/")
        if not re.fullmatch(r"b[1-9][0-9]{0,6}", batch):
            raise ValueError(f"{batch!r} is no batch: write for instance b8")
        return cls(workload, framework, scenario, strategy, int(batch[1:]), size)

    @property
    def id(self) -> str:
        """For instance `resnet50/torch/train/checkpoint/b8/cpu`."""
        return f"{self.workload}/{self.framework}/{self.scenario}/{self.strategy}/b{self.batch}/{self.size}"

    @property
    def spec(self) -> spec.Workload:
        return spec.workload(self.workload)

    @property
    def stage(self) -> Scenario:
        return SCENARIOS[self.scenario]

    @property
    def plan(self) -> Strategy:
        return find(self.scenario, self.strategy)

    @property
    def parts(self) -> tuple[Strategy, ...]:
        """The rows to switch on: those of the strategy, and the scenario's baseline where they say nothing on its axis."""
        parts, baseline = self.plan.parts, find(self.scenario, self.stage.baseline)
        return parts if baseline.axis in {p.axis for p in parts} else (baseline, *parts)

    @property
    def config(self) -> Any:
        """The model's configuration, changed as the strategy's variant says."""
        return self.spec.config(self.size, self.plan.variant)

    @property
    def work(self) -> int:
        """Samples or tokens of one step; of a stream of sequences, those that are no padding."""
        if self.scenario == "varlen":
            return int(self.spec.lengths(self.config, self.batch).sum())
        return self.batch * self.spec.units(self.config)

    @property
    def golden_key(self) -> str:
        """Micro-batches have values of their own only where the samples of a batch influence each other."""
        plan, stage = self.plan, self.stage
        split = f"/m{plan.micro_batches}" if plan.micro_batches > 1 and self.spec.couples_samples else ""
        own = "".join(f"/{name}" for name in (plan.variant, plan.mathematics) if name)
        return f"{self.size}/{stage.mathematics or stage.name}/b{self.batch}{split}{own}"

    @property
    def support(self) -> Cell:
        """The table's cell, refined by what the workload allows."""
        cell = self.plan.cells[self.framework]
        if isinstance(cell, AlwaysOn) and self.strategy != self.stage.baseline:
            return Unsupported(f"always so, with or without it: {cell.why}")
        on = {part.name for part in self.plan.parts}
        for part in self.plan.parts if cell.supported else ():
            if part.needs and on.isdisjoint(part.needs):
                wanted = " or ".join(f"{other}+{part.name}" for other in part.needs)
                return Unsupported(f"only in a combination, such as {wanted}: {cell.why}")
        if cell.supported and (why := self.plan.exceptions.get(f"{self.workload}/{self.framework}")):
            return Unsupported(why)
        if "rewrite" in self.strategy.split("+") and cell.supported:
            how = self.spec.rewrites.get(self.framework)
            return type(cell)(how) if how else Unsupported("no slow path was found in this workload to write differently")
        if self.batch % self.plan.micro_batches:
            return Unsupported(f"batch {self.batch} does not divide into {self.plan.micro_batches} micro-batches")
        return cell

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """Canonical float32 weights and buffers by name."""
        return self.spec.weights(self.config)


def declared(case: Case) -> bool:
    """Whether the workload has the scenario and the strategy at all. What changes the mathematics exists at one batch only."""
    workload, plan = case.spec, case.plan
    if case.workload not in case.stage.workloads or case.workload not in plan.workloads:
        return False
    if plan.variant and plan.variant not in workload.variants:
        return False
    own_values = not plan.same_loss or case.scenario not in ("train", "eval")
    return case.batch == workload.preset(case.size).base or not own_values


@cache
def every_case() -> tuple[Case, ...]:
    """All declared cases in every size, unsupported ones included."""
    return tuple(
        case
        for workload in spec.NAMES
        for size, preset in spec.workload(workload).sizes.items()
        for framework in FRAMEWORKS
        for scenario in SCENARIOS
        for strategy in names(scenario)
        for batch in preset.batches
        if declared(case := Case(workload, framework, scenario, strategy, batch, size))
    )


@cache
def by_id() -> dict[str, Case]:
    return {case.id: case for case in every_case()}


# What a run measures when no case is named. `quick` is the size `cpu` with the strategies that are marked so in the table, at
# one batch, and at a second one where activations make up most of the memory; `tiny` the same in a second or two each, for
# trying things out. `standard` is everything that a CPU can run; `full` everything, at sizes that need a GPU.
PROFILES = {"tiny": "tiny", "quick": "cpu", "standard": "cpu", "full": "full"}
TWICE = "transformer/train/fp32"  # in the quick profile: all at two batches would take too long


def profile_name() -> str:
    return os.environ.get("FRAMEBENCH_PROFILE") or "quick"


def profile(name: str | None = None) -> list[Case]:
    """The cases of a profile; by default that of $FRAMEBENCH_PROFILE, or `quick`. Raises UnknownCase."""
    name = name or profile_name()
    if name not in PROFILES:
        raise UnknownCase(f"no profile {name!r}; profiles: {', '.join(PROFILES)}")
    within = {"tiny": quick, "quick": quick}.get(name, thorough)
    return [case for case in every_case() if case.size == PROFILES[name] and within(case)]


def quick(case: Case) -> bool:
    if not case.plan.quick or case.scenario not in ("train", "eval"):
        return False
    after = [b for b in case.spec.preset(case.size).batches if b > case.spec.preset(case.size).base][:1]
    twice = f"{case.workload}/{case.scenario}/{case.strategy}" == TWICE and case.size == PROFILES["quick"]
    return case.batch in [case.spec.preset(case.size).base, *(after if twice else [])]


def thorough(case: Case) -> bool:
    """Baselines at every batch, the others at one: the smallest from the base on that their micro-batches divide."""
    preset = case.spec.preset(case.size)
    if case.strategy == case.stage.baseline:
        return True
    fits = [b for b in preset.batches if b >= preset.base and b % case.plan.micro_batches == 0]
    return case.batch == (fits or [preset.base])[0]


def select(selector: str, size: str = DEFAULT_SIZE, among: list[Case] | None = None) -> list[Case]:
    """Cases that match `workload/framework/scenario/strategy/bN/size`; parts may be globs, missing ones mean all.

    A missing size means `size`. A combination `a+b` that is in no profile may be asked for by name. Raises UnknownCase
    naming the first part that nothing matches, with the valid values.
    """
    parts = selector.strip("/").split("/")
    if len(parts) > 6:
        raise UnknownCase(f"{selector!r} has {len(parts)} parts; a case is workload/framework/scenario/strategy/bN/size")
    patterns = [p or "*" for p in parts] + ["*"] * (6 - len(parts))
    if len(parts) < 6:
        patterns[5] = "*" if among else size
    found = list(among or every_case())
    if "+" in patterns[3]:
        patterns[3], asked = combination(patterns[2], patterns[3])
        found += [c for c in asked if c not in found]
    # the size restricts which batches exist, so it is matched first
    order = (("workload", 0), ("framework", 1), ("scenario", 2), ("strategy", 3), ("size", 5), ("batch", 4))
    for name, place in order:
        valid = dict.fromkeys(case.id.split("/")[place] for case in found)
        found = [c for c in found if fnmatchcase(c.id.split("/")[place], patterns[place])]
        if not found:
            raise UnknownCase(f"no {name} {patterns[place]!r} in {selector!r}; choose from: {', '.join(valid)}")
    return found


def combination(scenarios: str, name: str) -> tuple[str, list[Case]]:
    """The proper name of `b+a`, and its cases in the scenarios where it makes sense. Raises UnknownCase."""
    reasons: list[str] = []
    for scenario in SCENARIOS:
        if not fnmatchcase(scenario, scenarios):
            continue
        try:
            plan = find(scenario, name)
        except KeyError as error:
            known = ", ".join(s for where, s in STRATEGIES if where == scenario)
            reasons.append(f"no strategy {error.args[0][1]!r} in {scenario}; choose from: {known}")
        except Nonsense as error:
            reasons.append(str(error))
        else:
            cases = (
                Case(w, f, scenario, plan.name, b, size)
                for w in spec.NAMES
                for size, preset in spec.workload(w).sizes.items()
                for f in FRAMEWORKS
                for b in preset.batches
            )
            return plan.name, [c for c in cases if declared(c)]
    raise UnknownCase(reasons[0] if reasons else f"no scenario {scenarios!r}; choose from: {', '.join(SCENARIOS)}")


def parse(case_id: str) -> Case:
    """The one case with this full id. Raises UnknownCase."""
    if case_id in by_id():
        return by_id()[case_id]
    found = select(case_id)
    if len(found) != 1:
        raise UnknownCase(f"{case_id!r} names {len(found)} cases, not one; give all six parts")
    return found[0]
