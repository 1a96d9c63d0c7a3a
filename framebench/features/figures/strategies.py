"""What does each strategy do to peak and step time, in each framework? And which strategies exist?"""

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
from framebench.analysis.frames import decided
from framebench.analysis.tables import in_short, timing
from framebench.suite.case import Case
from framebench.suite.registry import SCENARIOS, find, in_use
from framebench.suite.strategy import FRAMEWORKS

ROW_IN = 0.17  # height of a strategy's row in inches
WORTH = 0.05  # a change that a title counts
RANGE = math.log2(3)  # where the colours end: a third, and three times
HEAT = (
    "Ratios to the baseline of the same framework and batch: compare down a column, not across. Blue: less, orange: more. "
    "Italic: other mathematics."
)
CHANGE = LinearSegmentedColormap.from_list("change", ["#01487a", "#0173b2", "#f7f7f7", "#de8f05", "#8a5700"])
QUANTITIES = {"step_ratio": "peak memory / baseline's", "time_ratio": "step time / baseline's"}


@page.styled
def heat(df: pd.DataFrame) -> Figure | None:
    """`df`: one workload and scenario. Strategies down, frameworks across, once for peaks and once for times; None without
    strategies that have numbers. What no framework has numbers for is named in the footer alone."""
    group = rows.shown(df)
    measured = group[group["strategy"].isin(group["strategy"][group["usable"]])]
    if measured[measured["usable"]]["baseline"].all():
        return None
    measured = rows.in_order(measured)
    strategies = measured["strategy"].cat.categories
    figure, panels = plt.subplots(1, 2, figsize=(8.6, 0.8 + ROW_IN * len(strategies)), sharey=True)
    for axes, (column, text) in zip(panels, QUANTITIES.items()):
        _heat_panel(axes, measured, column)
        axes.set_title(text)
    same = measured.groupby("strategy", observed=True)["same_mathematics"].all()
    for label, strategy in zip(panels[0].get_yticklabels(), strategies):
        label.set_style("normal" if same[strategy] else "italic")
    figure.tight_layout()
    return page.explained(figure, _heat_title(group), rows.footer(group, f"{HEAT} {timing(group)} {rows.batches(measured)}"))


def _heat_panel(axes: Axes, measured: pd.DataFrame, column: str) -> None:
    """Colours on a logarithmic scale around 1; what has no number, or a ratio that is not decided, says so."""
    shown = measured["usable"]
    unclear = shown & measured[column].notna() & ~decided(measured) if column == "time_ratio" else shown & False
    outcome = rows.outcome(measured).where(~shown, "-").mask(unclear, in_short(measured))
    rated = measured.assign(value=measured[column].where(shown & ~unclear), why=outcome)
    values = rated.pivot(index="strategy", columns="framework", values="value")
    why = rated.pivot(index="strategy", columns="framework", values="why")
    why = pd.DataFrame({name: why[name].fillna(_without_record(measured, str(name))) for name in why})
    drawn = {"ax": axes, "cbar": False, "linewidths": 1.2}
    sns.heatmap(
        np.log2(values), annot=values, fmt=".2f", cmap=CHANGE, vmin=-RANGE, vmax=RANGE, annot_kws={"size": 6.5}, **drawn
    )
    grey = {"size": 6.5, "color": "0.55"}
    if values.isna().any(axis=None):
        sns.heatmap(values.isna(), mask=values.notna(), annot=why, fmt="", cmap=["white"], annot_kws=grey, **drawn)
    _unframed(axes)


def _without_record(measured: pd.DataFrame, framework: str) -> pd.Series:
    """What the catalog says of each strategy in a framework: `unsupported`, or else `-`, as it was not measured."""
    one, names = measured.iloc[0], {proper: name for name, proper in rows.NAMES.items()}
    strategies = measured["strategy"].drop_duplicates()
    cases = [Case(one["workload"], names[framework], one["scenario"], str(s), one["batch"], one["size"]) for s in strategies]
    return pd.Series(["-" if case.support.supported else "unsupported" for case in cases], index=[*map(str, strategies)])


def _unframed(axes: Axes) -> None:
    """Frameworks above, in their colours."""
    axes.set(xlabel="", ylabel="")
    axes.grid(False)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.tick_params(axis="y", rotation=0)
    for label in axes.get_xticklabels():
        label.set(color=page.COLOURS[label.get_text()], weight="bold")


