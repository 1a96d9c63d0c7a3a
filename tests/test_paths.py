"""The project names no place of one machine: what a run leaves beside the sources is no part of
it.
"""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.processes import ROOT

PLACE = re.compile(r"(?<![\w.~/{}$-])/(?:home|Users|root|work|mnt)/[\w.-]+/")
TEXT = ("*.json", "*.jsonl", "*.py", "*.md", "*.toml", "*.txt", "*.csv", "*.sh", "*.yml")


def places(text: str) -> list[str]:
    return PLACE.findall(text)


def test_no_file_names_a_place_of_one_machine() -> None:
    found = subprocess.run(
        ["git", "grep", "-nIE", "/(home|Users|root|work|mnt)/", "--", *TEXT],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if found.returncode > 1:
        pytest.skip(f"no repository here: {found.stderr.strip()}")
    lines = [
        line for line in found.stdout.splitlines() if not line.startswith("tests/test_paths.py")
    ]
    assert [line[:160] for line in lines if places(line.partition(":")[2])] == []


def test_a_place_is_known() -> None:
    for top in ("home", "Users", "root", "work", "mnt"):
        assert places(f'{{"file": "/{top}/copy/tools/model.py"}}')
    assert not places("tests/work/copy/x.py and https://example.org/home/page/")
