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


def dead_links(site: Path) -> list[str]:
    """Each address in a page that is no file of the site, or no place in its page."""
    site = site.resolve()
    pages = {path: Page(path) for path in site.rglob("*.html")}
    named = (
        (path, link)
        for path, page in pages.items()
        for link in dict.fromkeys(page.links)
        if link != "data:,"
    )
    return [
        f"{path.relative_to(site)}: {link}"
        for path, link in named
        if not leads(path, link, site, pages)
    ]


def leads(path: Path, link: str, site: Path, pages: dict[Path, Page]) -> bool:
    """Whether it is a file of the site, and its fragment, if there is one, something in that
    page.
    """
    parts = urlsplit(link)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    inside = not parts.scheme and not parts.netloc and target.is_relative_to(site)
    there = target in pages or target.is_file()
    return inside and there and (not parts.fragment or parts.fragment in pages[target].ids)


@pytest.fixture
def audited(browser: Any) -> Iterator[Any]:
    """A page of its own for axe, which puts its script into what is open."""
    page = browser.new_page()
    yield page
    page.close()


def one_of_each_kind(site: Path) -> list[Path]:
    """The longest of the pages that one template makes: most can be wrong in it."""
    pages = sorted(site.rglob("*.html"), key=lambda path: path.stat().st_size)
    return list({KIND.sub(r"\1\2\3", str(path.relative_to(site))): path for path in pages}.values())


def violations(page: Any) -> list[str]:
    """The grave ones that axe finds in what is open, with everything unfolded."""
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate(UNFOLD)
    found = Axe().run(page).response["violations"]
    return [
        f"{rule['id']}: {node['html'][:200]}"
        for rule in found
        if rule["impact"] in GRAVE
        for node in rule["nodes"]
        if OF_THE_THEME not in node["html"]
    ]
