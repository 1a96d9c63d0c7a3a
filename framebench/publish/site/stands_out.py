"""Say what stands out in a machine's tables, in sentences for its page on the site.

Each sentence is made only from the rows, and none names a cause. Their topics are in `topics.toml`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from framebench.analysis import rows
from framebench.analysis.answers import describe_cost
from framebench.models import spec
from framebench.strategies.strategy import FRAMEWORKS, TITLES
from framebench.suite.case import DEFAULT_SIZE

TOPICS = tomllib.loads(Path(__file__).with_name("topics.toml").read_text(encoding="utf-8"))["topic"]


def describe_machine(table: pd.DataFrame) -> tuple[str, ...]:
    """Return a line for each topic that has numbers, from the rows of `framebench.load`."""
    usual_size = table[table["size"] == DEFAULT_SIZE]
    lines = []
    for topic in TOPICS:
        filters = {name: value for name, value in topic.items() if name != "title"}
        phrases = list(describe_topic(usual_size, **filters))
        if phrases:
            lines.append(f"**{topic['title']}**: {'; '.join(phrases)}.")
    return tuple(lines)


def describe_topic(
    table: pd.DataFrame,
    *,
    scenario: str,
    strategies: list[str],
    workloads: list[str] | None = None,
    frameworks: tuple[str, ...] = FRAMEWORKS,
) -> Iterator[str]:
    """Yield a phrase for each workload, at its usual batch.

    For instance `Transformer PyTorch 53% of the peak (1.25 x the time), JAX ...`.
    """
    names_strategy = len(strategies) > 1
    for workload in workloads or spec.list_workloads():
        group = table[(table["workload"] == workload) & (table["scenario"] == scenario)]
        is_usual = group["batch"] == rows.find_usual_batch(group)
        is_named = group["strategy"].isin(strategies) & group["framework"].isin(frameworks)
        is_supported = group["status"] != "unsupported"
        shown = group[is_usual & is_named & is_supported]
        texts = [describe_row(row, names_strategy) for row in rows.iterate_rows(shown)]
        if texts:
            title = spec.load_workload(workload).title
            yield f"{title} {', '.join(texts)}"


def describe_row(row: Any, with_strategy: bool) -> str:
    """Return a strategy's share of the baseline's peak and its cost in time, or why it has neither.

    Both peaks are by the framework's own instrument.
    """
    which = TITLES[row.framework]
    if with_strategy:
        which += f" `{row.strategy}`"
    if row.status != "ok":
        return f"{which} `{row.status}`"
    if not row.usable or pd.isna(row.peak_ratio):
        return f"{which} not at work"
    return f"{which} {row.peak_ratio:.0%} of the peak ({describe_cost(row)})"
