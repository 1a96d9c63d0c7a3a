"""What does each strategy do to peak and step time, in each framework?

And which strategies exist?
"""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from framebench.analysis import rows
from framebench.analysis.figures import page
from framebench.analysis.frames import find_decided
from framebench.analysis.tables import describe_timing, shorten_time_ratios
from framebench.strategies.registry import SCENARIOS, find_strategy, list_used
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case

ROW_IN = 0.17  # height of a strategy's row in inches
WORTH = 0.05  # a change that a title counts
RANGE = math.log2(3)  # where the colours end: a third, and three times
HEAT = (
    "Ratios to the baseline of the same framework and batch: compare down a column, not across. "
    "Blue: less, orange: more. "
    "Italic: other mathematics."
)
CHANGE = LinearSegmentedColormap.from_list(
    "change", ["#01487a", "#0173b2", "#f7f7f7", "#de8f05", "#8a5700"]
)
QUANTITIES = {"relative_peak": "peak memory / baseline's", "time_ratio": "step time / baseline's"}


@page.apply_style
def draw_heat_map(df: pd.DataFrame) -> Figure | None:
    """Draw strategies down and frameworks across, once for peaks and once for times.

    `df` has the rows of one workload and scenario. Returns None without strategies that have
    numbers; a strategy that no framework has numbers for is named in the footer alone.
    """
    group = rows.select_shown(df)
    with_numbers = group["strategy"][group["usable"]]
    measured = group[group["strategy"].isin(with_numbers)]
    if measured[measured["usable"]]["baseline"].all():
        return None
    measured = rows.order_by_catalog(measured)
    strategies = measured["strategy"].cat.categories
    figure, panels = plt.subplots(1, 2, figsize=(8.6, 0.8 + ROW_IN * len(strategies)), sharey=True)
    for axes, (column, title) in zip(panels, QUANTITIES.items()):
        draw_heat_panel(axes, measured, column)
        axes.set_title(title)
    is_same = measured.groupby("strategy", observed=True)["same_mathematics"].all()
    for label, strategy in zip(panels[0].get_yticklabels(), strategies):
        label.set_style("normal" if is_same[strategy] else "italic")
    figure.tight_layout()
    note = f"{HEAT} {describe_timing(group)} {rows.describe_batches(measured)}"
    return page.explain_figure(figure, make_heat_title(group), rows.make_footer(group, note))


def draw_heat_panel(axes: Axes, measured: pd.DataFrame, column: str) -> None:
    """Draw colours on a logarithmic scale around 1; a cell without a number, or with an undecided
    ratio, says so.
    """
    is_shown = measured["usable"]
    is_unclear = is_shown & False
    if column == "time_ratio":
        is_unclear = is_shown & measured[column].notna() & ~find_decided(measured)
    outcomes = (
        rows.find_outcomes(measured)
        .where(~is_shown, "-")
        .mask(is_unclear, shorten_time_ratios(measured))
    )
    rated = measured.assign(value=measured[column].where(is_shown & ~is_unclear), why=outcomes)
    values = rated.pivot(index="strategy", columns="framework", values="value")
    reasons = rated.pivot(index="strategy", columns="framework", values="why")
    filled = {name: reasons[name].fillna(look_up_support(measured, str(name))) for name in reasons}
    sns.heatmap(
        np.log2(values),
        annot=values,
        fmt=".2f",
        cmap=CHANGE,
        vmin=-RANGE,
        vmax=RANGE,
        annot_kws={"size": 6.5},
        ax=axes,
        cbar=False,
        linewidths=1.2,
    )
    if values.isna().any(axis=None):
        sns.heatmap(
            values.isna(),
            mask=values.notna(),
            annot=pd.DataFrame(filled),
            fmt="",
            cmap=["white"],
            annot_kws={"size": 6.5, "color": "0.55"},
            ax=axes,
            cbar=False,
            linewidths=1.2,
        )
    remove_frame(axes)


def look_up_support(measured: pd.DataFrame, framework: str) -> pd.Series:
    """Return for each strategy `unsupported` if the catalog says so of this framework, or else `-`:
    it was not measured.
    """
    first = measured.iloc[0]
    (name,) = [name for name, proper in rows.NAMES.items() if proper == framework]
    answers = {}
    for strategy in map(str, measured["strategy"].drop_duplicates()):
        case = Case(
            first["workload"], name, first["scenario"], strategy, first["batch"], first["size"]
        )
        answers[strategy] = "-" if case.support.supported else "unsupported"
    return pd.Series(answers)


def remove_frame(axes: Axes) -> None:
    """Write the frameworks above, in their colours."""
    axes.set(xlabel="", ylabel="")
    axes.grid(False)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.tick_params(axis="y", rotation=0)
    for label in axes.get_xticklabels():
        label.set(color=page.COLOURS[label.get_text()], weight="bold")


