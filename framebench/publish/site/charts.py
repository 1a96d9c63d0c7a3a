"""Make charts by Altair: a DataFrame in, a specification of Vega-Lite out.

`static/start.js` draws them, as wide as the page and in its colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd
from markupsafe import Markup

from framebench.analysis import rows
from framebench.analysis.answers import select_comparable
from framebench.analysis.figures.page import COLOURS, MARKERS
from framebench.analysis.rendering import MIB
from framebench.analysis.tables import format_time_ratios
from framebench.claims.lines import Line
from framebench.claims.plans import GPU
from framebench.publish.site.front import find_family
from framebench.publish.site.links import get_case_link
from framebench.publish.site.markup import render
from framebench.publish.site.titles import TRIAL_SIZE, get_title

Spec = dict[str, Any]
HEIGHT = 320  # pixels
ROW_HEIGHT = 22  # of a chart with a row for each thing
# Vega's names of the markers of figures
SHAPES = {
    "o": "circle",
    "s": "square",
    "D": "diamond",
    "^": "triangle-up",
    "v": "triangle-down",
    ">": "triangle-right",
    "h": "M0,-.5L.43,-.25L.43,.25L0,.5L-.43,.25L-.43,-.25Z",
    "P": "cross",
    "X": "stroke",
}
TITLES = ("PyTorch", "JAX", "Jittor")


def make_figure(chart: alt.TopLevelMixin, title: str, caption: str) -> Markup:
    """Return a chart for a page. `title` names it for those who do not see it."""
    return render("chart.html", spec=chart.to_dict(), title=title, caption=caption)


def make_colour() -> alt.Color:
    """Return the colour of each framework, which is the one of the figures."""
    scale = alt.Scale(domain=list(TITLES), range=[COLOURS[title] for title in TITLES])
    return alt.Color("framework:N", scale=scale, title="framework")


def make_shape(families: Sequence[str]) -> alt.Shape:
    """Return the marker of each family of strategies, which is the one of the figures."""
    used = [family for family in MARKERS if family in families]
    scale = alt.Scale(domain=used, range=[SHAPES[MARKERS[family]] for family in used])
    return alt.Shape("family:N", scale=scale, title="family")


def select_scenario(df: pd.DataFrame, scenario: str) -> pd.DataFrame:
    """Return a workload's rows of a scenario that can be compared, at one size and its usual batch.

    The size is the one with most rows; the one for trying out is taken only if no other is there.
    The result is empty where nothing was measured next to a baseline.
    """
    used = df[~df["only_for_claims"] & (df["scenario"] == scenario)]
    counts = used["size"].value_counts()

    def sort_key(size: str) -> tuple[bool, int, str]:
        return size == TRIAL_SIZE, -counts[size], size

    for size in sorted(counts.index, key=sort_key):
        compared = select_comparable(rows.select_shown(used[used["size"] == size]))
        if not compared["baseline"].all():
            return compared
    return used.iloc[:0]


def make_points(compared: pd.DataFrame, root: str) -> pd.DataFrame:
    """Return what a chart shows of the rows of `select_scenario`, a point for each."""
    points = []
    for row, ratio in zip(rows.iterate_rows(compared), format_time_ratios(compared)):
        points.append(
            {
                "framework": get_title(str(row.framework)),
                "strategy": row.strategy,
                "family": find_family(row.scenario, row.strategy),
                "memory": round(row.relative_peak, 4),
                "speed": round(1 / row.time_ratio, 4) if pd.notna(row.time_ratio) else None,
                "peak": f"{row.step_bytes / MIB:,.1f} MiB",
                "time": ratio,
                "link": root + get_case_link(row.machine, row.case),
            }
        )
    return pd.DataFrame(points)


def draw_strategies(points: pd.DataFrame) -> alt.Chart:
    """Return memory against speed, relative to each framework's baseline.

    Without times there is a row for each strategy, and memory alone.
    """
    timed = points[points["speed"].notna()]
    is_timed = (timed["strategy"].nunique() > 1) and len(timed) > 1
    shown = timed if is_timed else points
    tooltip = ["framework", "strategy", "memory", "speed", "peak", "time"]
    memory = alt.X(
        "memory:Q",
        title="peak memory / the baseline's",
        scale=alt.Scale(type="log", nice=False, padding=16),
    )
    chart = alt.Chart(shown).mark_point(filled=True, size=90, opacity=0.85)
    common = {
        "x": memory,
        "color": make_colour(),
        "tooltip": tooltip,
        "href": "link:N",
    }
    if is_timed:
        speed = alt.Y(
            "speed:Q",
            title="throughput / the baseline's",
            scale=alt.Scale(type="log", nice=False, padding=16),
        )
        shape = make_shape(list(shown["family"]))
        return chart.encode(y=speed, shape=shape, **common).properties(
            width="container", height=HEIGHT
        )
    by_memory = alt.Y("strategy:N", title=None, sort=alt.EncodingSortField("memory", op="min"))
    return chart.encode(y=by_memory, **common).properties(
        width="container", height=ROW_HEIGHT * shown["strategy"].nunique()
    )


def draw_claim(lines: Sequence[Line]) -> alt.LayerChart | alt.FacetChart:
    """Return measurements of one metric as intervals, with "no effect" and what is claimed."""
    first = lines[0]
    bars = []
    for line in lines:
        bars.append(
            {
                "measurement": line.name,
                "low": line.low,
                "value": line.value,
                "high": line.high,
                "text": line.measured,
                "verdict": line.verdict,
                "role": describe_role(line),
            }
        )
    base = alt.Chart(pd.DataFrame(bars)).encode(
        y=alt.Y("measurement:N", title=None, sort=None, axis=alt.Axis(labelLimit=240)),
        color=alt.Color("role:N", title=None),
        tooltip=["measurement", "text", "verdict"],
    )
    unit = alt.Scale(zero=False)
    intervals = base.mark_rule(strokeWidth=3, opacity=0.6).encode(
        x=alt.X("low:Q", title=first.metric, scale=unit), x2="high:Q"
    )
    values = base.mark_point(filled=True, size=60).encode(x=alt.X("value:Q", scale=unit))
    layers = [intervals, values, draw_mark(first.null, [])]
    if first.claimed is not None:
        layers.append(draw_mark(first.claimed, [4, 4]))
    return alt.layer(*layers).properties(width="container", height=ROW_HEIGHT * len(bars))


def describe_role(line: Line) -> str:
    """Return what a measurement is for."""
    if line.planned:
        return f"planned for {GPU}"
    return "used for the verdict" if line.counts else "informational"


def draw_mark(value: float, dash: list[int]) -> alt.Chart:
    """Return a line at a value."""
    marks = pd.DataFrame([{"at": value}])
    return alt.Chart(marks).mark_rule(strokeDash=dash, color="#808080").encode(x="at:Q")


def draw_answers() -> Spec:
    """Return the chart of the form: what is needed against throughput, of rows it will be given."""
    rate = alt.Y("rate:Q", title="throughput", scale=alt.Scale(type="log", nice=False, padding=16))
    chart = (
        draw_needs("rows")
        .mark_point(filled=True, size=90)
        .encode(y=rate, shape=make_shape(list(MARKERS)), color=make_colour())
    )
    return with_budget(chart).properties(width="container", height=HEIGHT).to_dict()


def draw_predictions() -> Spec:
    """Return the chart of the form for devices without times: a row for each strategy.

    The form sets its height.
    """
    strategies = alt.Y("strategy:N", title=None, sort=alt.EncodingSortField("needs", op="min"))
    chart = (
        draw_needs("rows")
        .mark_point(filled=True, size=90)
        .encode(y=strategies, color=make_colour())
    )
    return with_budget(chart).properties(width="container").to_dict()


def draw_needs(name: str) -> alt.Chart:
    """Return a chart of the data with this name, with memory across."""
    needs = alt.X(
        "needs:Q",
        title="memory that a job needs, MiB",
        scale=alt.Scale(type="log", nice=False, padding=16),
    )
    opacity = alt.condition("datum.fits", alt.value(0.9), alt.value(0.3))
    return alt.Chart(alt.NamedData(name=name)).encode(
        x=needs,
        href="href:N",
        tooltip="tip:N",
        description="tip:N",
        opacity=opacity,
    )


def with_budget(chart: alt.Chart) -> alt.LayerChart | alt.FacetChart:
    """Return the chart with a line at each value of the data `budgets`."""
    budget = alt.Chart(alt.NamedData(name="budgets")).mark_rule(strokeDash=[4, 4]).encode(x="at:Q")
    return alt.layer(chart, budget)
