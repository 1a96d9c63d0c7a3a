"""What strategies are predicted to need, drawn: bars by strategy, one device a panel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from framebench.analysis import rows
from framebench.analysis.comparison import MIB
from framebench.analysis.figures import Asked, page
from framebench.analysis.results import Results
from framebench.devices.catalog import find
from framebench.devices.plans.planned import code_of
from framebench.devices.releases.figure import plans
from framebench.devices.tables import frame
from framebench.suite.case import Case

ROW_IN = 0.26  # height of a strategy's two bars in inches
WORTH = 0.05  # a change that is drawn
SHOWN = ("h100-80gb", "a100-40gb")
FEWEST = 3
NAMES = {"torch": "PyTorch: most in use", "jax": "JAX: XLA's plan"}
NOTE = (
    "Predicted, not measured: a simulated step of PyTorch, and XLA's plan of JAX's. They count different things: compare bars "
    "of one colour. Without a bar there is no prediction. Left out: combinations, other mathematics, and strategies within 5 % "
    "of the baseline in both frameworks."
)


@page.styled
def savings(df: pd.DataFrame) -> Figure | None:
    """`df`: one workload, scenario and size at one batch, as `framebench.planned()` has them. None with too few strategies."""
    drawn = worth_drawing(df)
    if drawn["strategy"].nunique() < FEWEST:
        return None
    order = drawn.groupby("strategy")["used_bytes"].min().sort_values(ascending=False).index
    devices = [name for name in SHOWN if name in set(drawn["device"])]
    size = (3.6 * len(devices) + 1.2, 1.0 + ROW_IN * len(order))
    figure, panels = plt.subplots(1, len(devices), figsize=size, sharey=True, sharex=True, squeeze=False)
    for axes, device in zip(panels[0], devices):
        _panel(axes, drawn[drawn["device"] == device], list(order), device, legend=device == devices[-1])
    figure.tight_layout()
    return page.explained(figure, title(drawn), [NOTE, footer(drawn)])


def worth_drawing(df: pd.DataFrame) -> pd.DataFrame:
    """Single strategies of the same model that change a peak somewhere, and the baseline; of what was refused what it needs."""
    needed = df["used_bytes"].fillna(df["needs_bytes"])
    single = pd.Series([*map(_alone, map(Case.of, df["case"]))], df.index, bool)
    known = df.assign(used_bytes=needed)[needed.notna() & single]
    changed = known.loc[(known["ratio"] - 1).abs() > WORTH, "strategy"]
    return known[known["strategy"].isin(changed) | known["baseline"]]


def _alone(case: Case) -> bool:
    """No combination, and what the baseline computes."""
    return "+" not in case.strategy and case.same_mathematics


def _panel(axes: Axes, drawn: pd.DataFrame, order: list[str], device: str, legend: bool) -> None:
    named = drawn.assign(MiB=drawn["used_bytes"] / MIB, told=drawn["framework"].map(NAMES))
    colours = {name: page.COLOURS[framework] for framework, name in NAMES.items()}
    sns.barplot(
        named, y="strategy", x="MiB", hue="told", order=order, hue_order=list(colours), palette=colours, saturation=1,
        errorbar=None, ax=axes, legend=legend,
    )  # fmt: skip
    if made := axes.get_legend():
        made.set_title("")
    card = find(device)
    axes.set(title=f"{card.title}: {card.memory_bytes / MIB:,.0f} MiB", ylabel="", xlabel="MiB")
    axes.xaxis.set_major_formatter(page.PLAIN)
    if drawn["used_bytes"].max() > card.memory_bytes:
        axes.axvline(card.memory_bytes / MIB, color="0.3", linewidth=0.9, linestyle="--")


def title(drawn: pd.DataFrame) -> str:
    """The strategy that leaves the least in each framework, on the first of the devices."""
    here = drawn[drawn["device"] == next(name for name in SHOWN if name in set(drawn["device"]))]
    said = []
    for framework in NAMES:
        group = here[here["framework"] == framework].dropna(subset="ratio").sort_values("ratio")
        said += [f"{r.strategy} leaves {r.ratio:.0%} in {rows.NAMES[framework]}" for r in group.head(1).itertuples()]
    one = here.iloc[0]
    return f"{one['workload']} {one['scenario']}, batch {one['batch']}, size {one['size']}: {', '.join(said)}"


def footer(drawn: pd.DataFrame) -> str:
    versions = drawn.groupby("framework", sort=False)["framework_version"].first()
    return f"{', '.join(f'{name} {version}' for name, version in versions.items())}. {code_of(drawn['commit'].dropna())}"


def figures(results: Results, _: Iterable[str]) -> Iterator[Asked]:
    """One for each workload and size in training, at its base batch; and releases of JAX."""
    df = frame.load(results.root)
    training = df[df["pinned"] & (df["scenario"] == "train") & (df["ranks"] == 1) & df["device"].isin(SHOWN)]
    for (workload, size), group in training.groupby(["workload", "size"]):
        base = Case.of(group["case"].iloc[0]).spec.preset(str(size)).base
        yield f"devices-{workload}-train-{size}", savings, group[group["batch"] == base]
    for name, group in df[(df["framework"] == "jax") & df["device"].isin(SHOWN)].groupby("device"):
        yield f"devices-releases-{name}", plans, group
