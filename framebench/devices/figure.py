"""Draw what strategies are predicted to need, a panel for each device, and JAX's releases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from framebench.analysis.figures import FigureRequest, page
from framebench.analysis.needs import are_equal_amounts
from framebench.analysis.rendering import MIB
from framebench.analysis.results import Results
from framebench.analysis.rows import join_words
from framebench.devices.catalog import find
from framebench.devices.plans.planned import describe_code
from framebench.devices.tables import frame
from framebench.models.spec import load_workload
from framebench.strategies.strategy import TITLES
from framebench.suite.case import Case

ROW_IN = 0.26  # height of a strategy's two bars in inches
LEAST_CHANGE = 0.05  # that is drawn
SHOWN = ("h100-80gb", "a100-40gb")
FEWEST_STRATEGIES = 3
FEWEST_RELEASES = 3
BAR_LABELS = {"torch": "PyTorch: most in use", "jax": "JAX: XLA's plan"}
NOTE = (
    "Predicted, not measured: a simulated step of PyTorch, and XLA's plan of JAX's. They count "
    "different things: compare bars of one colour. Without a bar there is no prediction. Left out: "
    "combinations, other mathematics, and strategies within 5 % of the baseline in both frameworks."
)
RELEASES_NOTE = (
    "Planned by each release's own compiler, not measured. 0 %: the oldest release drawn that "
    "has a plan of the case."
)


@page.apply_style
def draw_savings(df: pd.DataFrame) -> Figure | None:
    """Draw what strategies need, or return None if there are too few of them.

    Args:
        df: One workload, scenario and size at one batch, as `framebench.planned()` has them.
    """
    drawn = select_strategies(df)
    order = drawn.groupby("strategy")["used_bytes"].min().sort_values(ascending=False).index
    if len(order) < FEWEST_STRATEGIES:
        return None
    drawn = drawn.assign(MiB=drawn["used_bytes"] / MIB, column=drawn["framework"].map(BAR_LABELS))
    devices = [name for name in SHOWN if name in set(drawn["device"])]
    size = (3.6 * len(devices) + 1.2, 1.0 + ROW_IN * len(order))
    figure, panels = plt.subplots(
        1, len(devices), figsize=size, sharey=True, sharex=True, squeeze=False
    )
    for axes, name in zip(panels[0], devices):
        bars = drawn[drawn["device"] == name]
        sns.barplot(
            bars,
            y="strategy",
            x="MiB",
            hue="column",
            order=list(order),
            hue_order=list(BAR_LABELS.values()),
            palette=[page.COLOURS[framework] for framework in BAR_LABELS],
            saturation=1,
            errorbar=None,
            ax=axes,
            legend=name == devices[-1],
        )
        target = find(name)
        memory = target.memory_bytes / MIB
        axes.set(title=f"{target.title}: {memory:,.0f} MiB", ylabel="", xlabel="MiB")
        axes.xaxis.set_major_formatter(page.PLAIN)
        if bars["MiB"].max() > memory:
            axes.axvline(memory, color="0.3", linewidth=0.9, linestyle="--")
    panels[0][-1].get_legend().set_title("")
    figure.tight_layout()
    versions = drawn.groupby("framework", sort=False)["framework_version"].first()
    releases = ", ".join(f"{name} {version}" for name, version in versions.items())
    footer = f"{releases}. {describe_code(drawn['commit'].dropna())}"
    title = write_title(drawn[drawn["device"] == devices[0]])
    return page.explain_figure(figure, title, [NOTE, footer])


def select_strategies(df: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the baseline, and of single strategies that change any peak.

    The strategies compute the baseline's mathematics. For a case that does not fit, `used_bytes` is
    what it would take.

    Args:
        df: As `framebench.planned()` has it. A row without a prediction has neither `used_bytes`
            nor `refused_bytes`.
    """
    predicted = df.copy()
    predicted["used_bytes"] = df["used_bytes"].fillna(df["refused_bytes"])
    predicted = predicted[predicted["used_bytes"].notna()]
    is_single = predicted["case"].map(is_single_strategy).astype(bool)
    predicted = predicted[is_single]
    has_changed = (predicted["ratio"] - 1).abs() > LEAST_CHANGE
    # a strategy is drawn on every device and in both frameworks if any of its bars has changed
    changing = set(predicted.loc[has_changed, "strategy"])
    return predicted[predicted["baseline"] | predicted["strategy"].isin(changing)]


