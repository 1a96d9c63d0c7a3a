"""Fixtures: the site of every kind of record."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.analysis.results import Results
from framebench.publish.site.build import build
from tests.fake_records import repeat_in_blocks
from tests.pages import browser, make_all_records, tab, write_records

__all__ = ["browser", "tab"]


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """Return a site with everything: hostile records, guides, reference and notebooks."""
    folder = tmp_path_factory.mktemp("site")
    write_records(folder / "results", *repeat_in_blocks(make_all_records()))
    build(Results(folder / "results"), folder / "out" / "site")
    assert [p.name for p in (folder / "out").iterdir()] == ["site"], "nothing is written elsewhere"
    return folder / "out" / "site"
