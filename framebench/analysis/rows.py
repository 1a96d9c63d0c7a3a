"""Which rows a figure shows, which it leaves out, and the words for both.

Tables in, tables and sentences out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from framebench.analysis.tables import describe_conditions, describe_instruments, is_on_gpu
from framebench.strategies.registry import list_strategies
from framebench.suite.case import DEFAULT_SIZE
from framebench.suite.protocol import VERSION

NAMES = {"torch": "PyTorch", "jax": "JAX", "jittor": "Jittor"}
NAMED = 12  # so many cases are named in a footer, the others are counted


def find_outcomes(df: pd.DataFrame) -> pd.Series:
    """Return why each row has no numbers here."""
    return df["status"].where(df["status"] != "ok", "not proven")


def select_shown(df: pd.DataFrame) -> pd.DataFrame:
    """Return the strategies that people use, each once: at the usual batch, or at the smallest one
    with numbers.

    Frameworks have their proper names, and both are in the catalog's order.
    """
    used = df[~df["only_for_claims"]]
    ranks = {
        "is_unusual": used["batch"] != find_usual_batch(used),
        "has_no_numbers": ~used["usable"],
    }
    ranked = (
        used.assign(**ranks).sort_values([*ranks, "batch"], kind="stable").drop(columns=[*ranks])
    )
    return order_by_catalog(
        ranked.drop_duplicates(["workload", "scenario", "framework", "strategy"])
    )


def find_usual_batch(df: pd.DataFrame) -> int:
    """Return the batch with the most rows, the smallest among equals; 0 without rows."""
    return int(df["batch"].mode().min()) if len(df) else 0


def order_by_catalog(df: pd.DataFrame) -> pd.DataFrame:
    """Sort the rows; `framework` (its proper name) and `strategy` become categories in the
    catalog's order.

    Only categories that occur are there.
    """
    order: dict[str, None] = {}  # as an ordered set
    for scenario in df["scenario"].unique():
        order |= dict.fromkeys(list_strategies(scenario))
    order |= dict.fromkeys(sorted(set(df["strategy"]) - set(order)))
    frameworks = pd.Categorical(df["framework"].astype(str).replace(NAMES), [*NAMES.values()])
    strategies = pd.Categorical(df["strategy"].astype(str), [*order])
    categorized = df.assign(
        framework=frameworks.remove_unused_categories(),
        strategy=strategies.remove_unused_categories(),
    )
    return categorized.sort_values(["workload", "scenario", "framework", "strategy", "batch"])


def describe_batches(df: pd.DataFrame) -> str:
    """Return a sentence that says at which batch these rows were measured."""
    usual = find_usual_batch(df)
    others = [f"{row.strategy} at {row.batch}" for row in iterate_rows(df[df["batch"] != usual])]
    exceptions = f" ({shorten_list(sorted(others))})" if others else ""
    return f"Batch {usual}{exceptions}, size {df['size'].iloc[0]}."


def iterate_rows(df: pd.DataFrame) -> Iterator[Any]:
    """Yield the rows as named tuples."""
    return iter(df.itertuples())


def format_times(value: float) -> str:
    """Return a ratio as `1.25x`."""
    return f"{value:.2f}x" if value < 10 else f"{value:,.0f}x"


def join_words(parts: Iterable[str]) -> str:
    """Return `a`, `a and b`, or `a, b and c`."""
    *others, last = [*parts] or [""]
    return f"{', '.join(others)} and {last}" if others else last


def format_range(values: Iterable[Any], form: str = "{:.2f}x") -> str:
    """Return the range of some numbers, a single one if both ends are printed alike."""
    every = list(values)
    low, high = form.format(min(every)), form.format(max(every))
    return low if low == high else f"{low} to {high}"


def format_size_suffix(size: str) -> str:
    """Return what a figure's name says of its size: nothing of the usual one."""
    return "" if size == DEFAULT_SIZE else f"-{size}"


def make_panel_title(framework: str, df: pd.DataFrame) -> str:
    """Return the framework and its version."""
    versions = df[df["framework"] == framework]["framework_version"].dropna().unique()
    return " ".join([framework, *sorted(versions)])


def list_shared_instruments(df: pd.DataFrame) -> list[str]:
    """Return the instruments by which frameworks are compared."""
    return sorted(df["shared_instrument"].dropna().unique())


def make_peak_label(df: pd.DataFrame) -> str:
    """Return the label of the axis of peaks, which on a GPU are those of the whole process."""
    what = "memory of the process on the card" if is_on_gpu(df) else "peak memory of a step"
    return f"{what}, MiB ({', '.join(list_shared_instruments(df))})"


def make_footer(df: pd.DataFrame, *more: str) -> list[str]:
    """Return where the numbers come from, what is missing and why, and cautions."""
    usable = df[df["usable"]]
    instruments = f"{describe_instruments(usable)} " if list_shared_instruments(usable) else ""
    origin = instruments + describe_conditions(usable if len(usable) else df)
    return [*more, describe_missing(df), *list_cautions(usable), origin]


def describe_missing(df: pd.DataFrame) -> str:
    """Return a sentence with the rows that have no numbers by outcome, or nothing."""
    without = df[~df["usable"]]
    if without.empty:
        return ""
    cases = without["framework"].astype(str) + " " + without["strategy"].astype(str)
    by_outcome = cases.groupby(find_outcomes(without)).agg(shorten_list)
    return (
        "Without numbers: "
        f"{'; '.join(f'{why}: {case_names}' for why, case_names in by_outcome.items())}."
    )


def shorten_list(case_names: Iterable[str]) -> str:
    """Return the names, each once; of many the first ones and how many more there are."""
    different = list(dict.fromkeys(case_names))
    more = f" and {len(different) - NAMED} more" if len(different) > NAMED else ""
    return ", ".join(different[:NAMED]) + more


def list_cautions(df: pd.DataFrame) -> list[str]:
    """Return a sentence for records of an older protocol, and one for records of code that was not
    committed.
    """
    faults = {
        f"measured under an older protocol than {VERSION}": df["protocol"] != VERSION,
        "measured with uncommitted changes": df["dirty"].fillna(False).astype(bool),
    }
    cautions = []
    for what, concerned in faults.items():
        if concerned.all() and len(df) > 1:
            cautions.append(f"All records {what}.")
        elif concerned.any():
            cautions.append(f"{what.capitalize()}: {shorten_list(df['case'][concerned])}.")
    return cautions