def is_single_strategy(case_id: str) -> bool:
    """Return whether a case has one strategy, which computes what the baseline computes."""
    case = Case.from_id(case_id)
    return case.same_mathematics and "+" not in case.strategy


def write_title(drawn: pd.DataFrame) -> str:
    """Return a title that names the strategy with the least memory in each framework.

    Several are named if their peaks are equal.
    """
    predicted = drawn[drawn["ratio"].notna()].sort_values("ratio")
    findings = []
    for framework in BAR_LABELS:
        least_first = predicted[predicted["framework"] == framework]
        if not least_first.empty:
            findings.append(describe_least(least_first))
    row = drawn.iloc[0]
    where = f"{row['workload']} {row['scenario']}, batch {row['batch']}, size {row['size']}"
    return f"{where}: {', '.join(findings)}"


def describe_least(least_first: pd.DataFrame) -> str:
    """Return which strategies of a framework take least, and which share of the baseline's peak.

    Args:
        least_first: The rows of one framework, each with a ratio, the smallest ratio first.
    """
    first = least_first.iloc[0]
    names = []
    for name, ratio in zip(least_first["strategy"], least_first["ratio"]):
        if are_equal_amounts(ratio, first["ratio"]):
            names.append(name)
    verb = "takes" if len(names) == 1 else "take equally"
    where = TITLES[first["framework"]]
    return f"{join_words(names)} in {where} {verb} {first['ratio']:.0%} of the baseline's peak"


@page.apply_style
def draw_plans(df: pd.DataFrame) -> Figure | None:
    """Draw a line for each case over releases of JAX, or return None if there are too few of them.

    Args:
        df: JAX's rows of one device, as `framebench.planned()` has them.
    """
    predicted = df[df["used_bytes"].notna()]
    counts = predicted.groupby("case")["used_bytes"].transform("size")  # a release has a case once
    drawn = predicted[counts >= FEWEST_RELEASES].sort_values("framework_version")
    if drawn.empty:
        return None
    share = drawn["used_bytes"] / drawn.groupby("case")["used_bytes"].transform("first")
    releases = drawn["framework_version"].cat.remove_unused_categories()
    grid = sns.relplot(
        drawn.assign(change=100 * (share - 1), release=releases),
        kind="line",
        marker="o",
        x="release",
        y="change",
        hue="strategy",
        # a case is of one strategy, and its line is not the mean of several batches
        units="case",
        estimator=None,
        col="workload",
        palette="colorblind",
        height=2.6,
        aspect=0.95,
    )
    grid.set_titles("{col_name}").set_axis_labels("release of JAX", "against the oldest's plan, %")
    grid.refline(y=0, color="0.75", linewidth=0.8, linestyle="-")
    grid.tick_params(axis="x", rotation=60)
    grid.tight_layout()
    first, *_, last = releases.cat.categories
    device = find(drawn["device"].iloc[0]).title
    title = (
        f"JAX {first} to {last}: plans for one {device} differ by {share.min() - 1:+.1%} to "
        f"{share.max() - 1:+.1%} from the oldest's"
    )
    notes = [RELEASES_NOTE, describe_code(drawn["commit"].dropna())]
    return page.explain_figure(grid.figure, title, notes)


def figures(results: Results, _: Iterable[str]) -> Iterator[FigureRequest]:
    """Yield a figure of savings for each workload and size in training, and one of JAX's releases.

    Savings are those at the base batch of a declared size; releases have a figure for each device.
    """
    df = frame.load(results.root)
    shown = df[df["device"].isin(SHOWN)]
    is_training = (shown["scenario"] == "train") & (shown["ranks"] == 1)
    training = shown[is_training & shown["pinned"]]
    for (workload, size), group in training.groupby(["workload", "size"]):
        declared = load_workload(str(workload)).sizes
        if size in declared:
            base_batch = declared[str(size)].base
            at_base = group[group["batch"] == base_batch]
            yield f"devices-{workload}-train-{size}", draw_savings, at_base
    of_jax = shown[shown["framework"] == "jax"]
    for device, group in of_jax.groupby("device"):
        yield f"devices-releases-{device}", draw_plans, group
