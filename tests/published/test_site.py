"""The site of the published records opens in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framebench.analysis.results import Results
from framebench.publish.site.build import build
from tests.accessibility import audited, list_dead_links, list_violations, select_one_of_each_kind
from tests.pages import PHONE_WIDTH, browser, in_a_browser, needs_sphinx, tab
from tests.processes import ROOT

__all__ = ["audited", "browser", "tab"]  # fixtures
# bytes of one page, of any other file, and of the whole site
LARGEST_PAGE, LARGEST_FILE, WHOLE = 2_000_000, 4_000_000, 120_000_000


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the site of everything that is published."""
    site = tmp_path_factory.mktemp("published") / "site"
    build(Results(ROOT / "results"), site)
    return site


@needs_sphinx
@pytest.mark.all_cases
@pytest.mark.slow
def test_the_published_site_is_small_without_dead_links(published: Path) -> None:
    assert not list_dead_links(published)
    whole = 0
    for path in published.rglob("*"):
        if path.is_file():
            size = path.stat().st_size
            assert size <= (LARGEST_PAGE if path.suffix == ".html" else LARGEST_FILE), path
            whole += size
    assert whole <= WHOLE


@needs_sphinx
@in_a_browser
@pytest.mark.all_cases
@pytest.mark.slow
def test_each_kind_of_published_page_opens(published: Path, tab: Any, audited: Any) -> None:
    for path in select_one_of_each_kind(published):
        tab.goto(path.as_uri())
        assert not tab.errors, path
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE_WIDTH, path
        audited.goto(path.as_uri())
        assert not list_violations(audited), path
