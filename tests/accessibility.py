"""What is wrong with the pages of a built site: links that lead nowhere, and what keeps readers
out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.pages import Page

GRAVE = {"serious", "critical"}
# what differs in the addresses of pages of one kind
KIND = re.compile(r"(machines|claims|predicted)/[^/]+|(cases|source)[/-].*|(docs|studies)/.*")
OF_THE_THEME = 'class="toctree-toggle"'  # the theme's buttons of its menu have no name
UNFOLD = "document.querySelectorAll('details').forEach(details => details.open = true)"


def list_dead_links(site: Path) -> list[str]:
    """Return each address in a page that is no file of the site, or no place in its page."""
    site = site.resolve()
    pages = {path: Page(path) for path in site.rglob("*.html")}
    dead = []
    for path, page in pages.items():
        for link in sorted(set(page.links)):
            if link != "data:," and not has_target(path, link, site, pages):
                dead.append(f"{path.relative_to(site)}: {link}")
    return dead


def has_target(path: Path, link: str, site: Path, pages: dict[Path, Page]) -> bool:
    """Return whether a link leads to a file of the site, and to a place in it if it names one."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return False
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_relative_to(site) or not target.is_file():
        return False
    return not parts.fragment or parts.fragment in pages[target].ids


@pytest.fixture
def audited(browser) -> Iterator[Any]:
    """Yield a page of its own for axe, which puts its script into what is open."""
    page = browser.new_page()
    yield page
    page.close()


def select_one_of_each_kind(site: Path) -> list[Path]:
    """Return the longest of the pages that one template makes: most can be wrong in it."""
    longest = {}
    for path in sorted(site.rglob("*.html"), key=lambda path: path.stat().st_size):
        kind = KIND.sub(r"\1\2\3", str(path.relative_to(site)))
        longest[kind] = path
    return list(longest.values())


def list_violations(page: Any) -> list[str]:
    """Return the grave ones that axe finds in what is open, with everything unfolded."""
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate(UNFOLD)
    grave = []
    for rule in Axe().run(page).response["violations"]:
        for node in rule["nodes"]:
            if rule["impact"] in GRAVE and OF_THE_THEME not in node["html"]:
                grave.append(f"{rule['id']}: {node['html'][:200]}")
    return grave
