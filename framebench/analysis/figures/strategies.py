"""What does each strategy do to peak and step time, in each framework?

And which strategies exist?
"""

from __future__ import annotations

import math
from dataclasses import replace

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
    """Draw colours on a logarithmic scale around 1, and a text where there is no number.

    A text is what became of a case, `-` for what was not measured, or `undecided`.
    """
    is_shown = measured["usable"]
    texts = rows.find_outcomes(measured).where(~is_shown, "-")
    if column == "time_ratio":
        is_unclear = is_shown & measured[column].notna() & ~find_decided(measured)
        texts = texts.mask(is_unclear, shorten_time_ratios(measured))
        is_shown = is_shown & ~is_unclear
    rated = measured.assign(value=measured[column].where(is_shown), text=texts)
    values = rated.pivot(index="strategy", columns="framework", values="value")
    filled = rated.pivot(index="strategy", columns="framework", values="text")
    for framework in filled:
        filled[framework] = filled[framework].fillna(look_up_support(measured, str(framework)))
    # half and double are equally far from 1
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
    # a second, white map writes the texts where the first has no number
    if values.isna().any(axis=None):
        sns.heatmap(
            values.isna(),
            mask=values.notna(),
            annot=filled,
            fmt="",
            cmap=["white"],
            annot_kws={"size": 6.5, "color": "0.55"},
            ax=axes,
            cbar=False,
            linewidths=1.2,
        )
    remove_frame(axes)


def look_up_support(measured: pd.DataFrame, framework: str) -> pd.Series:
    """Return for each strategy `unsupported` if a framework has it not, or else `-`.

    `framework` is a proper name.
    """
    first = measured.iloc[0]
    names = {proper: name for name, proper in rows.NAMES.items()}
    base = Case.from_id(first["case"])
    texts = {}
    for strategy in measured["strategy"].unique():
        case = replace(base, framework=names[framework], strategy=str(strategy))
        texts[strategy] = "-" if case.support.supported else "unsupported"
    return pd.Series(texts)


def remove_frame(axes: Axes) -> None:
    """Remove ticks and grid, and write the frameworks above, in their colours."""
    axes.set(xlabel="", ylabel="")
    axes.grid(False)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.tick_params(axis="y", rotation=0)
    for label in axes.get_xticklabels():
        label.set(color=page.COLOURS[label.get_text()], weight="bold")


def make_heat_title(group: pd.DataFrame) -> str:
    """Return how many strategies save memory, and how many of these certainly cost no time."""
    head = rows.name_scenario(group)
    is_comparable = group["usable"] & ~group["baseline"] & group["same_mathematics"]
    comparable = group[is_comparable]
    if comparable.empty:
        return f"{head}: no strategy was measured beside the baseline"
    savings = []
    free_savings = []
    for framework, of_framework in comparable.groupby("framework", observed=True):
        is_saving = of_framework["relative_peak"] < 1 - WORTH
        is_free = is_saving & (of_framework["time_ratio_high"] < 1 + WORTH)
        savings.append(f"{is_saving.sum()} of {len(of_framework)} in {framework}")
        free_savings.append(str(is_free.sum()))
    title = (
        f"{head}, strategies that save more than {WORTH * 100:.0f} % of the peak: "
        f"{rows.join_words(savings)}"
    )
    if comparable["time_ratio"].notna().any():
        free = rows.join_words(free_savings)
        title += f"; with steps certainly less than {WORTH * 100:.0f} % longer: {free}"
    return title


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
    """Draw every strategy of every scenario and framework, and which of them were measured here."""
    place = ["scenario", "strategy", "framework"]
    matrix = list_catalog().merge(summarize_outcomes(df), how="left", on=place)
    gpu = matrix["gpu"].map({True: "GPU", False: ""})
    kind = matrix["kind"].map(list(KINDS).index)
    cells = matrix.assign(sign=matrix["outcome"].fillna(gpu), kind=kind)
    order = sorted(cells["strategy"].unique(), key=lambda name: "+" in name)  # combinations last
    cells["strategy"] = pd.Categorical(cells["strategy"], order)
    wide = cells.pivot(index="strategy", columns=["scenario", "framework"], values=["kind", "sign"])
    kinds = wide["kind"][list(SCENARIOS)]
    signs = wide["sign"][list(SCENARIOS)]
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
    # a scenario stands above the middle of its frameworks
    for i, scenario in enumerate(SCENARIOS):
        axes.text(len(FRAMEWORKS) * (i + 0.5), -3.2, scenario, ha="center")
    figure.tight_layout()
    # below the map, since it is as wide as the page
    entries = [Patch(color=colour, label=text) for colour, text in KINDS.values()]
    figure.legend(
        handles=entries, loc="upper center", bbox_to_anchor=(0.5, 0.01), ncols=4, frameon=False
    )
    return page.explain_figure(figure, make_support_title(matrix), make_support_notes(df))


def list_catalog() -> pd.DataFrame:
    """Return how each framework has each strategy that people use, and whether on a GPU alone."""
    cells = []
    for scenario in SCENARIOS:
        for strategy in list_used(scenario):
            for framework, support in find_strategy(scenario, strategy).support.items():
                kind = support.kind.removesuffix(" (GPU)")
                cells.append((scenario, strategy, framework, kind, support.gpu))
    return pd.DataFrame(cells, columns=["scenario", "strategy", "framework", "kind", "gpu"])


def summarize_outcomes(df: pd.DataFrame) -> pd.DataFrame:
    """Return a sign for each scenario, strategy and framework: whether any case has numbers."""
    signs = rows.find_outcomes(df).map(dict.fromkeys(FAILED, FAIL)).mask(df["usable"], SEEN)
    by_place = df.assign(outcome=signs).groupby(["scenario", "strategy", "framework"])
    return by_place["outcome"].max().reset_index()


def make_support_title(matrix: pd.DataFrame) -> str:
    """Return how many strategies each framework can do, those that it always does among them."""
    supported = matrix.assign(can=matrix["kind"] != "unsupported")
    can = supported.pivot(index=["scenario", "strategy"], columns="framework", values="can")
    counts = [f"{rows.NAMES[name]} can do {can[name].sum()}" for name in FRAMEWORKS]
    scenarios = matrix["scenario"].nunique()
    return (
        f"Of {len(can)} strategies in {scenarios} scenarios {rows.join_words(counts)}; "
        f"{can.all(axis=1).sum()} exist in all"
    )


def make_support_notes(df: pd.DataFrame) -> list[str]:
    """Return how to read the figure, and where its records come from."""
    note = (
        f"{SEEN} measured on this machine, in any workload, and its effect was seen; "
        f"{FAIL} measured, and failed; GPU: needs one. From framebench/strategies; "
        "docs/strategies.md has the reasons. A strategy of two scenarios counts twice."
    )
    usable = df[df["usable"]]
    if usable.empty:
        return [f"{note} Nothing was measured."]
    return [note, *rows.make_footer(usable)]
