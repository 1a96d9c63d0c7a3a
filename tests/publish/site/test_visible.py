"""What a reader sees of the site in a browser, at two widths: answers, pictures, and one table to
choose from.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from framebench.analysis import frames
from framebench.analysis.results import Results
from framebench.publish.site.build import build
from framebench.publish.site.casepage import draw_dots, draw_ticks
from framebench.publish.site.drawing import ScenarioDrawing, draw_scenarios
from framebench.records.record import Calibration, Record
from tests.fake_records import in_blocks
from tests.pages import PHONE_HEIGHT, PHONE_WIDTH, browser, in_a_browser, keep, made, tab

__all__ = ["browser", "tab"]
MIB = 2**20
CASES = Path("machines") / "lab" / "cases.html"
CLAIMS = Path("machines") / "lab" / "claims.html"
CHECKPOINT = "transformer/torch/train/checkpoint/b4/tiny"
SUMMARY = Path("machines") / "lab" / "index.html"
WORKLOAD = Path("machines") / "lab" / "transformer.html"


def lab() -> Iterator[Record]:
    yield made("fp32", 200 * MIB, [1.0, 1.1])
    yield made("checkpoint", 100 * MIB, [1.5, 1.65])
    yield made("amp_bf16", 400 * MIB, [0.5, 0.55])
    yield made("fp32", 300 * MIB, [2.0, 2.1], batch=8)


def doubtful() -> Iterator[Record]:
    """A machine that measured later than the other, with instruments that failed."""
    when = datetime(2026, 2, 1, tzinfo=UTC)
    failed = Calibration(measured_at=when, passed=False, failed=["clock"])
    yield made(
        "fp32",
        200 * MIB,
        [1.0, 1.1],
        where={"machine": "a-broken-one", "measured_at": when, "calibration": failed},
    )


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seen")
    keep(folder / "results", in_blocks([*lab(), *doubtful()]))
    build(Results(folder / "results"), folder / "site")
    return folder / "site"


def pictures(*found: Record) -> ScenarioDrawing:
    (one,) = draw_scenarios(frames.make_frame(found), ["train"])
    return one


def undecided() -> list[Record]:
    """The strategy's steps are 1.5 times as long as the baseline's in one block, and three times in
    the other.
    """
    base, change = made("fp32", 200 * MIB, [1.0, 1.0]), made("checkpoint", 100 * MIB, [1.5, 1.5])
    records = []
    for record in in_blocks([base, change]):
        if record.turns is None:
            continue
        if record.parsed.strategy == "checkpoint" and record.turns.block.endswith("1"):
            record = record.model_copy(update={"step_s": [3.0] * len(record.step_s)})
        records.append(record)
    return records


HALF = "105 MiB, 50% of the baseline's need"


@pytest.mark.parametrize(
    ("found", "message", "time"),
    [
        (list(in_blocks(lab())), f"{HALF}, 1.50 x the time, with", "1.50"),
        (undecided(), f"{HALF}, 0.70 to 5.11 x the time, with", "undecided"),
        (list(in_blocks(lab(), 2)), f"{HALF}, about 1.50 x the time, with", "~1.50"),
        (list(lab()), f"{HALF}, not timed, with", "-"),
    ],
)
def test_the_answer_shows_how_sure_its_times_are(
    found: list[Record], message: str, time: str
) -> None:
    mine = pictures(*(r for r in found if r.parsed.batch == 4))
    assert mine.answer == [("PyTorch", message, "checkpoint", CHECKPOINT)]
    (first, cells), *_ = mine.map_rows
    assert (first, [cell.text for cell in cells]) == ("checkpoint", ["0.50", time])
    assert mine.is_timed == (time in ("1.50", "undecided"))
    assert {p.case for panel in mine.panels for p in panel.points} >= {CHECKPOINT}


def test_the_front_has_the_points_that_no_other_beats() -> None:
    records = [record for record in lab() if record.parsed.batch == 4]

    (panel,) = pictures(*in_blocks(records)).panels

    assert all(point.is_best for point in panel.points)
    points = {point.name: point for point in panel.points}
    lean, base, fast = points["checkpoint"], points["fp32"], points["amp_bf16"]
    assert lean.x < base.x < fast.x
    assert fast.y < base.y < lean.y, "fast is up"
    # steps: nothing stands between two strategies
    assert panel.front == f"M{lean.x} {lean.y}H{base.x}V{base.y}H{fast.x}V{fast.y}"


@pytest.mark.parametrize("longest", [0.00034, 0.0111, 0.57, 0.99, 1.0, 4.8, 240.0])
def test_the_axis_of_steps_has_a_few_round_numbers_from_zero(longest: float) -> None:
    record = made("fp32", 200 * MIB, [longest / 2, longest])

    ticks = draw_ticks(record, [record])
    dots = draw_dots(record, [record])

    milliseconds = [float(tick.ms.replace(",", "")) for tick in ticks]
    last, longest_ms = milliseconds[-1], longest * 1e3
    assert milliseconds[0] == 0
    assert 2 <= len(milliseconds) <= 5
    assert last <= longest_ms < last + milliseconds[1]
    # ticks and steps have one scale
    zero = ticks[0].y
    height_of_longest = zero - min(dot.y for dot in dots)
    assert (zero - ticks[-1].y) / height_of_longest == pytest.approx(last / longest_ms, abs=0.01)


def show(tab: Any, site: Path, page: Path | str, width: int = 1280, height: int = 900) -> None:
    tab.set_viewport_size({"width": width, "height": height})
    tab.goto((site / page).as_uri())


@in_a_browser
def test_the_answer_is_visible_on_a_phone_without_scrolling(seen: Path, tab: Any) -> None:
    show(tab, seen, "index.html", PHONE_WIDTH, PHONE_HEIGHT)
    answer = tab.locator("#said")
    assert "PyTorch with checkpoint needs least, 105 MiB" in answer.inner_text()
    box = answer.bounding_box()
    assert box["y"] + box["height"] <= 844
    assert box["x"] + box["width"] <= PHONE_WIDTH


@in_a_browser
def test_a_machine_whose_calibration_failed_comes_last(seen: Path, tab: Any) -> None:
    show(tab, seen, "index.html")
    assert tab.get_by_label("machine").input_value() == "lab"
    assert tab.locator("header nav a").all_inner_texts()[-2:] == ["lab", "a-broken-one"]
    assert "calibration failed" in tab.locator("main li", has_text="a-broken-one").inner_text()


@in_a_browser
@pytest.mark.parametrize("page", ["index.html", SUMMARY, WORKLOAD, CLAIMS, CASES])
def test_nothing_is_clipped(seen: Path, tab: Any, page: Path | str) -> None:
    for width in (1280, PHONE_WIDTH):
        show(tab, seen, page, width)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
    show(tab, seen, page)
    assert (
        tab.evaluate(
            "[...document.querySelectorAll('.box')].filter(b => b.scrollWidth > "
            "b.clientWidth + 2).length"
        )
        == 0
    )
    drawn = (
        "[...document.querySelectorAll('.panel text, #chart text')].filter(t => "
        "!t.closest('[hidden]'))"
    )
    words = f"{drawn}.map(t => t.getBoundingClientRect())"
    assert tab.evaluate(f"{words}.every(r => r.width > 0 && r.left >= 0 && r.right <= innerWidth)")


@in_a_browser
def test_one_table_is_filtered_by_its_selectors(seen: Path, tab: Any) -> None:
    """Training at the batch of most strategies comes first; other rows are there and not shown."""
    show(tab, seen, WORKLOAD)
    table = tab.locator("#cases")
    assert table.locator("tbody tr:visible").all_inner_texts()[0].split()[:4] == [
        "torch",
        "fp32",
        "200.0",
        "1.00",
    ]
    assert (table.locator("tbody tr").count(), table.locator("tbody tr:visible").count()) == (4, 3)
    table.get_by_label("batch").select_option("8")
    assert [row.split()[2] for row in table.locator("tbody tr:visible").all_inner_texts()] == [
        "300.0"
    ]
    assert table.get_by_label("scenario").input_value() == "train"
    assert not table.locator("th", has_text="scenario").is_visible()
    assert not tab.errors


def test_times_come_from_the_newest_timed_block() -> None:
    timed = [r for r in in_blocks([made("fp32", 200 * MIB, [1.0, 1.1])]) if r.turns]
    when = datetime(2027, 1, 1, tzinfo=UTC)
    untimed = timed[-1].model_copy(
        update={
            "step_s": [],
            "turns": None,
            "provenance": timed[-1].provenance.model_copy(update={"measured_at": when}),
        }
    )
    assert (
        [d.ms for d in draw_dots(untimed, [untimed, *timed])]
        == [f"{s * 1e3:,.2f}" for s in timed[-1].step_s]
        != []
    )
    assert draw_dots(untimed, [untimed]) == []
