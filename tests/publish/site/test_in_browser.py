"""The site in a real browser, from files: sorting, filtering, and nothing without scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.pages import INJECTED, PHONE_WIDTH, in_a_browser


@in_a_browser
def test_every_page_opens_from_a_file(site: Path, tab: Any) -> None:
    """Load every page; of the claims' pages one per machine, since only their text differs."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        is_claim = path.parent.name == "claims"
        pages[path.parent if is_claim else path] = path
    for path in pages.values():
        tab.goto(path.as_uri())
        assert not tab.errors, path
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE_WIDTH, path
        assert tab.evaluate(f"window.{INJECTED} === undefined"), path
        assert tab.evaluate("getComputedStyle(document.body).margin") == "0px", (
            "the style sheet was applied"
        )


@in_a_browser
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


def column(tab: Any, number: int) -> list[str]:
    return tab.eval_on_selector_all(
        f"tbody tr:not([hidden]) td:nth-child({number})",
        "all => all.map(c => c.textContent.trim())",
    )


@in_a_browser
def test_sorting_by_button_and_keyboard(site: Path, tab: Any) -> None:
    tab.goto((site / "machines" / "lab" / "cases.html").as_uri())
    heads = [h.split("\n")[0] for h in tab.locator("thead th").all_inner_texts()]
    place = heads.index("peak MiB") + 1
    head = tab.locator("thead th").nth(place - 1)
    assert head.get_attribute("aria-sort") is None
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(tab, place) == ["100.0", "200.0", "300.0", "1,000.0", "oom", "crashed"], (
        "by value, what has none last"
    )
    head.get_by_role("button").focus()
    tab.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert column(tab, place) == ["1,000.0", "300.0", "200.0", "100.0", "oom", "crashed"]
    tab.locator("thead th").nth(1).get_by_role("button").click()
    assert column(tab, 2) == ["accumulate", "amp_bf16", "checkpoint", "fp32", "fp32", "keep_grads"]
    assert head.get_attribute("aria-sort") is None
    assert not tab.errors


@in_a_browser
def test_filtering_counts_rows(site: Path, tab: Any) -> None:
    tab.goto((site / "machines" / "lab" / "cases.html").as_uri())
    box, count = tab.get_by_role("searchbox"), tab.locator("output")
    assert count.inner_text() == "6 of 6 rows"
    box.fill("FP32 torch")
    assert (count.inner_text(), column(tab, 2)) == ("2 of 6 rows", ["fp32", "fp32"])
    box.fill("nothing like it")
    assert (count.inner_text(), column(tab, 2)) == ("0 of 6 rows", [])
    box.fill("")
    assert len(column(tab, 2)) == 6


@in_a_browser
def test_without_scripts_everything_is_there(site: Path, browser: Any) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto((site / "machines" / "lab" / "cases.html").as_uri())
    assert page.locator("tbody tr").count() == 6
    assert page.locator("button, input").count() == 0
    page.close()
