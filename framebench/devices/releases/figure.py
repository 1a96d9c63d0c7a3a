"""Releases of JAX by what they plan, drawn: a line for each case."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from packaging.version import Version

from framebench.analysis.figures import page
from framebench.devices.catalog import find
from framebench.devices.plans.planned import code_of

FEWEST = 3  # releases
NOTE = "Planned by each release's own compiler, not measured. 100 %: the oldest release drawn that has a plan of the case."


@page.styled
def plans(df: pd.DataFrame) -> Figure | None:
    """`df`: JAX's rows of one device, as `framebench.planned()` has them. None with too few releases."""
    known = df[df["used_bytes"].notna()]
    counts = known.groupby("case")["used_bytes"].transform("size")  # a release has a case once
    drawn = known[counts >= FEWEST].sort_values("framework_version", key=lambda column: column.map(Version))
    if drawn.empty:
        return None
    drawn = drawn.assign(share=drawn["used_bytes"] / drawn.groupby("case")["used_bytes"].transform("first"))
    releases = list(dict.fromkeys(drawn["framework_version"]))
    drawn = drawn.assign(release=pd.Categorical(drawn["framework_version"], releases, ordered=True))
    figure, axes = plt.subplots(figsize=(6.4, 3.0))
    sns.lineplot(drawn, x="release", y="share", hue="case", style="case", markers=True, dashes=False, ax=axes)
    axes.set(xlabel="release of JAX", ylabel="plan / the oldest's")
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=1))
    axes.legend(title=None, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.tight_layout()
    return page.explained(figure, title(drawn, releases), [NOTE, code_of(drawn["commit"].dropna())])


def title(drawn: pd.DataFrame, releases: list[str]) -> str:
    """How far plans are from the oldest's."""
    low, high = drawn["share"].min() - 1, drawn["share"].max() - 1
    device = find(drawn["device"].iloc[0]).title
    return f"JAX {releases[0]} to {releases[-1]}: plans for one {device} differ by {low:+.1%} to {high:+.1%} from the oldest's"
