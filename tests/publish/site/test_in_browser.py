"""The site in a real browser, from files: sorting, searching and dark mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.accessibility import select_one_of_each_kind
from tests.pages import INJECTED, PHONE_WIDTH, in_a_browser, needs_sphinx

CASES = Path("machines") / "lab" / "cases.html"
pytestmark = [needs_sphinx, in_a_browser]


def test_every_kind_of_page_opens_from_a_file(site: Path, tab: Any) -> None:
    for path in select_one_of_each_kind(site):
        tab.goto(path.as_uri())
        tab.wait_for_load_state("load")
        assert not tab.errors, path
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE_WIDTH, path
        assert tab.evaluate(f"window.{INJECTED} === undefined"), path


def test_the_page_check_detects_requests_errors_and_overflow(site: Path, tab: Any) -> None:
    """The check above can fail: a page that asks for something elsewhere, complains and is too wide
    is caught.
    """
    page = site.parent / "bad.html"
    head = (
        "<!doctype html><meta name=viewport content='width=device-width'><script "
        "src='https://elsewhere.invalid/x.js'></script>"
    )
    page.write_text(f"{head}<script>console.log(1)</script><p style='width:9999px'>x</p>")
    tab.goto(page.as_uri())
    assert {error.split(":")[0] for error in tab.errors} == {"request", "console"}
    assert tab.evaluate("document.documentElement.scrollWidth") > PHONE_WIDTH
    page.unlink()


def read_column(tab: Any, number: int) -> list[str]:
    return list(
        tab.eval_on_selector_all(
            f"table.sortable tbody tr td:nth-child({number})",
            "all => all.map(c => c.textContent.trim())",
        )
    )


def test_a_table_is_sorted_by_mouse_and_keyboard(site: Path, tab: Any) -> None:
    tab.goto((site / CASES).as_uri())
    tab.wait_for_selector("table.dataTable")  # made sortable after the page was loaded
    heads = tab.locator("table.sortable thead th")
    place = [text.strip() for text in heads.all_inner_texts()].index("peak MiB")
    heads.nth(place).click()
    tab.wait_for_selector("th[aria-sort='ascending']")
    smallest_first = ["100.0", "200.0", "300.0", "1,000.0"]
    assert read_column(tab, place + 1)[:4] == smallest_first
    assert set(read_column(tab, place + 1)[4:]) == {"oom", "crashed"}, "what has none comes last"
    assert heads.nth(place).get_attribute("aria-sort") == "ascending"
    heads.nth(place).locator("[role=button]").focus()
    tab.keyboard.press("Enter")
    tab.wait_for_selector("th[aria-sort='descending']")
    assert heads.nth(place).get_attribute("aria-sort") == "descending"
    assert read_column(tab, place + 1)[-4:] == smallest_first[::-1]


def test_a_table_is_searched_by_words(site: Path, tab: Any) -> None:
    tab.goto((site / CASES).as_uri())
    box = tab.get_by_role("searchbox")
    assert len(read_column(tab, 2)) == 6
    box.fill("FP32 torch")
    assert read_column(tab, 2) == ["fp32", "fp32"]


def test_a_search_finds_a_guide_and_a_case(site: Path, tab: Any) -> None:
    for words, page in (
        ("needs more than the peak", "docs/reading.html"),
        ("transformer/torch/train/checkpoint/b4/tiny", "machines/lab/cases/"),
    ):
        tab.goto((site / "search.html").as_uri() + f"?q={words.replace(' ', '+')}")
        # the results come one by one
        tab.wait_for_selector(f"#search-results li a[href*='{page}']", state="attached")
