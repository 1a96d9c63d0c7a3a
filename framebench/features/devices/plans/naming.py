"""Which cases a selector names that are planned, not measured: many, of any batch, over any number of ranks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from framebench.features.ranks.cases import over_ranks
from framebench.suite import hypothetical
from framebench.suite.case import Case, UnknownCase
from framebench.suite.selectors import asks_for_ranks, select


def cases_of(selectors: Sequence[str]) -> list[Case]:
    """Those that the selectors name; without globs, one may have any batch, and any number of ranks. Raises UnknownCase."""
    return list(dict.fromkeys(case for selector in selectors for one in choices(selector) for case in _cases(one)))


def choices(selector: str) -> list[str]:
    """With each of `{a,b}` in its place."""
    if not (braces := re.search(r"\{([^{}]*)\}", selector)):
        return [selector]
    return [one for choice in braces[1].split(",") for one in choices(selector.replace(braces[0], choice, 1))]


def _cases(selector: str) -> list[Case]:
    try:
        return select(selector, ranks=True)
    except UnknownCase:
        if any(glob in selector for glob in "*?["):
            raise
    return [over_ranks(selector) if asks_for_ranks(selector) else hypothetical.named(selector)]
