"""Select the rows that a figure shows, and describe those and the ones that it leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from framebench.analysis.tables import (
    describe_conditions,
    describe_instruments,
    is_on_gpu,
    join_values,
)
from framebench.strategies.registry import list_strategies
from framebench.strategies.strategy import TITLES
from framebench.suite.case import DEFAULT_SIZE
from framebench.suite.protocol import VERSION
from framebench.suite.sequences import drop_duplicates

NAMED = 12  # as many cases are named in a footer; the others are counted


def select_shown(df: pd.DataFrame) -> pd.DataFrame:
    """Return the strategies that people use, each once.

    A strategy is shown at the usual batch, or at the smallest one with numbers. Frameworks have
    their proper names, and both are in the catalog's order.
    """
    used = df[~df["only_for_claims"]]
    is_unusual = used["batch"] != find_usual_batch(used)
    ranked = used.assign(is_unusual=is_unusual, has_no_numbers=~used["usable"])
    ranked = ranked.sort_values(["is_unusual", "has_no_numbers", "batch"], kind="stable")
    # the first of a strategy's rows stays
    first = ranked.drop_duplicates(["workload", "scenario", "framework", "strategy"])
    return order_by_catalog(first.drop(columns=["is_unusual", "has_no_numbers"]))


def name_scenario(df: pd.DataFrame) -> str:
    """Return the workload and scenario of these rows, such as `transformer train`."""
    return f"{df['workload'].iloc[0]} {df['scenario'].iloc[0]}"


def find_usual_batch(df: pd.DataFrame) -> int:
    """Return the batch with the most rows, the smallest among equals, or 0 without rows."""
    return int(df["batch"].mode().min()) if len(df) else 0


def order_by_catalog(df: pd.DataFrame) -> pd.DataFrame:
    """Sort the rows; `framework` and `strategy` become categories in the catalog's order.

    Frameworks get their proper names. Only categories that occur are there.
    """
    names: list[str] = []
    for scenario in df["scenario"].unique():
        names += list_strategies(scenario)
    names += sorted(df["strategy"].unique())  # strategies of no profile come last
    # a strategy of several scenarios has the place of the first
    strategies = pd.Categorical(df["strategy"].astype(str), drop_duplicates(names))
    proper_names = df["framework"].astype(str).replace(TITLES)
    frameworks = pd.Categorical(proper_names, list(TITLES.values()))
    categorized = df.assign(
        framework=frameworks.remove_unused_categories(),
        strategy=strategies.remove_unused_categories(),
    )
    return categorized.sort_values(["workload", "scenario", "framework", "strategy", "batch"])


def describe_batches(df: pd.DataFrame) -> str:
    """Return a sentence that says at which batch these rows were measured."""
    usual = find_usual_batch(df)
    text = f"Batch {usual}"
    others = df[df["batch"] != usual]
    if not others.empty:
        exceptions = others["strategy"].astype(str) + " at " + others["batch"].astype(str)
        text += f" ({shorten_list(sorted(exceptions))})"
    size = df["size"].iloc[0]
    return f"{text}, size {size}."


def iterate_rows(df: pd.DataFrame) -> Iterator[Any]:
    """Yield the rows as named tuples, whose fields have no static types."""
    return iter(df.itertuples())


def format_times(value: float) -> str:
    """Return a ratio as `1.25x`."""
    return f"{value:.2f}x" if value < 10 else f"{value:,.0f}x"


def join_words(parts: Iterable[str]) -> str:
    """Return `a`, `a and b`, or `a, b and c`."""
    words = list(parts)
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def format_size_suffix(size: str) -> str:
    """Return the end of a figure's name for a size: "" for the usual one."""
    return "" if size == DEFAULT_SIZE else f"-{size}"


def make_panel_title(framework: str, df: pd.DataFrame) -> str:
    """Return the framework and its version."""
    versions = df[df["framework"] == framework]["framework_version"].dropna().unique()
    return " ".join([framework, *sorted(versions)])


def make_peak_label(df: pd.DataFrame) -> str:
    """Return the label of the axis of peaks; on a GPU they are peaks of the whole process."""
    what = "memory of the process on the GPU" if is_on_gpu(df) else "peak memory of a step"
    return f"{what}, MiB ({join_values(df['shared_instrument'])})"


def make_footer(df: pd.DataFrame, *notes: str) -> list[str]:
    """Return the notes, the missing cases with their reasons, cautions, and origins."""
    usable = df[df["usable"]]
    origin = describe_conditions(df if usable.empty else usable)
    if usable["shared_instrument"].notna().any():
        origin = f"{describe_instruments(usable)} {origin}"
    return [*notes, describe_missing(df), *list_cautions(usable), origin]


def describe_missing(df: pd.DataFrame) -> str:
    """Return a sentence with the rows that have no numbers by outcome, or nothing."""
    without = df[~df["usable"]]
    reasons = without["status"].replace("ok", "not proven")
    outcomes = []
    for outcome, names in name_strategies(without).groupby(reasons):
        outcomes.append(f"{outcome}: {shorten_list(names)}")
    return f"Without numbers: {'; '.join(outcomes)}." if outcomes else ""


def name_strategies(df: pd.DataFrame) -> pd.Series:
    """Return each row's framework and strategy, such as `PyTorch checkpoint`."""
    return df["framework"].astype(str) + " " + df["strategy"].astype(str)


def shorten_list(names: Iterable[str]) -> str:
    """Return the names, each once; of many the first ones and how many more there are."""
    different = drop_duplicates(names)
    text = ", ".join(different[:NAMED])
    if len(different) > NAMED:
        text += f" and {len(different) - NAMED} more"
    return text


def list_cautions(df: pd.DataFrame) -> list[str]:
    """Return a sentence for records of an older protocol, one for records of uncommitted code."""
    faults = {
        f"measured under an older protocol than {VERSION}": df["protocol"] != VERSION,
        "measured with uncommitted changes": df["dirty"].fillna(False).astype(bool),
    }
    cautions = []
    for fault, is_concerned in faults.items():
        if is_concerned.all() and len(df) > 1:
            cautions.append(f"All records {fault}.")
        elif is_concerned.any():
            cautions.append(f"{fault.capitalize()}: {shorten_list(df['case'][is_concerned])}.")
    return cautions