def make_heat_title(group: pd.DataFrame) -> str:
    """Return how many strategies save memory, and how many of them are known to cost hardly any
    time.
    """
    is_comparable = group["usable"] & ~group["baseline"] & group["same_mathematics"]
    comparable = group[is_comparable]
    saving = comparable["relative_peak"] < 1 - WORTH
    counted = comparable.assign(
        saving=saving, free=saving & (comparable["time_ratio_high"] < 1 + WORTH)
    )
    counts = counted.groupby("framework", observed=True).agg(
        all=("case", "size"),
        saving=("saving", "sum"),
        free=("free", "sum"),
    )
    head = f"{group['workload'].iloc[0]} {group['scenario'].iloc[0]}"
    if counts.empty:
        return f"{head}: no strategy was measured beside the baseline"
    saves = rows.join_words(
        f"{row.saving} of {row.all} in {row.Index}" for row in rows.iterate_rows(counts)
    )
    title = f"{head}, strategies that save more than {WORTH * 100:.0f} % of the peak: {saves}"
    if comparable["time_ratio"].isna().all():
        return title
    free = rows.join_words(map(str, counts["free"]))
    return f"{title}; with steps certainly less than {WORTH * 100:.0f} % longer: {free}"


KINDS = {
    "native": ("#0173b2", "the framework has it"),
    "emulated": ("#56b4e9", "written by us"),
    "always on": ("#949494", "always so"),
    "unsupported": ("#f0f0f0", "cannot be done"),
}
SEEN, FAIL = "\u25cf", "\u2717"
FAILED = ("not proven", "wrong", "oom", "crashed", "timeout")


@page.apply_style
def draw_support(df: pd.DataFrame) -> Figure:
    """Draw every strategy of every scenario in every framework, and which of them this machine has
    measured.
    """
    matrix = list_catalog().merge(
        summarize_outcomes(df), how="left", on=["scenario", "strategy", "framework"]
    )
    sign = matrix["outcome"].fillna(matrix["gpu"].map({True: "GPU", False: ""}))
    places = matrix.assign(sign=sign, kind=matrix["kind"].map([*KINDS].index))
    order = sorted(places["strategy"].unique(), key=lambda name: "+" in name)  # combinations last
    places["strategy"] = pd.Categorical(places["strategy"], order)
    columns = ["scenario", "framework"]
    kinds = places.pivot(index="strategy", columns=columns, values="kind")[[*SCENARIOS]]
    signs = places.pivot(index="strategy", columns=columns, values="sign")[[*SCENARIOS]]
    figure, axes = plt.subplots(figsize=(8.6, 0.8 + ROW_IN * len(kinds)))
    sns.heatmap(
        kinds.astype(float),
        annot=signs.fillna(""),
        fmt="",
        cmap=ListedColormap([colour for colour, _ in KINDS.values()]),
        vmin=-0.5,
        vmax=len(KINDS) - 0.5,
        cbar=False,
        annot_kws={"size": 5.5},
        linewidths=1.2,
        ax=axes,
        xticklabels=[rows.NAMES[name] for name in kinds.columns.get_level_values(1)],
    )
    remove_frame(axes)
    axes.tick_params(axis="x", rotation=90)
    for i, scenario in enumerate(SCENARIOS):
        axes.text(len(FRAMEWORKS) * (i + 0.5), -3.2, scenario, ha="center")
    figure.tight_layout()
    entries = [Patch(color=colour, label=text) for colour, text in KINDS.values()]
    figure.legend(
        handles=entries, loc="upper center", bbox_to_anchor=(0.5, 0.01), ncols=4, frameon=False
    )
    return page.explain_figure(figure, make_support_title(matrix), make_support_notes(df))


def list_catalog() -> pd.DataFrame:
    """Return a row for each scenario, strategy that people use, and framework: how it is done, and
    whether on a GPU alone.
    """
    cells = []
    for scenario in SCENARIOS:
        for strategy in list_used(scenario):
            for framework, cell in find_strategy(scenario, strategy).cells.items():
                cells.append(
                    (scenario, strategy, framework, cell.kind.removesuffix(" (GPU)"), cell.gpu)
                )
    return pd.DataFrame(cells, columns=["scenario", "strategy", "framework", "kind", "gpu"])


def summarize_outcomes(df: pd.DataFrame) -> pd.DataFrame:
    """Return the sign of each scenario, strategy and framework: proven if any of its cases has
    numbers, or else failed.
    """
    signs = rows.find_outcomes(df).map(dict.fromkeys(FAILED, FAIL)).mask(df["usable"], SEEN)
    by_place = df.assign(outcome=signs).groupby(["scenario", "strategy", "framework"])
    return by_place["outcome"].max().reset_index()


def make_support_title(matrix: pd.DataFrame) -> str:
    """Return how many strategies each framework can do, those that it always does among them."""
    with_answer = matrix.assign(can=matrix["kind"] != "unsupported")
    can = with_answer.pivot(index=["scenario", "strategy"], columns="framework", values="can")
    counts = rows.join_words(f"{rows.NAMES[name]} can do {can[name].sum()}" for name in FRAMEWORKS)
    in_all = can.all(axis=1).sum()
    return (
        f"Of {len(can)} strategies in {can.index.unique(0).size} scenarios {counts}; {in_all} "
        "exist in all"
    )


def make_support_notes(df: pd.DataFrame) -> list[str]:
    """Return how to read the figure, and where its records come from."""
    note = (
        f"{SEEN} measured on this machine, in any workload, and its effect was seen; {FAIL} "
        "measured, and failed; GPU: needs "
        "one. From framebench/strategies; docs/strategies.md has the reasons. A strategy of two "
        "scenarios counts twice."
    )
    usable = df[df["usable"]]
    if usable.empty:
        return [f"{note} Nothing was measured."]
    return [note, *rows.make_footer(usable)]
