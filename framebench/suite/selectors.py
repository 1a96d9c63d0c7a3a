"""Find cases by name: selectors with globs, combinations `a+b`, full ids."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from difflib import get_close_matches

from framebench.models import spec
from framebench.strategies.registry import OVER_RANKS, SCENARIOS, STRATEGIES, find_strategy
from framebench.strategies.strategy import IncompatibleStrategies
from framebench.suite.case import BATCH, DEFAULT_SIZE, Case, UnknownCase
from framebench.suite.profiles import RANKS, list_by_id, list_cases, list_rank_cases, make_cases
from framebench.suite.sequences import drop_duplicates

MOST_SUGGESTIONS = 12
OTHER_MODELS = (
    "; a Transformer such as GPT-2 is described by its parameters: framebench advise transformer "
    "--parameters 124M; a model of your own: framebench try FILE.py"
)
PARTS = ("workload", "framework", "scenario", "strategy", "batch", "size")
BRACES = re.compile(r"\{([^{}]*)\}")

# by a strategy that is not in the catalog: the example that has it
EXAMPLES = {"qlora": "; QLoRA of a model of its own: examples/llama_qlora.py"}


def refuse_file(text: str) -> str:
    """Return the text, if it names cases.

    Raises UnknownCase for a file of the user's own, and names the commands that take one.
    """
    if text.endswith(".py"):
        raise UnknownCase(
            f"{text} is a file, and this takes the suite's cases alone; a file of your own goes to "
            f"`framebench try {text}`, or to explain, predict, max-batch, grow, versions compare "
            f"and versions bisect. `try` has --device for a GPU that is not here"
        )
    return text


def select(
    selector: str,
    size: str = DEFAULT_SIZE,
    candidates: list[Case] | None = None,
    ranks: bool = False,
) -> list[Case]:
    """Return the cases that match `workload/framework/scenario/strategy/bN/size`.

    Parts may be globs or `{a,b}`, and missing ones mean all. A combination `a+b` that is in no
    profile may be named in full.

    Args:
        selector: The pattern, part by part.
        size: The size that a selector without one means.
        candidates: The cases to choose from, of which all sizes match a selector without one. By
            default all declared cases.
        ranks: Whether to accept cases over several processes or devices (a strategy such as fsdp,
            or a batch such as b4x2). Otherwise such a selector raises UnknownCase.

    Raises UnknownCase naming the first part that nothing matches, with the valid values.
    """
    refuse_file(selector)
    if BRACES.search(selector):
        chosen = []
        for single_selector in expand_braces(selector):
            chosen += select(single_selector, size, candidates, ranks)
        return drop_duplicates(chosen)
    patterns = split_selector(selector, "*" if candidates else size)
    is_over_ranks = asks_for_ranks(selector)
    if is_over_ranks and not ranks:
        raise UnknownCase(
            f"{selector!r} is over ranks, which only run, plan, list, show, report, predict and "
            "advise take"
        )
    declared = list_rank_cases() if is_over_ranks else list_cases()
    cases = list(candidates or declared)
    if "+" in patterns["strategy"]:
        name, combined = find_combination(patterns["scenario"], patterns["strategy"])
        patterns["strategy"] = name
        cases += [case for case in combined if case not in cases]
    # the size restricts which batches exist, so it is matched before them
    for part in ("workload", "framework", "scenario", "strategy", "size", "batch"):
        cases = match_part(cases, part, patterns[part], selector)
    return cases


def expand_braces(selector: str) -> list[str]:
    """Return a selector without braces for each combination of the choices in them."""
    braces = BRACES.search(selector)
    if braces is None:
        return [selector]
    expanded = []
    for choice in braces[1].split(","):
        expanded += expand_braces(selector.replace(braces[0], choice, 1))
    return expanded


def split_selector(selector: str, size: str) -> dict[str, str]:
    """Return the pattern of each part; a missing part is `*`, a missing size is `size`.

    Raises UnknownCase for too many parts.
    """
    parts = selector.strip("/").split("/")
    if len(parts) > len(PARTS):
        raise UnknownCase(
            f"{selector!r} has {len(parts)} parts; "
            f"a case is workload/framework/scenario/strategy/bN/size"
        )
    patterns = dict.fromkeys(PARTS, "*") | {"size": size}
    for name, part in zip(PARTS, parts):
        patterns[name] = part or "*"
    return patterns


def replace_framework(selector: str, framework: str) -> str:
    """Return the selector with this framework in place of another, such as `unet3d/jax`."""
    parts = selector.strip("/").split("/")
    return "/".join([parts[0], framework, *parts[2:]])


def add_missing_batch(selector: str) -> str:
    """Return the selector with `*` as its batch, if a size stands in the place of the batch."""
    words = selector.strip("/").split("/")
    batch_place = PARTS.index("batch")
    if len(words) == batch_place + 1 and is_size(words[batch_place]):
        words.insert(batch_place, "*")
    return "/".join(words)


def is_size(text: str) -> bool:
    """Return whether any workload has a size of this name, declared or described."""
    if spec.DESCRIBED.fullmatch(text):
        return True
    return any(text in spec.load_workload(name).sizes for name in spec.list_workloads())


def join_choice(names: Sequence[str]) -> str:
    """Return the part of a selector that names these: one as it is, several in braces."""
    if len(names) == 1:
        return names[0]
    return f"{{{','.join(names)}}}"


def match_part(cases: list[Case], part: str, pattern: str, selector: str) -> list[Case]:
    """Return the cases whose part of this name matches. Raises UnknownCase if no case matches."""
    place = PARTS.index(part)
    values = []
    matching = []
    for case in cases:
        value = case.id.split("/")[place]
        values.append(value)
        if fnmatch.fnmatchcase(value, pattern):
            matching.append(case)
    if matching:
        return matching
    message = f"no {part} {pattern!r} in {selector!r}; choose from: "
    message += suggest(drop_duplicates(values), pattern)
    moved = move_to_later_place(selector, place)
    if moved:
        message += f"; did you mean {moved!r}?"
    elif part == "workload":
        message += OTHER_MODELS
    message += EXAMPLES.get(pattern, "")
    raise UnknownCase(message)


def check_workload(pattern: str) -> None:
    """Raise UnknownCase with the valid names if no workload matches the pattern."""
    match_part(list(list_cases()), "workload", pattern, pattern)


def move_to_later_place(selector: str, place: int) -> str:
    """Return the selector with `*` before the part at this place, so that it matches cases.

    For `resnet50/torch/train/*/full`, whose batch is missing, it is
    `resnet50/torch/train/*/*/full`. It is empty if cases match at no later place.
    """
    parts = selector.strip("/").split("/")
    if place >= len(parts):
        return ""
    ids = [case.id for case in list_cases()]
    for missing in range(1, len(PARTS) - len(parts) + 1):
        inserted = ["*"] * missing
        text = "/".join([*parts[:place], *inserted, *parts[place:]])
        pattern = "/".join(split_selector(text, "*").values())
        if fnmatch.filter(ids, pattern):
            return text
    return ""


def suggest(valid: Sequence[str], text: str, separator: str = ", ") -> str:
    """Return in one line the valid names that `text` may stand for, the likeliest first.

    If there are more than MOST_SUGGESTIONS, the others are only counted.
    """
    if len(valid) <= MOST_SUGGESTIONS:
        return separator.join(valid)
    likeliest = get_close_matches(text, valid, MOST_SUGGESTIONS, cutoff=0.5)
    others = [name for name in valid if name not in likeliest]
    listed = (likeliest + others)[:MOST_SUGGESTIONS]
    return f"{separator.join(listed)} and {len(valid) - MOST_SUGGESTIONS} more"


def asks_for_ranks(selector: str) -> bool:
    """Return whether a selector names a strategy over ranks, or a number of ranks.

    The name or the number may be wrong.
    """
    parts = dict(zip(PARTS, selector.strip("/").split("/")))
    over_ranks = {strategy for _, strategy in OVER_RANKS}
    has_strategy = not over_ranks.isdisjoint(parts.get("strategy", "").split("+"))
    return has_strategy or "x" in parts.get("batch", "")


def names_batch(selector: str) -> bool:
    """Return whether a part of a selector is one batch, such as b8 or b8x2."""
    return any(BATCH.fullmatch(part) for part in selector.split("/"))


def is_broad(selector: str) -> bool:
    """Return whether a selector has globs or no batch, so that it names cases nobody thought of."""
    return any(glob in selector for glob in "*?[") or not names_batch(selector)


def find_combination(scenarios: str, name: str) -> tuple[str, list[Case]]:
    """Return the proper name of `b+a`, and its cases in the first scenario where it makes sense.

    `scenarios` is a glob. Raises UnknownCase.
    """
    reasons = []
    for scenario in fnmatch.filter(SCENARIOS, scenarios):
        try:
            strategy = find_strategy(scenario, name)
        except KeyError as error:
            _, missing = error.args[0]
            valid = [strategy for of_scenario, strategy in STRATEGIES if of_scenario == scenario]
            suggestions = suggest(valid, missing)
            reasons.append(f"no strategy {missing!r} in {scenario}; choose from: {suggestions}")
            reasons[-1] += EXAMPLES.get(missing, "")
        except IncompatibleStrategies as error:
            reasons.append(str(error))
        else:
            ranks = RANKS if strategy.over_ranks else (1,)
            return strategy.name, make_cases([(scenario, strategy.name)], ranks)
    reasons.append(f"no scenario {scenarios!r}; choose from: {', '.join(SCENARIOS)}")
    raise UnknownCase(reasons[0])


def parse(case_id: str) -> Case:
    """Return the one case with this full id. Raises UnknownCase.

    A user's model is in no profile, so any id of such a model is accepted.
    """
    if case_id.startswith(f"{spec.USER_MODEL}/"):
        return Case.from_id(case_id)
    if case_id in list_by_id():
        return list_by_id()[case_id]
    cases = select(case_id, ranks=True)
    if len(cases) != 1:
        raise UnknownCase(
            f"{case_id!r} names {len(cases)} cases, not one; "
            f"give all six parts, as in {cases[0].id}"
        )
    return cases[0]
