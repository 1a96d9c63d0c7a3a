"""What a reader sees of the site in a browser, at two widths."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from framebench.analysis.results import Results
from framebench.publish.site.build import build
from framebench.publish.site.casepage import list_timed_steps
from framebench.records.record import Calibration, Record
from tests.fake_records import in_blocks
from tests.pages import (
    PHONE_HEIGHT,
    PHONE_WIDTH,
    browser,
    in_a_browser,
    keep,
    made,
    needs_sphinx,
    tab,
)

__all__ = ["browser", "tab"]
MIB = 2**20
CASES = Path("machines") / "lab" / "cases.html"
CLAIMS = Path("claims") / "lab" / "index.html"
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
    build(Results(folder / "results"), folder / "site", guides=False)
    return folder / "site"


def show(tab: Any, site: Path, page: Path | str, width: int = 1280, height: int = 900) -> None:
    tab.set_viewport_size({"width": width, "height": height})
    tab.goto((site / page).as_uri())


@needs_sphinx
@in_a_browser
def test_the_answer_is_visible_on_a_phone_without_scrolling(seen: Path, tab: Any) -> None:
    show(tab, seen, "index.html", PHONE_WIDTH, PHONE_HEIGHT)
    answer = tab.locator("#said")
    assert "PyTorch with checkpoint needs least, 105 MiB" in answer.inner_text()
    box = answer.bounding_box()
    assert box["y"] + box["height"] <= PHONE_HEIGHT
    assert box["x"] + box["width"] <= PHONE_WIDTH


@needs_sphinx
@in_a_browser
def test_a_machine_whose_calibration_failed_comes_last(seen: Path, tab: Any) -> None:
    show(tab, seen, "index.html")
    assert tab.get_by_label("device").input_value() == "lab"
    show(tab, seen, "machines/a-broken-one/index.html")
    assert "calibration of its instruments failed" in tab.locator("article").inner_text()


@needs_sphinx
@in_a_browser
@pytest.mark.parametrize("width", [1280, PHONE_WIDTH])
@pytest.mark.parametrize("page", ["index.html", SUMMARY, WORKLOAD, CLAIMS, CASES])
def test_nothing_is_clipped(seen: Path, tab: Any, page: Path | str, width: int) -> None:
    show(tab, seen, page, width)
    tab.wait_for_timeout(500)  # charts are drawn
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    words = "[...document.querySelectorAll('.vega svg text')].map(t => t.getBoundingClientRect())"
    assert tab.evaluate(f"{words}.every(r => r.left >= 0 && r.right <= innerWidth)")


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
    assert list_timed_steps(untimed, [untimed, *timed]) == timed[-1].step_s != []
    assert list_timed_steps(untimed, [untimed]) == []
