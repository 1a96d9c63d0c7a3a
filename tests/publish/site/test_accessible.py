"""What axe, a checker of the Web Content Accessibility Guidelines, finds on a page of each kind."""

import pytest

from tests.accessibility import audited, list_violations, select_one_of_each_kind
from tests.marks import rarely
from tests.pages import PHONE_WIDTH, in_a_browser, needs_sphinx

__all__ = ["audited"]  # a fixture
NAMED = {
    "api",
    "cases",
    "commands",
    "figures",
    "index",
    "search",
    "strategies",
    "transformer",
}
PLANTED = {
    "image-alt": "<img src='data:,'>",
    "color-contrast": "<p style='color: #999; background: #aaa'>pale</p>",
    "label": "<details><summary>more</summary><input></details>",
}
VIEWS = [
    (PHONE_WIDTH, "dark"),
    *(rarely(*view) for view in ((1280, "light"), (1280, "dark"), (PHONE_WIDTH, "light"))),
]


@needs_sphinx
@in_a_browser
@pytest.mark.parametrize(("width", "scheme"), VIEWS)
def test_pages_have_no_accessibility_violations(site, audited, width, scheme):
    audited.set_viewport_size({"width": width, "height": 900})
    audited.emulate_media(color_scheme=scheme)
    pages = select_one_of_each_kind(site)
    assert {path.stem for path in pages} >= NAMED
    pages.append(site / "docs" / "tutorial.html")
    found = []
    for path in pages:
        audited.goto(path.as_uri())
        found += [f"{path.relative_to(site)}: {line}" for line in list_violations(audited)]
    assert not found, "\n".join(found)


@needs_sphinx
@in_a_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_accessibility_check_finds_planted_violations(site, audited, scheme):
    audited.emulate_media(color_scheme=scheme)
    audited.goto((site / "machines" / "lab" / "cases.html").as_uri())
    audited.evaluate(
        "html => document.querySelector('article').insertAdjacentHTML('beforeend', html)",
        "".join(PLANTED.values()),
    )
    assert {line.split(": ")[0] for line in list_violations(audited)} == set(PLANTED)
