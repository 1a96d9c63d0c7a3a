"""Name cases over any number of ranks. Few of them are measured, and all can be predicted.

Standard library only, since workers import it.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from framebench.models import spec
from framebench.strategies.registry import BASELINES, OVER_RANKS, find_strategy
from framebench.strategies.strategy import FRAMEWORKS, IncompatibleStrategies, Strategy
from framebench.suite import hypothetical
from framebench.suite.case import BATCH, DEFAULT_SIZE, Case, UnknownCase
from framebench.suite.selectors import BRACES, add_missing_batch, expand_braces, split_selector
from framebench.suite.sequences import drop_duplicates

MOST_RANKS = 1024
# in a suggested command, where the user named none
EXAMPLE_BATCH = 8
EXAMPLE_RANKS = 4
# Of each framework the combination that divides weights, gradients and states, and keeps few
# activations: of all that compute the same, a rank needs little with them.
CHECKPOINTED = ("checkpoint+fsdp", "checkpoint+fully_sharded")

AUTOCAST = ("amp_bf16", "amp_fp16")  # switches of strategies that compute under torch.autocast
AUTOCAST_COPIES = (
    "autocast keeps a copy of all weights in 16 bits on every rank until the forward pass ends. "
    "FSDP's own mixed precision, which is no strategy here, keeps none: docs/sharding.md, 'Mixed "
    "precision', says how to predict it"
)


def parse_rank_case(case_id: str, ranks: int | None = None) -> Case:
    """Return the case with this id over the ranks of its batch (`b4x2`), or over `ranks`.

    The size may be left out. Every rank has the same number of samples, and at least one: a batch
    that `ranks` do not divide is raised to the next that they do. Raises UnknownCase, also for such
    a batch that names its ranks itself (`b3x2`).
    """
    workload, framework, scenario, name, batch, size = split_rank_selector(case_id)
    if batch == "*":
        example = complete_rank_selector(case_id, ranks)
        raise UnknownCase(f"{case_id!r} names no batch; write for instance {example!r}")
    matched = BATCH.fullmatch(batch)
    if matched is None:
        raise UnknownCase(
            f"{batch!r} is no batch: write for instance b4 with --ranks 2, or b4x2 "
            "for a batch of 4 over 2 ranks"
        )
    # the other parts are valid if they are valid with the baseline as the strategy
    baseline = BASELINES.get(scenario, "*")
    samples = int(matched["batch"])
    hypothetical.parse_any_batch(f"{workload}/{framework}/{scenario}/{baseline}/b{samples}/{size}")
    ranks_in_batch = int(matched["ranks"] or 0)
    if ranks_in_batch and ranks and ranks_in_batch != ranks:
        raise UnknownCase(
            f"{batch} says {ranks_in_batch} ranks, and --ranks {ranks}: leave one of them out"
        )
    rank_count = ranks or ranks_in_batch
    if not rank_count:
        raise UnknownCase(
            f"{name} needs a number of ranks: --ranks 2, or {batch}x2 for the batch over 2 ranks"
        )
    if not 2 <= rank_count <= MOST_RANKS:
        raise UnknownCase(f"{rank_count} ranks: choose from 2 to {MOST_RANKS}")
    strategy = find_rank_strategy(workload, scenario, name)
    samples_per_rank = -(-samples // rank_count)  # rounded up
    if ranks_in_batch and samples % rank_count:
        raise UnknownCase(
            f"{batch}: {samples} samples do not divide by {rank_count} ranks; write for instance "
            f"b{samples_per_rank * rank_count}x{rank_count}"
        )
    return Case(
        workload,
        framework,
        scenario,
        strategy.name,
        batch=samples_per_rank * rank_count,
        size=size,
        ranks=rank_count,
    )


def find_rank_strategy(workload: str, scenario: str, name: str) -> Strategy:
    """Return a strategy over ranks, or a combination with one. Raises UnknownCase."""
    choices = f"strategies over ranks in {scenario}: {list_choices(scenario)}"
    try:
        strategy = find_strategy(scenario, name)
    except KeyError as error:
        _scenario, unknown = error.args[0]
        raise UnknownCase(f"no strategy {unknown!r}; {choices}") from None
    except IncompatibleStrategies as error:
        raise UnknownCase(str(error)) from None
    if not strategy.over_ranks:
        raise UnknownCase(
            f"{name} runs in a single process; {choices}. Where each GPU holds the whole model, as "
            "under DistributedDataParallel, ask about one GPU with its share of the batch, without "
            "ranks: beside it are buffers as large as the gradients"
        )
    if not strategy.suits(spec.load_workload(workload)):
        workloads = ", ".join(strategy.workloads or ())
        raise UnknownCase(f"{strategy.name} is for {workloads}, not for {workload}")
    return strategy


def split_rank_selector(selector: str) -> list[str]:
    """Return the six parts of a selector, whose size and batch may be left out.

    A missing batch is `*`. Raises UnknownCase.
    """
    parts = add_missing_batch(selector).split("/")
    if len(parts) == 4:
        parts.append("*")
    parts = hypothetical.add_missing_size("/".join(parts)).split("/")
    if len(parts) != 6:
        raise UnknownCase(
            f"{selector!r} has {len(parts)} parts; write for instance "
            "'transformer/torch/train/fsdp/b4x2/cpu'"
        )
    return parts


def fill_rank_selector(selector: str, size: str = DEFAULT_SIZE) -> dict[str, str]:
    """Return the parts of a selector by their names, in their order.

    What it leaves out is usual: training of the Transformer, of this size. A missing framework,
    strategy or batch is `*`. Raises UnknownCase for too many parts.
    """
    parts = split_selector(add_missing_batch(selector), size)
    for name, usual in (("workload", "transformer"), ("scenario", "train")):
        if parts[name] == "*":
            parts[name] = usual
    return parts


def complete_rank_selector(selector: str, ranks: int | None = None, size: str | None = None) -> str:
    """Return a selector that commands over ranks take: with a batch that its ranks divide.

    Args:
        selector: As the user wrote it, perhaps without a batch, without ranks, or without a size.
        ranks: Their number, where the batch does not name one.
        size: In the place of the one that the selector names or leaves out.
    """
    parts = fill_rank_selector(selector)
    matched = BATCH.fullmatch(parts["batch"])
    samples = int(matched["batch"]) if matched else EXAMPLE_BATCH
    ranks_in_batch = int(matched["ranks"] or 0) if matched else 0
    rank_count = ranks_in_batch or ranks or EXAMPLE_RANKS
    samples_per_rank = -(-samples // rank_count)  # rounded up
    parts["batch"] = f"b{samples_per_rank * rank_count}x{rank_count}"
    if size:
        parts["size"] = size
    return "/".join(parts.values())


def list_choices(scenario: str) -> str:
    """Return the names of a scenario's strategies over ranks, for a message."""
    names = []
    for strategy_scenario, name in OVER_RANKS:
        if strategy_scenario == scenario:
            names.append(name)
    return ", ".join(names) or "none"


