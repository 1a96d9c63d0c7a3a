"""The site in a real browser, from files: sorting, searching and dark mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.accessibility import select_one_of_each_kind
from tests.pages import INJECTED, PHONE_WIDTH, in_a_browser, needs_sphinx

CASES = Path("machines") / "lab" / "cases.html"
pytestmark = [needs_sphinx, in_a_browser]


def find_faults(path: Path, tab: Any) -> list[str]:
    """Open a page and return its faults, each beginning with its kind and a colon."""
    tab.errors.clear()
    tab.goto(path.as_uri())
    tab.wait_for_load_state("load")
    faults = list(tab.errors)
    width = tab.evaluate("document.documentElement.scrollWidth")
    if width > PHONE_WIDTH:
        faults.append(f"overflow: {width} pixels")
    if not tab.evaluate(f"window.{INJECTED} === undefined"):
        faults.append("injection: the script of a record ran")
    return faults


def test_every_kind_of_page_opens_from_a_file(site, tab):
    paths = select_one_of_each_kind(site)
    assert paths
    for path in paths:
        assert find_faults(path, tab) == [], path


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("<script src='https://elsewhere.invalid/x.js'></script>", "request"),
        ("<script>console.log(1)</script>", "console"),
        ("<script>throw new Error('a fault')</script>", "error"),
        ("<p style='width:9999px'>x</p>", "overflow"),
        (f"<script>window.{INJECTED} = 1</script>", "injection"),
        ("<p>x</p>", None),
    ],
)
def test_the_page_check_detects_each_kind_of_fault(content, fault, tmp_path, tab):
    page = tmp_path / "page.html"
    head = "<!doctype html><meta name=viewport content='width=device-width'>"
    page.write_text(f"{head}{content}")
    # the browser also complains of a script that it does not get
    faults = [found for found in find_faults(page, tab) if "ERR_FAILED" not in found]
    assert [found.partition(":")[0] for found in faults] == ([fault] if fault else [])


def read_column(tab: Any, number: int) -> list[str]:
    return list(
        tab.eval_on_selector_all(
            f"table.sortable tbody tr td:nth-child({number})",
            "all => all.map(c => c.textContent.trim())",
        )
    )


def test_a_table_is_sorted_by_mouse_and_keyboard(site, tab):
    tab.goto((site / CASES).as_uri())
    tab.wait_for_selector("table.dataTable")  # made sortable after the page was loaded
    header_cells = tab.locator("table.sortable thead th")
    headings = [text.strip() for text in header_cells.all_inner_texts()]
    index = headings.index("peak MiB")
    header = header_cells.nth(index)

    header.click()
    tab.wait_for_selector("th[aria-sort='ascending']")
    assert header.get_attribute("aria-sort") == "ascending"
    peaks = read_column(tab, index + 1)
    assert peaks[:4] == ["100.0", "200.0", "300.0", "1,000.0"]
    assert set(peaks[4:]) == {"oom", "crashed"}, "cases without a peak come last"

    header.locator("[role=button]").focus()
    tab.keyboard.press("Enter")
    tab.wait_for_selector("th[aria-sort='descending']")
    assert header.get_attribute("aria-sort") == "descending"
    assert read_column(tab, index + 1)[-4:] == ["1,000.0", "300.0", "200.0", "100.0"]


def test_a_table_is_searched_by_words(site, tab):
    tab.goto((site / CASES).as_uri())
    box = tab.get_by_role("searchbox")
    assert len(read_column(tab, 2)) == 6
    box.fill("FP32 torch")
    assert read_column(tab, 2) == ["fp32", "fp32"]


def test_a_search_finds_a_guide_and_a_case(site, tab):
    for words, page in (
        ("needs more than the peak", "docs/reading.html"),
        ("transformer/torch/train/checkpoint/b4/tiny", "machines/lab/cases/"),
    ):
        tab.goto((site / "search.html").as_uri() + f"?q={words.replace(' ', '+')}")
        # the results come one by one
        tab.wait_for_selector(f"#search-results li a[href*='{page}']", state="attached")
