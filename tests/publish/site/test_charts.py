"""Charts have a mark for each row that they are given, and lead to its case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from framebench.claims.lines import Line
from framebench.publish.site.links import get_case_link
from tests.fake_records import frame, in_blocks
from tests.pages import made

charts = pytest.importorskip(
    "framebench.publish.site.charts", reason="Altair is not installed: `make test-site` installs it"
)
claim_pages = pytest.importorskip("framebench.publish.site.claim_pages")
MIB = 2**20


def make_rows() -> Any:
    """Return rows of a baseline, a strategy that saves memory, and one that saves time."""
    return frame(
        *in_blocks(
            [
                made("fp32", 200 * MIB, [1.0, 1.1]),
                made("checkpoint", 100 * MIB, [1.5, 1.65]),
                made("amp_bf16", 400 * MIB, [0.5, 0.55]),
            ]
        )
    )


def read_values(chart: Any) -> list[dict[str, Any]]:
    """Return the rows of a chart's first data set."""
    spec = chart.to_dict()
    return list(next(iter(spec["datasets"].values())))


def test_a_point_has_the_ratios_to_its_baseline_and_leads_to_its_case() -> None:
    compared = charts.select_scenario(make_rows(), "train")

    points = charts.make_points(compared, "../").set_index("strategy")

    assert points.loc["checkpoint", "memory"] == 0.5
    assert points.loc["checkpoint", "speed"] == pytest.approx(1 / 1.5, rel=0.01)
    link = get_case_link("lab", "transformer/torch/train/checkpoint/b4/tiny")
    assert points.loc["checkpoint", "link"] == f"../{link}"


def test_a_chart_with_times_has_speed_up() -> None:
    points = charts.make_points(charts.select_scenario(make_rows(), "train"), "")

    chart = charts.draw_strategies(points)

    assert len(read_values(chart)) == 3
    assert chart.to_dict()["encoding"]["y"]["field"] == "speed"


def test_without_times_each_strategy_has_a_row() -> None:
    records = [made(name, peak * MIB, []) for name, peak in (("fp32", 200), ("checkpoint", 100))]
    points = charts.make_points(charts.select_scenario(frame(*records), "train"), "")

    chart = charts.draw_strategies(points)

    assert chart.to_dict()["encoding"]["y"]["field"] == "strategy"
    assert [row["strategy"] for row in read_values(chart)] == ["fp32", "checkpoint"]


def test_a_baseline_alone_has_no_chart() -> None:
    assert charts.select_scenario(frame(made("fp32", MIB, [1.0])), "train").empty


def make_line(
    name: str, low: float | None, high: float, metric: str = "peak", **changes: Any
) -> Line:
    line = Line(
        name,
        name,
        name,
        True,
        "smaller than claimed",
        "change",
        metric,
        1.0,
        high,
        low,
        high,
        claimed=0.5,
    )
    return replace(line, **changes)


def test_the_chart_of_a_claim_marks_no_effect_and_what_is_claimed() -> None:
    chart = charts.draw_claim([make_line("a", 0.6, 0.8), make_line("b", 0.7, 0.9)])

    marks = [rows[0]["at"] for rows in chart.to_dict()["datasets"].values() if "at" in rows[0]]
    assert sorted(marks) == [0.5, 1.0]


def test_measurements_of_another_metric_have_a_chart_of_their_own() -> None:
    lines = [
        make_line("other", 1.1, 1.2, "time", decides=False),
        make_line("a", 0.6, 0.8),
        make_line("without an interval", None, 0.5),
    ]

    groups = claim_pages.group_lines(lines)

    assert [[line.name for line in group] for group in groups] == [["a"], ["other"]]