def match_cases(selector: str, ranks: int | None = None) -> list[Case]:
    """Return the cases over ranks that a selector names, with a batch such as b8x8 or over `ranks`.

    Framework and strategy may be patterns, such as `*`, or choices in braces. A pattern matches
    strategies that suit the workload and need no other strategy. A combination such as
    `checkpoint+fsdp` has to be named in full. Raises UnknownCase.
    """
    if BRACES.search(selector):
        chosen = []
        for expanded in expand_braces(selector):
            chosen += match_cases(expanded, ranks)
        return drop_duplicates(chosen)
    workload, framework, scenario, strategy, batch, size = split_rank_selector(selector)
    names = [strategy]
    if is_pattern(strategy):
        model = spec.load_workload(workload)
        names = []
        for (strategy_scenario, name), candidate in OVER_RANKS.items():
            is_matched = strategy_scenario == scenario and fnmatchcase(name, strategy)
            if is_matched and candidate.suits(model) and not candidate.needs:
                names.append(name)
    supported = []
    for name in names:
        for framework_name in FRAMEWORKS:
            if fnmatchcase(framework_name, framework):
                case_id = f"{workload}/{framework_name}/{scenario}/{name}/{batch}/{size}"
                case = parse_rank_case(case_id, ranks)
                if case.support.supported:
                    supported.append(case)
    if not supported:
        raise UnknownCase(
            f"no strategy over ranks matches {selector!r}; choose from: {list_choices(scenario)}"
        )
    return supported


def match_smallest_cases(selector: str, ranks: int) -> list[Case]:
    """Return the cases over ranks that a selector names, each at the smallest batch it can have.

    That is one sample in each micro-batch of each rank. The batch that the selector names is not
    used. Raises UnknownCase.
    """
    cases = []
    for expanded in expand_braces(selector):
        workload, framework, scenario, strategy, _, size = split_rank_selector(expanded)
        micro_batches = 1
        if not is_pattern(strategy):
            micro_batches = find_rank_strategy(workload, scenario, strategy).micro_batches
        batch = f"b{ranks * micro_batches}"
        cases += match_cases(f"{workload}/{framework}/{scenario}/{strategy}/{batch}/{size}", ranks)
    return drop_duplicates(cases)


def match_checkpointed_cases(selector: str, ranks: int | None = None) -> list[Case]:
    """Return the cases of CHECKPOINTED with the other parts that a selector names, perhaps none.

    The selector is as that of `match_cases`. Raises UnknownCase if it has too many or few parts.
    """
    cases = []
    for expanded in expand_braces(selector):
        workload, framework, scenario, _, batch, size = split_rank_selector(expanded)
        for strategy in CHECKPOINTED:
            named = f"{workload}/{framework}/{scenario}/{strategy}/{batch}/{size}"
            try:
                cases += match_cases(named, ranks)
            except UnknownCase:  # it is another framework's, or the scenario has no checkpointing
                continue
    return drop_duplicates(cases)


def is_pattern(name: str) -> bool:
    """Return whether a part of a selector may stand for several names."""
    return any(glob in name for glob in "*?[")


def list_rank_notes(case: Case) -> list[str]:
    """Return what a reader of this case's prediction must know, besides its numbers."""
    switches = {part.switch for part in case.parts}
    is_autocast = not switches.isdisjoint(AUTOCAST)
    if case.framework == "torch" and "fsdp" in switches and is_autocast:
        return [AUTOCAST_COPIES]
    return []


def explain_unpredictable_rank(case: Case) -> str | None:
    """Return why one rank of this case cannot be predicted, or None if it can."""
    if not case.support.supported or case.support.gpu:
        return hypothetical.explain_unpredictable(case)
    is_fsdp = any(part.switch == "fsdp" for part in case.parts)
    if is_fsdp and case.strategy_spec.micro_batches > 1:
        return (
            "PyTorch's tracker of a rank's memory follows one forward pass of a step, not those of "
            "micro-batches"
        )
    if case.support.package:
        return (
            f"{case.support.package} is not followed on fake tensors: what its ranks hold is "
            "counted in docs/sharding.md"
        )
    return hypothetical.explain_unpredictable(case)
