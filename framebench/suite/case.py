"""Define a case: workload x framework x scenario x strategy x batch (over so many ranks) x size.

A case's id sorts and can be typed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from framebench.models import spec
from framebench.models.spec import USER_MODEL, Optimizer
from framebench.strategies.registry import (
    GONE,
    SCENARIOS,
    find_strategy,
    look_up_scenario,
    look_up_strategy,
)
from framebench.strategies.strategy import (
    TITLES,
    AlwaysOn,
    Scenario,
    Strategy,
    Support,
    Unsupported,
)
from framebench.suite.user_strategies import draws_differently, explain_refusal, is_general

DEFAULT_SIZE = "cpu"
TRIAL_SIZE = "tiny"  # the size for trying out, which says little of memory
FULL_SIZE = "full"  # of a published model: what predictions for a target device are made of
MOST_DECODED = 32
AS_WRITTEN = "as-written"  # a file's baseline where its weights are not in float32
WITHOUT_RANDOM = "/still"  # ends the key of values that were computed without random numbers
BATCH = re.compile(r"b(?P<batch>[1-9][0-9]{0,6})(?:x(?P<ranks>[2-9]|[1-9][0-9]{1,3}))?")


class UnknownCase(ValueError):
    """A selector names nothing; the message lists what is valid at the wrong place."""


@dataclass(frozen=True, order=True)
class Case:
    """One thing to measure, by the names of its parts.

    `workload_spec`, `scenario_spec` and `strategy_spec` return the declarations of these names.
    """

    workload: str
    framework: str
    scenario: str
    strategy: str
    batch: int  # samples of one step, of all ranks together
    size: str = DEFAULT_SIZE
    ranks: int = 1

    @classmethod
    def from_id(cls, case_id: str) -> Case:
        """Return the case of an id, whether it is declared or not.

        Raises ValueError if the id does not have its six parts.
        """
        workload, framework, scenario, strategy, batch, size = case_id.split("/")
        match = BATCH.fullmatch(batch)
        if match is None:
            raise ValueError(
                f"{batch!r} is no batch: write for instance b8, or b8x2 for a batch of 8 over 2 "
                "ranks"
            )
        return cls(
            workload,
            framework,
            scenario,
            strategy,
            batch=int(match["batch"]),
            size=size,
            ranks=int(match["ranks"] or 1),
        )

    @property
    def id(self) -> str:
        """Return the case's name, such as `resnet50/torch/train/checkpoint/b8/cpu`.

        Over 2 ranks it is, for instance, `transformer/torch/train/fsdp/b8x2/cpu`.
        """
        batch = f"b{self.batch}x{self.ranks}" if self.ranks > 1 else f"b{self.batch}"
        parts = (self.workload, self.framework, self.scenario, self.strategy, batch, self.size)
        return "/".join(parts)

    @property
    def workload_spec(self) -> spec.Workload:
        """Return the workload's declaration. Raises UnknownName."""
        return spec.load_workload(self.workload)

    @property
    def user_file(self) -> str:
        """Return the file of a user's model."""
        return str(self.workload_spec.facts["file"])

    @property
    def strategy_label(self) -> str:
        """Return the strategy as tables name it.

        The baseline of a file whose weights have 16 bits or fewer is simulated as the file is
        written: `fp32` would be wrong.
        """
        if (
            self.workload_spec.weight_types
            and self.strategy == self.scenario_spec.baseline == "fp32"
        ):
            return AS_WRITTEN
        return self.strategy

    @property
    def label(self) -> str:
        """Return the case as tables name it, with the types of a file's weights that are narrow."""
        types = self.workload_spec.weight_types
        if not types:
            return self.id
        as_labelled = self.id.replace(f"/{self.strategy}/", f"/{self.strategy_label}/")
        return f"{as_labelled}, with weights in {types}"

    @property
    def scenario_spec(self) -> Scenario:
        """Return the scenario's row, or a stand-in for one that this version does not have."""
        return look_up_scenario(self.scenario)

    @property
    def strategy_spec(self) -> Strategy:
        """Return the strategy's row, or a stand-in for one that this version does not have."""
        return look_up_strategy(self.scenario, self.strategy)

    @property
    def is_known(self) -> bool:
        """Return whether this version declares the case's parts, and allows their combination.

        An archived record may be of a case that is not known. Such a case has a name, a scenario
        and a strategy, and no more.
        """
        return _is_known(self)

    @property
    def parts(self) -> tuple[Strategy, ...]:
        """Return the strategies to switch on.

        They are the parts of the case's strategy, after the scenario's baseline. The baseline is
        left out if a part is an alternative to it, which is to have the same axis.
        """
        parts = self.strategy_spec.parts
        baseline = look_up_strategy(self.scenario, self.scenario_spec.baseline)
        if any(part.axis == baseline.axis for part in parts):
            return parts
        return (baseline, *parts)

    @property
    def config(self) -> Any:
        """Return the model's configuration, changed as the strategy's variant says."""
        return self.workload_spec.config(self.size, self.strategy_spec.variant)

    @property
    def work(self) -> int:
        """Return the samples or tokens of one step.

        In a stream of sequences, padding does not count. In generation, only new tokens count.
        """
        if self.scenario == "varlen":
            return int(self.workload_spec.draw_lengths(self.config, self.batch).sum())
        if self.scenario == "generate":
            return self.batch * self.decoded
        return self.batch * self.workload_spec.units(self.config)

    @property
    def length_strategy(self) -> str:
        """Return the part of the strategy that says how `varlen` batches lengths, such as `raw`."""
        (name,) = [part.name for part in self.parts if part.axis == "lengths"]
        return name

    def make_stream(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Make the batches of `varlen`, of tokens and targets (`Workload.make_stream`)."""
        return self.workload_spec.make_stream(self.config, self.batch, self.length_strategy)

    @property
    def decoded(self) -> int:
        """Return how many tokens of each sequence a step of `generate` computes one by one.

        The tokens before them are the prompt, whose keys and values are cached before the step.
        """
        return min(MOST_DECODED, self.workload_spec.units(self.config) // 2)

    @property
    def normalises_alone(self) -> bool:
        """Return whether in training each rank normalises over its own part of the batch.

        Processes of PyTorch do. A program of JAX is one for all devices, and normalises over the
        whole batch.
        """
        couples_ranks = (
            self.ranks > 1 and self.scenario_spec.trains and self.workload_spec.couples_samples
        )
        return couples_ranks and self.framework == "torch"

    @property
    def golden_key(self) -> str:
        """Return the name of the reference values in their workload, such as `cpu/train/b4/m2`.

        Micro-batches have values of their own only where the samples of a batch influence each
        other. Ranks that normalise alone are micro-batches too.
        """
        strategy, scenario = self.strategy_spec, self.scenario_spec
        names = [self.size, scenario.mathematics or scenario.name, f"b{self.batch}"]
        micro_batches = strategy.micro_batches
        if self.normalises_alone:
            micro_batches *= self.ranks
        if micro_batches > 1 and self.workload_spec.couples_samples:
            names.append(f"m{micro_batches}")
        if strategy.variant:
            names.append(strategy.variant)
        if strategy.mathematics:
            names.append(strategy.mathematics)
        key = "/".join(names)
        return key + WITHOUT_RANDOM if self.is_deterministic else key

    @property
    def same_mathematics(self) -> bool:
        """Return whether the case computes what its scenario's baseline computes.

        If so, the same references hold for both.
        """
        baseline = replace(self, strategy=self.scenario_spec.baseline, ranks=1)
        return self.is_known and self.golden_key == baseline.golden_key

    @property
    def is_deterministic(self) -> bool:
        """Return whether the case is verified with randomness disabled.

        It is if the strategy draws random numbers in another order than the baseline.
        """
        return draws_differently(self.workload_spec.facts, self.strategy_spec)

    @property
    def optimizer(self) -> Optimizer:
        """Return the strategy's optimizer, or else the workload's."""
        return self.strategy_spec.optimizer or self.workload_spec.optimizer

    @property
    def support(self) -> Support:
        """Return the framework's support of the strategy, if the workload and batch allow it."""
        absence = self._explain_absence()
        if absence:
            return Unsupported(absence)
        support = self.strategy_spec.support[self.framework]
        if isinstance(support, AlwaysOn) and self.strategy != self.scenario_spec.baseline:
            return Unsupported(f"always so, with or without it: {support.why}")
        if support.supported:
            obstacle = self._explain_unsupported(support)
            if obstacle:
                return Unsupported(obstacle)
            if any(part.name == "rewrite" for part in self.strategy_spec.parts):
                support = replace(support, why=self.workload_spec.rewrites[self.framework])
        share = self.batch // self.ranks
        if share % self.strategy_spec.micro_batches != 0:
            whose = f"{share} of each rank" if self.ranks > 1 else f"{share}"
            parts = self.strategy_spec.micro_batches
            return Unsupported(f"batch {whose} does not divide into {parts} micro-batches")
        return support

    def _explain_absence(self) -> str | None:
        """Return why the framework has no model of the workload, or None if it has one."""
        if self.workload == USER_MODEL:
            return None
        if self.workload not in spec.find_folders():
            return GONE
        if self.framework not in self.workload_spec.frameworks:
            file = self.workload_spec.describe_file(self.framework)
            return f"not written for {TITLES[self.framework]}: {file}"
        return None

    def _explain_unsupported(self, support: Support) -> str | None:
        """Return why the workload forbids a strategy that the framework has, or None."""
        names = {part.name for part in self.strategy_spec.parts}
        for part in self.strategy_spec.parts:
            if part.needs and names.isdisjoint(part.needs):
                combinations = [f"{other}+{part.name}" for other in part.needs]
                examples = " or ".join(combinations)
                return f"only in a combination, such as {examples}: {support.why}"
        place = f"{self.workload}/{self.framework}"
        for exception in (place, f"{place}/{self.size}"):
            if self.strategy_spec.exceptions.get(exception):
                return self.strategy_spec.exceptions[exception]
        if self.workload == USER_MODEL:
            refusal = explain_refusal(self.workload_spec.facts, self.strategy_spec)
            if refusal:
                return refusal
        if "rewrite" in names and not self.workload_spec.rewrites.get(self.framework):
            return "no slow path was found in this workload to write differently"
        if "scan" in names and self.workload_spec.identical_layers(self.config) < 2:
            return "the model has one layer here: there is nothing to loop over"
        return None

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """Return the canonical float32 weights and buffers by name."""
        return self.workload_spec.make_weights(self.config)


@cache  # reading thousands of records asks for the same cases again and again
def _is_known(case: Case) -> bool:
    """Return whether this version has the parts of a case, and has them together."""
    try:
        scenario = SCENARIOS[case.scenario]
        strategy = find_strategy(case.scenario, case.strategy)
        workload = case.workload_spec
        if case.workload == USER_MODEL:
            fits = is_general(strategy)
        else:
            fits = scenario.suits(workload) and strategy.suits(workload)
        return fits and workload.units(case.config) > 0
    except (KeyError, ValueError):
        return False


def is_declared(case: Case) -> bool:
    """Return whether the workload has the scenario and the strategy at all, at this batch.

    A strategy that changes the mathematics exists at one batch only, since it needs references of
    its own.
    """
    workload, strategy = case.workload_spec, case.strategy_spec
    is_over_ranks = case.ranks > 1
    if strategy.over_ranks != is_over_ranks or case.batch % case.ranks != 0:
        return False
    if not case.scenario_spec.suits(workload) or not strategy.suits(workload):
        return False
    if strategy.micro_batches > 1 and workload.couples_samples:
        # micro-batches change the result here: there are references for every batch they divide
        return case.batch >= find_first_batch(case) and case.batch % strategy.micro_batches == 0
    if strategy.same_loss and case.scenario in ("train", "eval"):
        return True  # the baseline has references at every batch
    return case.batch == workload.preset(case.size).base


def find_first_batch(case: Case) -> int:
    """Return the smallest of the size's batches that divides into the strategy's micro-batches.

    Only batches from the base up count, since comparisons are made at the base. Where none of them
    divides, the base is returned.
    """
    preset = case.workload_spec.preset(case.size)
    for batch in preset.batches:
        if batch >= preset.base and batch % case.strategy_spec.micro_batches == 0:
            return batch
    return preset.base
