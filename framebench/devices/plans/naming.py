"""Which cases a selector names that are planned, not measured: many, of any batch, over any number
of ranks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from framebench.ranks.cases import over_ranks
from framebench.suite import hypothetical
from framebench.suite.case import Case, UnknownCase
from framebench.suite.selectors import asks_for_ranks, select

BRACES = re.compile(r"\{([^{}]*)\}")


def cases_of(selectors: Sequence[str]) -> list[Case]:
    """Return the cases that the selectors name, each once.

    A selector without globs may have any batch, and any number of ranks. Raises UnknownCase.
    """
    cases: dict[Case, None] = {}  # as an ordered set
    for selector in selectors:
        for choice in expand_braces(selector):
            cases |= dict.fromkeys(select_cases(choice))
    return list(cases)


def expand_braces(selector: str) -> list[str]:
    """Return the selector with each of `{a,b}` in its place."""
    braces = BRACES.search(selector)
    if braces is None:
        return [selector]
    expanded = []
    for choice in braces[1].split(","):
        expanded += expand_braces(selector.replace(braces[0], choice, 1))
    return expanded


def select_cases(selector: str) -> list[Case]:
    """Return the cases that a selector without braces names. Raises UnknownCase."""
    try:
        return select(selector, ranks=True)
    except UnknownCase:
        if any(glob in selector for glob in "*?["):
            raise
    if asks_for_ranks(selector):
        return [over_ranks(selector)]
    return [hypothetical.parse_any_batch(selector)]
