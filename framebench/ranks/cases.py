"""Cases over any number of ranks, of which few are measured and all predicted. Standard library only, as workers read it."""

from __future__ import annotations

from framebench.models import spec
from framebench.strategies.registry import BASELINES, OVER_RANKS, find_strategy
from framebench.strategies.strategy import IncompatibleStrategies, Strategy
from framebench.suite import hypothetical
from framebench.suite.case import BATCH, DEFAULT_SIZE, Case, UnknownCase

MOST_RANKS = 1024


def over_ranks(case_id: str, ranks: int | None = None) -> Case:
    """The case with this id, whose size may be left out, over so many ranks: those of the id (`b4x2`), or `ranks`.

    Every rank has as many samples as the others, and at least one: a batch that does not divide becomes the next that does.
    Raises UnknownCase.
    """
    parts = hypothetical.add_default_size(case_id).strip("/").split("/")
    if len(parts) != 6:
        raise UnknownCase(
            f"{case_id!r} has {len(parts)} parts; write for instance transformer/torch/train/fsdp/b4x2/{DEFAULT_SIZE}"
        )
    workload, framework, scenario, strategy, batch, size = parts
    if not (batch_match := BATCH.fullmatch(batch)):
        raise UnknownCase(f"{batch!r} is no batch: write for instance b4 with --ranks 2, or b4x2 for a batch of 4 over 2 ranks")
    # all but the strategy is valid if it is for the baseline
    hypothetical.parse_any_batch(
        f"{workload}/{framework}/{scenario}/{BASELINES.get(scenario, '*')}/b{batch_match['batch']}/{size}"
    )
    count = _number_of_ranks(batch, int(batch_match["ranks"] or 0), ranks, strategy)
    plan = _strategy_over_ranks(scenario, strategy)
    if not plan.suits(spec.load_workload(workload)):
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
        plan = find_strategy(scenario, name)
    except KeyError as error:
        raise UnknownCase(f"no strategy {error.args[0][1]!r} over ranks; choose from: {', '.join(choices)}") from None
    except IncompatibleStrategies as error:
        raise UnknownCase(str(error)) from None
    if not plan.over_ranks:
        raise UnknownCase(f"{name} runs in a single process; strategies over ranks: {', '.join(choices)}")
    return plan


def obstacle(case: Case) -> str | None:
    """Why one rank of this case cannot be predicted, if it cannot."""
    if case.support.supported and not case.support.gpu:
        if case.plan.micro_batches > 1 and any(part.how == "fsdp" for part in case.parts):
            return "PyTorch's tracker of a rank's memory follows one forward pass of a step, not those of micro-batches"
        if case.support.package:
            return f"{case.support.package} is not followed on fake tensors: what its ranks hold is counted in docs/sharding.md"
    return hypothetical.find_obstacle(case)
