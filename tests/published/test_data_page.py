"""The programs that docs/data.md prints run, and draw what the page says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT, run_process

PAGE = (ROOT / "docs" / "data.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)

EVERY_CASE_HAS_ALL_RELEASES = """
def count_releases(table):
    return table.groupby(["framework", "case"])["framework_version"].nunique()

def is_even(table):
    return (count_releases(table).groupby("framework").nunique() == 1).all()

every_plan = framebench.planned().query("device == 'h100-80gb' and framework == 'jax'")
for kept, every in [(history, df), (plans, every_plan)]:
    assert not is_even(every)
    assert is_even(kept)
    assert count_releases(kept).min() > 1
    assert set(kept["framework"]) == set(every["framework"])
"""


def run_program(code: str, folder: Path) -> str:
    """Run a program at the top of the project, and return its warnings and what it says."""
    (folder / "results").symlink_to(ROOT / "results")
    done = run_process([sys.executable, "-c", code], folder, MPLBACKEND="Agg", PYTHONPATH=str(ROOT))
    return done.stderr


@pytest.mark.slow
def test_the_programs_of_the_page_run_one_after_the_other(tmp_path):
    """They name the machine, so that nothing depends on the computer of the reader."""
    assert run_program("\n".join(PROGRAMS), tmp_path) == ""
    assert {file.name for file in tmp_path.glob("*.png")} == {"peaks.png", "releases.png"}


@pytest.mark.slow
def test_the_history_of_releases_has_the_same_cases_in_each(tmp_path):
    (history,) = [program for program in PROGRAMS if "releases.png" in program]
    (plans,) = [program for program in PROGRAMS if "framebench.planned()" in program]
    imports = "import framebench\nimport seaborn as sns\n"
    code = imports + history + plans + EVERY_CASE_HAS_ALL_RELEASES
    assert run_program(code, tmp_path) == ""