def _heat_title(group: pd.DataFrame) -> str:
    """How many strategies save memory, and how many of them are known to cost hardly any time."""
    comparable_rows = group[group["usable"] & ~group["baseline"] & group["same_mathematics"]]
    saving = comparable_rows["step_ratio"] < 1 - WORTH
    counts = comparable_rows.assign(saving=saving, free=saving & (comparable_rows["time_ratio_high"] < 1 + WORTH))
    by = counts.groupby("framework", observed=True).agg(all=("case", "size"), saving=("saving", "sum"), free=("free", "sum"))
    head = f"{group['workload'].iloc[0]} {group['scenario'].iloc[0]}"
    if by.empty:
        return f"{head}: no strategy was measured beside the baseline"
    saves = rows.listed(f"{r.saving} of {r.all} in {r.Index}" for r in rows.each(by))
    sentence = f"{head}, strategies that save more than {WORTH * 100:.0f} % of the peak: {saves}"
    if comparable_rows["time_ratio"].isna().all():
        return sentence
    free = rows.listed(f"{count}" for count in by["free"])
    return f"{sentence}; with steps certainly less than {WORTH * 100:.0f} % longer: {free}"


KINDS = {
    "native": ("#0173b2", "the framework has it"),
    "emulated": ("#56b4e9", "written by us"),
    "always on": ("#949494", "always so"),
    "unsupported": ("#f0f0f0", "cannot be done"),
}
SEEN, FAIL = "\u25cf", "\u2717"
FAILED = ("not proven", "wrong", "oom", "crashed", "timeout")


@page.styled
def support(df: pd.DataFrame) -> Figure:
    """Every strategy of every scenario in every framework, and which of them this machine has measured, of any workload."""
    matrix = _catalog().merge(_outcomes(df), how="left", on=["scenario", "strategy", "framework"])
    sign = matrix["outcome"].fillna(matrix["gpu"].map({True: "GPU", False: ""}))
    places = matrix.assign(sign=sign, kind=matrix["kind"].map([*KINDS].index))
    places["strategy"] = pd.Categorical(places["strategy"], sorted(places["strategy"].unique(), key=lambda name: "+" in name))
    kinds, signs = (
        places.pivot(index="strategy", columns=["scenario", "framework"], values=value)[[*SCENARIOS]]
        for value in ("kind", "sign")
    )
    figure, axes = plt.subplots(figsize=(8.6, 0.8 + ROW_IN * len(kinds)))
    colours = ListedColormap([colour for colour, _ in KINDS.values()])
    sns.heatmap(
        kinds.astype(float), annot=signs.fillna(""), fmt="", cmap=colours, vmin=-0.5, vmax=len(KINDS) - 0.5, cbar=False,
        annot_kws={"size": 5.5}, linewidths=1.2, ax=axes,
        xticklabels=[rows.NAMES[name] for name in kinds.columns.get_level_values(1)],
    )  # fmt: skip
    _unframed(axes)
    axes.tick_params(axis="x", rotation=90)
    for i, scenario in enumerate(SCENARIOS):
        axes.text(len(FRAMEWORKS) * (i + 0.5), -3.2, scenario, ha="center")
    figure.tight_layout()
    entries = [Patch(color=colour, label=text) for colour, text in KINDS.values()]
    figure.legend(handles=entries, loc="upper center", bbox_to_anchor=(0.5, 0.01), ncols=4, frameon=False)
    return page.explained(figure, _support_title(matrix), _support_notes(df))


def _catalog() -> pd.DataFrame:
    """A row for each scenario, strategy that people use, and framework: how it is done, and whether on a GPU alone."""
    cells = [
        (scenario, strategy, framework, cell.kind.removesuffix(" (GPU)"), cell.gpu)
        for scenario in SCENARIOS
        for strategy in in_use(scenario)
        for framework, cell in find(scenario, strategy).cells.items()
    ]
    return pd.DataFrame(cells, columns=["scenario", "strategy", "framework", "kind", "gpu"])


def _outcomes(df: pd.DataFrame) -> pd.DataFrame:
    """The outcome of each scenario, strategy and framework: proven if any of its cases has numbers, or else failed."""
    seen = df.assign(outcome=rows.outcome(df).map(dict.fromkeys(FAILED, FAIL)).mask(df["usable"], SEEN))
    return seen.groupby(["scenario", "strategy", "framework"])["outcome"].max().reset_index()


def _support_title(matrix: pd.DataFrame) -> str:
    """How many strategies each framework can do, those that it always does among them."""
    can = matrix.assign(can=matrix["kind"] != "unsupported").pivot(
        index=["scenario", "strategy"], columns="framework", values="can"
    )
    by = rows.listed(f"{rows.NAMES[f]} can do {can[f].sum()}" for f in FRAMEWORKS)
    return f"Of {len(can)} strategies in {can.index.unique(0).size} scenarios {by}; {can.all(axis=1).sum()} exist in all"


def _support_notes(df: pd.DataFrame) -> list[str]:
    note = (
        f"{SEEN} measured on this machine, in any workload, and its effect was seen; {FAIL} measured, and failed; GPU: needs "
        "one. From framebench/suite/registry.py; docs/strategies.md has the reasons. A strategy of two scenarios counts twice."
    )
    seen = df[df["usable"]]
    return [note, *rows.footer(seen)] if len(seen) else [f"{note} Nothing was measured."]
