"""Say what stands out in a machine's tables, in sentences for README.

Each is made of the rows alone, and none names a cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from framebench.analysis import rows
from framebench.analysis.answers import describe_cost
from framebench.models import spec
from framebench.strategies.strategy import TITLES
from framebench.suite.case import DEFAULT_SIZE


@dataclass(frozen=True)
class Topic:
    """Strategies of a scenario that README has a line on.

    Without `workloads` and `frameworks` it is about all of them.
    """

    title: str
    scenario: str
    strategies: tuple[str, ...]
    workloads: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()


TOPICS = (
    Topic("Checkpointing", "train", ("checkpoint",)),
    Topic(
        "Scanned layers, which JAX's checkpointing has besides",
        "train",
        ("scan",),
        ("transformer",),
        ("jax",),
    ),
    Topic("bfloat16", "train", ("amp_bf16",)),
    Topic("Accumulation", "train", ("accumulate",)),
    Topic("Adam in 8 bits, and Adafactor", "train", ("adamw_8bit", "adafactor"), ("transformer",)),
    Topic("Weights in 8 bits", "eval", ("int8_weights", "int8_dynamic"), ("transformer",)),
    Topic("3-D convolutions written as 2-D ones", "train", ("rewrite",), ("unet3d",)),
    Topic("Evaluation with gradients on", "eval", ("grad",)),
    Topic("Jittor without fusion", "eval", ("no_fuse",), ("resnet50",), ("jittor",)),
    Topic("Jittor's amp_level 3", "train", ("amp_level_3",), (), ("jittor",)),
)


def describe_machine(table: pd.DataFrame) -> tuple[str, ...]:
    """Return a line for each topic that has numbers, from rows as `framebench.load` gives them."""
    usual_size = table[table["size"] == DEFAULT_SIZE]
    lines = []
    for topic in TOPICS:
        phrases = list(describe_topic(usual_size, topic))
        if phrases:
            lines.append(f"**{topic.title}**: {'; '.join(phrases)}.")
    return tuple(lines)


def describe_topic(table: pd.DataFrame, topic: Topic) -> Iterator[str]:
    """Yield a phrase for each workload, at its usual batch.

    For instance `Transformer PyTorch 53% of the peak (1.25 x the time), JAX ...`.
    """
    frameworks = topic.frameworks or tuple(TITLES)
    has_several = len(topic.strategies) > 1
    for workload in topic.workloads or spec.list_workloads():
        group = table[(table["workload"] == workload) & (table["scenario"] == topic.scenario)]
        usual = group[group["batch"] == rows.find_usual_batch(group)]
        usual = usual[usual["status"] != "unsupported"]
        is_in_topic = usual["strategy"].isin(topic.strategies) & usual["framework"].isin(frameworks)
        phrases = [describe_row(row, has_several) for row in rows.iterate_rows(usual[is_in_topic])]
        if phrases:
            yield f"{spec.load_workload(workload).title} {', '.join(phrases)}"


def describe_row(row: Any, with_strategy: bool) -> str:
    """Return a strategy's share of the baseline's peak and its cost in time, or why there is none.

    Both peaks are by the instrument of the framework itself.
    """
    which = TITLES[row.framework]
    if with_strategy:
        which += f" `{row.strategy}`"
    if row.status != "ok":
        return f"{which} `{row.status}`"
    if not row.usable or pd.isna(row.peak_ratio):
        return f"{which} not at work"
    return f"{which} {row.peak_ratio:.0%} of the peak ({describe_cost(row)})"
