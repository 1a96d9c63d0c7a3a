"""A case: workload x framework x scenario x strategy x batch (over so many ranks) x size. Its id sorts and can be typed."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from framebench.models import spec
from framebench.models.spec import Optimizer
from framebench.strategies.registry import GONE, SCENARIOS, find_strategy, look_up_scenario, look_up_strategy
from framebench.strategies.strategy import TITLES, AlwaysOn, Cell, Scenario, Strategy, Unsupported

DEFAULT_SIZE = "cpu"
FULL_SIZE = "full"  # of a published model: what a device that is not here is asked for
DECODED = 32
STILL = "/still"  # ends the key of values that were computed without random numbers
BATCH = re.compile(r"b(?P<batch>[1-9][0-9]{0,6})(?:x(?P<ranks>[2-9]|[1-9][0-9]{1,3}))?")


class UnknownCase(ValueError):
    """A selector that names nothing; the message lists what is valid at the place that was wrong."""


@dataclass(frozen=True, order=True)
class Case:
    workload: str
    framework: str
    scenario: str
    strategy: str
    batch: int  # samples of one step, of all ranks together
    size: str = DEFAULT_SIZE
    ranks: int = 1

    @classmethod
    def of(cls, case_id: str) -> Case:
        """The case of an id that has its six parts, whether it is declared or not. Raises ValueError if it has not."""
        workload, framework, scenario, strategy, batch, size = case_id.split("/")
        if not (batch_match := BATCH.fullmatch(batch)):
            raise ValueError(f"{batch!r} is no batch: write for instance b8, or b8x2 for a batch of 8 over 2 ranks")
        return cls(workload, framework, scenario, strategy, int(batch_match["batch"]), size, int(batch_match["ranks"] or 1))

    @property
    def id(self) -> str:
        """For instance `resnet50/torch/train/checkpoint/b8/cpu`; over 2 ranks `transformer/torch/train/fsdp/b8x2/cpu`."""
        ranks = f"x{self.ranks}" if self.ranks > 1 else ""
        return f"{self.workload}/{self.framework}/{self.scenario}/{self.strategy}/b{self.batch}{ranks}/{self.size}"

    @property
    def spec(self) -> spec.Workload:
        return spec.load_workload(self.workload)

    @property
    def user_file(self) -> str:
        """Of a model of the user's own."""
        return str(self.spec.facts["file"])  # type: ignore[attr-defined]

    @property
    def stage(self) -> Scenario:
        return look_up_scenario(self.scenario)

    @property
    def plan(self) -> Strategy:
        return look_up_strategy(self.scenario, self.strategy)

    @property
    def known(self) -> bool:
        """Whether this version has its scenario, strategy, workload and size, and they go together.

        An archived record may be of a case that is not known. It has a name, a stage and a plan, and no more.
        """
        return _is_known(self)

    @property
    def parts(self) -> tuple[Strategy, ...]:
        """The rows to switch on: those of the strategy, and the scenario's baseline where they say nothing on its axis."""
        parts, baseline = self.plan.parts, look_up_strategy(self.scenario, self.stage.baseline)
        return parts if baseline.axis in {p.axis for p in parts} else (baseline, *parts)

    @property
    def config(self) -> Any:
        """The model's configuration, changed as the strategy's variant says."""
        return self.spec.config(self.size, self.plan.variant)

    @property
    def work(self) -> int:
        """Samples or tokens of one step; of a stream of sequences those that are no padding, of generation the new ones."""
        if self.scenario == "varlen":
            return int(self.spec.draw_lengths(self.config, self.batch).sum())
        if self.scenario == "generate":
            return self.batch * self.decoded
        return self.batch * self.spec.units(self.config)

    @property
    def decoded(self) -> int:
        """Tokens of each sequence that a step of `generate` computes one after the other. Those before them are its prompt, of
        which the cache is there already."""
        return min(DECODED, self.spec.units(self.config) // 2)

    @property
    def normalises_alone(self) -> bool:
        """Whether in training each rank normalises over its own part of the batch, as processes of PyTorch do. A program of JAX
        is one for all devices, and normalises over the whole batch."""
        return self.ranks > 1 and self.stage.trains and self.spec.couples_samples and self.framework == "torch"

    @property
    def golden_key(self) -> str:
        """Micro-batches have values of their own only where the samples of a batch influence each other. What ranks make of
        theirs apart is what micro-batches are."""
        plan, stage = self.plan, self.stage
        parts = plan.micro_batches * (self.ranks if self.normalises_alone else 1)
        split = f"/m{parts}" if parts > 1 and self.spec.couples_samples else ""
        suffix = "".join(f"/{name}" for name in (plan.variant, plan.mathematics) if name)
        return f"{self.size}/{stage.mathematics or stage.name}/b{self.batch}{split}{suffix}{STILL * self.still}"

    @property
    def same_mathematics(self) -> bool:
        """Whether it computes what its scenario's baseline does: the same reference values hold."""
        return self.known and self.golden_key == replace(self, strategy=self.stage.baseline, ranks=1).golden_key

    @property
    def still(self) -> bool:
        """Whether it is verified without what it draws at random: the strategy draws in another order than the baseline."""
        return self.spec.draws_differently(self.plan)

    @property
    def optimizer(self) -> Optimizer:
        return self.plan.optimizer or self.spec.optimizer

    @property
    def support(self) -> Cell:
        """The table's cell, refined by what the workload allows."""
        if self.workload != spec.USER_MODEL and self.workload not in spec.find_folders():
            return Unsupported(GONE)
        cell = self.plan.cells[self.framework]
        if self.workload != spec.USER_MODEL and self.framework not in self.spec.frameworks:
            return Unsupported(f"not written for {TITLES[self.framework]}: {self.spec.describe_file(self.framework)}")
        if isinstance(cell, AlwaysOn) and self.strategy != self.stage.baseline:
            return Unsupported(f"always so, with or without it: {cell.why}")
        on = {part.name for part in self.plan.parts}
        for part in self.plan.parts if cell.supported else ():
            if part.needs and on.isdisjoint(part.needs):
                wanted = " or ".join(f"{other}+{part.name}" for other in part.needs)
                return Unsupported(f"only in a combination, such as {wanted}: {cell.why}")
        here = f"{self.workload}/{self.framework}"
        for where in (here, f"{here}/{self.size}"):
            if cell.supported and (why := self.plan.exceptions.get(where)):
                return Unsupported(why)
        if cell.supported and (why := self.spec.explain_refusal(self.plan)):
            return Unsupported(why)
        if "rewrite" in on and cell.supported:
            if not (how := self.spec.rewrites.get(self.framework)):
                return Unsupported("no slow path was found in this workload to write differently")
            cell = replace(cell, why=how)
        if "scan" in on and cell.supported and self.spec.identical_layers(self.config) < 2:
            return Unsupported("the model has one layer here: there is nothing to loop over")
        if (each := self.batch // self.ranks) % self.plan.micro_batches:
            whose = " of each rank" if self.ranks > 1 else ""
            return Unsupported(f"batch {each}{whose} does not divide into {self.plan.micro_batches} micro-batches")
        return cell

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """Canonical float32 weights and buffers by name."""
        return self.spec.make_weights(self.config)


@cache  # reading thousands of records asks for the same cases again and again
def _is_known(case: Case) -> bool:
    try:
        stage, plan = SCENARIOS[case.scenario], find_strategy(case.scenario, case.strategy)
        fits = (
            case.spec.can_measure(plan)
            if case.workload == spec.USER_MODEL
            else stage.suits(case.spec) and plan.suits(case.spec)
        )
        return fits and case.spec.units(case.config) > 0
    except (KeyError, ValueError):
        return False


def declared(case: Case) -> bool:
    """Whether the workload has the scenario and the strategy at all. What changes the mathematics exists at one batch only."""
    workload, plan = case.spec, case.plan
    if plan.over_ranks != (case.ranks > 1) or case.batch % case.ranks:
        return False
    if not case.stage.suits(workload) or not plan.suits(workload):
        return False
    if (
        plan.micro_batches > 1 and workload.couples_samples
    ):  # other mathematics, whose references are of this many micro-batches
        return case.batch >= first_batch(case) and case.batch % plan.micro_batches == 0
    own_values = not plan.same_loss or case.scenario not in ("train", "eval")
    return case.batch == workload.preset(case.size).base or not own_values


def first_batch(case: Case) -> int:
    """The smallest of the size's batches, from the one that comparisons are made at on, that divides into micro-batches."""
    preset = case.spec.preset(case.size)
    return next((b for b in preset.batches if b >= preset.base and b % case.plan.micro_batches == 0), preset.base)
