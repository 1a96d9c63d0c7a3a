"""The site of the published records opens in a real browser."""

from __future__ import annotations

import fnmatch
import json
import re
from pathlib import Path
from typing import Any

import pytest

from framebench.analysis.results import Results
from framebench.publish.site.build import build
from tests.accessibility import audited, dead_links, one_of_each_kind, violations
from tests.pages import PHONE_WIDTH, browser, in_a_browser, tab
from tests.processes import ROOT
from tests.record_files import load_fields, plant

__all__ = ["audited", "browser", "tab"]  # fixtures
# bytes of one file of a site, and of a machine's site together
LARGEST, WHOLE = 400_000, 20_000_000


@in_a_browser
@pytest.mark.all_cases
@pytest.mark.slow
@pytest.mark.parametrize("cases", ["transformer/torch/train/*/b4/cpu", "*"], ids=["some", "all"])
def test_the_site_of_committed_results_opens(
    cases: str, tmp_path: Path, tab: Any, audited: Any
) -> None:
    """Each kind of page, with asv's histories, from the real records of a machine; of all of them,
    axe looks at each kind.
    """
    machine = Results(ROOT / "results").machines[0]
    (tmp_path / "results").mkdir()
    for folder in (ROOT / "results").iterdir():
        if folder.is_dir() and folder.name != "records":
            (tmp_path / "results" / folder.name).symlink_to(folder)
    for file in (ROOT / "results/records" / machine).glob("*.jsonl"):
        copy = tmp_path / "results/records" / machine / file.name
        for fields in load_fields(file):
            if fnmatch.fnmatchcase(fields["case"], cases):
                plant(copy, json.dumps(fields))
    results = Results(tmp_path / "results")
    build(results, tmp_path / "site", results.get_records(machine))
    sizes = {path: path.stat().st_size for path in (tmp_path / "site").rglob("*") if path.is_file()}
    assert max(sizes.values()) <= LARGEST, max(sizes, key=lambda path: sizes[path])
    assert sum(sizes.values()) <= WHOLE
    assert not dead_links(tmp_path / "site")
    kinds = {
        re.sub(r"/cases/.*", "/case", str(p.relative_to(tmp_path))): p
        for p in (tmp_path / "site").rglob("*.html")
    }
    for path in kinds.values():
        tab.goto(path.as_uri())
        assert not tab.errors, path
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE_WIDTH, path
    for path in one_of_each_kind(tmp_path / "site") if cases == "*" else ():
        audited.goto(path.as_uri())
        assert not violations(audited), path
