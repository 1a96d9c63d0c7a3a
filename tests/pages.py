"""Sites of records by hand, and a real browser for them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from framebench.publish.site.build import PACKAGES
from framebench.records import store
from framebench.records.record import Record
from framebench.suite.result import StrategyEffect, Verification
from tests.fake_records import make_measured

PHONE_WIDTH, PHONE_HEIGHT = 390, 844  # CSS pixels
INJECTED = "script_injected"  # the global variable that a hostile record's script would set
# It leaves an attribute, a comment, and every element whose text is not parsed as HTML.
EVIL = (
    f"\"'>--></script></style></title></textarea></noscript>"
    f"<script>window.{INJECTED} = 1</script>"
    f'<img src=x onerror="window.{INJECTED} = 1"><svg onload="window.{INJECTED} = 1">'
    f"`${{window.{INJECTED} = 1}}`\u2028;window.{INJECTED} = 1//{{{{ 7 * 7 }}}}"
)
EVIL_MACHINE = "evil-machine_1.x"  # no more than a name can be: the record refuses others
RIGHT = Verification(
    passed=True, observed={"loss_0": 1.0}, golden={"loss_0": 1.0}, relative_error={"loss_0": 1e-8}
)
FEATURES = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def make_record(
    strategy: str, peak: int, seconds: list[float], day: int = 1, batch: int = 4, **changes: Any
) -> Record:
    where = {
        "machine": "lab",
        "versions": {"torch": "2.13.0"},
        "measured_at": datetime(2026, 1, day, tzinfo=UTC),
    }
    where |= changes.pop("where", {})
    fields = {
        "peak_samples": [{"host.rss": peak}],
        "step_s": seconds,
        "verification": RIGHT,
        "effect": StrategyEffect(proven=True, evidence={"blocks": 2}),
    }
    return make_measured(strategy, peak, batch=batch, origin=where, **(fields | changes))


def make_all_records() -> Iterator[Record]:
    """Yield every kind of record, those of a hostile machine included.

    A baseline is measured twice, strategies have numbers or none, and there is a second batch.
    """
    for day in (1, 2):
        yield make_record("fp32", 200 * 2**20, [1.0, 1.1, 0.9 + day / 100], day)
    yield make_record("checkpoint", 100 * 2**20, [1.5, 1.6], 2)
    yield make_record("amp_bf16", 1000 * 2**20, [0.5, 0.6], 2)
    yield make_record("fp32", 300 * 2**20, [2.0, 2.1], batch=8)
    nothing = {
        "peaks": {},
        "peak_samples": [],
        "verification": None,
        "effect": None,
        "first_step_s": None,
    }
    yield make_record("accumulate", 0, [], status="oom", reason="memory ran out", **nothing)
    yield make_record(
        "keep_grads", 0, [], status="crashed", reason="signal 11", log_tail="last words", **nothing
    )
    evil = {
        "machine": EVIL_MACHINE,
        "hardware": {"cpu": EVIL, EVIL: EVIL},
        "command": EVIL,
        "environment": {EVIL: EVIL},
    }
    proof = StrategyEffect(proven=False, evidence={EVIL: EVIL})
    yield make_record(
        "fp32",
        2**20,
        [1.0, 1.0],
        reason=EVIL,
        log_tail=EVIL,
        effect=proof,
        where=evil | {"versions": {"torch": EVIL}},
    )


def write_records(results: Path, *records: Record) -> None:
    """Add records to a results folder, those of a machine in one file."""
    for record in records:
        store.append(record, store.find_file(results, record.provenance.machine, "torch-1"))


needs_sphinx = pytest.mark.skipif(
    any(find_spec(package) is None for package in PACKAGES),
    reason="Sphinx is not installed: `make test-site` installs it",
)


class Page(HTMLParser):
    """Read what a page links to inside the site or loads, what can be linked to, and its tags.

    A reader may follow a citation to the web; nothing is loaded from there.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.text = ""
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            text = value or ""
            is_citation = tag == "a" and text.startswith("https://")
            if name in ("href", "src") and not is_citation:
                self.links.append(text)
            elif name == "id":
                self.ids.append(text)
            elif name.startswith("on"):
                self.handlers.append(name)

    def handle_data(self, data: str) -> None:
        self.text += data


CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
in_a_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on the path"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FEATURES))
        yield running
        running.close()


@pytest.fixture
def tab(browser) -> Iterator[Any]:
    """Return a page as wide as a phone; `tab.errors` has messages, errors and refused requests."""
    page = browser.new_page(viewport={"width": PHONE_WIDTH, "height": PHONE_HEIGHT})
    page.errors = []

    def note_message(message: Any) -> None:
        if not message.text.startswith("[PST]"):  # the site's theme, on what it does
            page.errors.append(f"console: {message.text}")

    def note_error(error: Any) -> None:
        page.errors.append(f"error: {error}")

    def refuse_outside(route: Any) -> None:
        if urlsplit(route.request.url).scheme in ("file", "data"):
            return route.continue_()
        page.errors.append(f"request: {route.request.url}")
        return route.abort()

    page.on("console", note_message)
    page.on("pageerror", note_error)
    page.route("**/*", refuse_outside)
    yield page
    page.close()
