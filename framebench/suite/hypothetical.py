"""Cases that are predicted, not measured: of any batch, over any number of ranks. Standard library only, as workers read it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from framebench.models import spec
from framebench.suite.case import BATCH, DEFAULT_SIZE, Case, UnknownCase
from framebench.suite.registry import BASELINES, OVER_RANKS, find
from framebench.suite.selectors import parse
from framebench.suite.strategy import IncompatibleStrategies, Strategy

MOST_RANKS = 1024


@dataclass(frozen=True, order=True)
class Described(Case):
    """A case of a model that no size declares: `shape` is its configuration, and `size` only a word for it."""

    shape: Any = field(default=None, kw_only=True)

    @property
    def config(self) -> Any:
        variant = self.plan.variant
        return self.spec.variants[variant](self.shape) if variant else self.shape


def named(case_id: str) -> Case:
    """The case with this id, whose size may be left out; its batch needs no golden values. Raises UnknownCase."""
    case_id = _sized(case_id)
    try:
        return parse(case_id)
    except UnknownCase:
        try:
            case = Case.of(case_id)
        except ValueError:
            case = None
        if case is None or case.workload not in spec.names():
            raise
    preset = case.spec.sizes.get(case.size)
    return replace(parse(replace(case, batch=preset.base).id if preset else case.id), batch=case.batch)


def _sized(case_id: str) -> str:
    """With the default size where the last of six parts is left out."""
    return f"{case_id.rstrip('/')}/{DEFAULT_SIZE}" if case_id.strip("/").count("/") == 4 else case_id


def over_ranks(case_id: str, ranks: int | None = None) -> Case:
    """The case with this id, whose size may be left out, over so many ranks: those of the id (`b4x2`), or `ranks`.

    Every rank has as many samples as the others, and at least one: a batch that does not divide becomes the next that does.
    Raises UnknownCase.
    """
    parts = _sized(case_id).strip("/").split("/")
    if len(parts) != 6:
        raise UnknownCase(
            f"{case_id!r} has {len(parts)} parts; write for instance transformer/torch/train/fsdp/b4x2/{DEFAULT_SIZE}"
        )
    workload, framework, scenario, strategy, batch, size = parts
    if not (batch_match := BATCH.fullmatch(batch)):
        raise UnknownCase(f"{batch!r} is no batch: write for instance b4 with --ranks 2, or b4x2 for a batch of 4 over 2 ranks")
    # all but the strategy is valid if it is for the baseline
    named(f"{workload}/{framework}/{scenario}/{BASELINES.get(scenario, '*')}/b{batch_match['batch']}/{size}")
    count = _number_of_ranks(batch, int(batch_match["ranks"] or 0), ranks, strategy)
    plan = _strategy_over_ranks(scenario, strategy)
    if not plan.suits(spec.workload(workload)):
        raise UnknownCase(f"{plan.name} is for {', '.join(plan.workloads or ())}, not for {workload}")
    samples = -(-int(batch_match["batch"]) // count) * count
    return Case(workload, framework, scenario, plan.name, samples, size, count)


def _number_of_ranks(batch: str, written: int, asked: int | None, strategy: str) -> int:
    if written and asked and written != asked:
        raise UnknownCase(f"{batch} says {written} ranks, and --ranks {asked}: leave one of them out")
    if not (count := asked or written):
        raise UnknownCase(f"{strategy} needs a number of ranks: --ranks 2, or {batch}x2 for the batch over 2 ranks")
    if not 2 <= count <= MOST_RANKS:
        raise UnknownCase(f"{count} ranks: choose from 2 to {MOST_RANKS}")
    return count


def _strategy_over_ranks(scenario: str, name: str) -> Strategy:
    choices = [strategy_name for where, strategy_name in OVER_RANKS if where == scenario]
    if not choices:
        able = dict.fromkeys(where for where, _ in OVER_RANKS)
        raise UnknownCase(f"{scenario} has no strategy over ranks; choose from: {', '.join(able)}")
    try:
        plan = find(scenario, name)
    except KeyError as error:
        raise UnknownCase(f"no strategy {error.args[0][1]!r} over ranks; choose from: {', '.join(choices)}") from None
    except IncompatibleStrategies as error:
        raise UnknownCase(str(error)) from None
    if not plan.over_ranks:
        raise UnknownCase(f"{name} runs in a single process; strategies over ranks: {', '.join(choices)}")
    return plan


def obstacle(case: Case) -> str | None:
    """Why fake tensors cannot predict this case, if they cannot."""
    parts = {part.axis: part.name for part in case.parts}
    if case.framework != "torch" and case.ranks == 1:
        return "only PyTorch has fake tensors"
    if not case.support.supported or case.support.gpu:
        return case.support.why
    if case.plan.micro_batches > 1 and any(part.how == "fsdp" for part in case.parts):
        return "PyTorch's tracker of a rank's memory follows one forward pass of a step, not those of micro-batches"
    if case.support.package:
        return f"{case.support.package} is not followed on fake tensors: what its ranks hold is counted in docs/sharding.md"
    if {"adamw_8bit", "adamw_8bit_bnb", "int8"} & {part.how for part in case.parts}:
        return "tensors in 8 bits are not followed on fake tensors"
    if any(part.how == "factored" for part in case.parts):
        return "Adafactor's update asks how large weights are, and fake tensors have no numbers"
    if "execution" in parts or parts.get("pair", "").startswith("scripted"):
        return "only eager execution is predicted: a compiler decides anew what is kept"
    if "loading" in parts:
        return "the loader's threads and files are real"
    if "memory format" in parts:
        return "modules of fake tensors cannot be converted to another memory format"
    return None
