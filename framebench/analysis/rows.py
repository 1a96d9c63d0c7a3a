"""Which rows a figure shows, which it leaves out, and the words for both. Tables in, tables and sentences out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from framebench.analysis.tables import conditions, of_card, read_by
from framebench.suite.case import DEFAULT_SIZE
from framebench.suite.protocol import VERSION
from framebench.suite.registry import names

NAMES = {"torch": "PyTorch", "jax": "JAX", "jittor": "Jittor"}
NAMED = 12  # so many cases are named in a footer, the others are counted


def outcome(df: pd.DataFrame) -> pd.Series:
    """Why rows have no numbers here."""
    return df["status"].where(df["status"] != "ok", "not proven")


def shown(df: pd.DataFrame) -> pd.DataFrame:
    """The strategies that people use, each once: at the batch that most rows have, or at the smallest one with numbers.
    Frameworks by their proper names; both in the catalog's order."""
    used = df[~df["only_for_claims"]]
    usual = usual_batch(used)
    first = {"unusual": used["batch"] != usual, "without": ~used["usable"]}
    ranked = used.assign(**first).sort_values([*first, "batch"], kind="stable").drop(columns=[*first])
    return in_order(ranked.drop_duplicates(["workload", "scenario", "framework", "strategy"]))


def usual_batch(df: pd.DataFrame) -> int:
    """The batch with the most rows, the smallest among equals; 0 without rows."""
    return int(df["batch"].mode().min()) if len(df) else 0


def in_order(df: pd.DataFrame) -> pd.DataFrame:
    """Sorted; `framework` (its proper name) and `strategy` as categories in the catalog's order, those that occur."""
    catalog_strategies = [name for scenario in df["scenario"].unique() for name in names(scenario)]
    order = dict.fromkeys([*catalog_strategies, *sorted(set(df["strategy"]) - set(catalog_strategies))])
    made = df.assign(
        framework=pd.Categorical(df["framework"].astype(str).replace(NAMES), [*NAMES.values()]).remove_unused_categories(),
        strategy=pd.Categorical(df["strategy"].astype(str), [*order]).remove_unused_categories(),
    )
    return made.sort_values(["workload", "scenario", "framework", "strategy", "batch"])


def batches(df: pd.DataFrame) -> str:
    """At which batch these rows were measured."""
    usual = usual_batch(df)
    others = [f"{r.strategy} at {r.batch}" for r in df[df["batch"] != usual].itertuples()]
    return f"Batch {usual}{f' ({shortened(sorted(others))})' if others else ''}, size {df['size'].iloc[0]}."


def each(df: pd.DataFrame) -> Iterator[Any]:
    """Its rows as named tuples."""
    return iter(df.itertuples())


def times(value: float) -> str:
    """A ratio."""
    return f"{value:.2f}x" if value < 10 else f"{value:,.0f}x"


def listed(parts: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    texts = [*parts]
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def between(values: Iterable[Any], form: str = "{:.2f}x") -> str:
    """The range of some numbers, a single one if they agree in what is printed."""
    return " to ".join(dict.fromkeys(form.format(end(values)) for end in (min, max)))


def suffix(size: str) -> str:
    """A figure's name says its size unless it is the usual one."""
    return "" if size == DEFAULT_SIZE else f"-{size}"


def heading(framework: str, df: pd.DataFrame) -> str:
    """A panel's title: framework and version."""
    return " ".join([framework, *sorted(df[df["framework"] == framework]["framework_version"].dropna().unique())])


def instruments(df: pd.DataFrame) -> list[str]:
    """Those by which frameworks are compared."""
    return sorted(df["shared_instrument"].dropna().unique())


def peak_label(df: pd.DataFrame) -> str:
    """What the axis of peaks counts: on a card the whole process."""
    what = "memory of the process on the card" if of_card(df) else "peak memory of a step"
    return f"{what}, MiB ({', '.join(instruments(df))})"


def footer(df: pd.DataFrame, *more: str) -> list[str]:
    """Where the numbers come from, what is missing and why, and cautions."""
    rows = df[df["usable"]]
    read = f"{read_by(rows)} " if instruments(rows) else ""
    return [*more, _left_out(df), *_cautions(rows), read + conditions(rows if len(rows) else df)]


def _left_out(df: pd.DataFrame) -> str:
    """By outcome, the rows that have no numbers."""
    without = df[~df["usable"]]
    cases = without["framework"].astype(str) + " " + without["strategy"].astype(str)
    by = cases.groupby(outcome(without)).agg(lambda case_names: shortened(list(case_names)))
    return f"Without numbers: {'; '.join(f'{why}: {case_names}' for why, case_names in by.items())}." if len(by) else ""


def shortened(case_names: Iterable[str]) -> str:
    different = list(dict.fromkeys(case_names))
    more = f" and {len(different) - NAMED} more" if len(different) > NAMED else ""
    return ", ".join(different[:NAMED]) + more


def _cautions(df: pd.DataFrame) -> list[str]:
    """Records of an older protocol, and of code that was not committed."""
    which = {
        f"measured under an older protocol than {VERSION}": df["protocol"] != VERSION,
        "measured with uncommitted changes": df["dirty"].fillna(False).astype(bool),
    }
    return [
        f"All records {what}." if mask.all() and len(df) > 1 else f"{what.capitalize()}: {shortened(df['case'][mask])}."
        for what, mask in which.items()
        if mask.any()
    ]
