"""The project names no place of one machine: what a run leaves beside the sources is no part of
it.
"""

from __future__ import annotations

import re

import pytest

from tests.processes import run_process

PLACE = re.compile(r"(?<![\w.~/{}$-])/(?:home|Users|root|work|mnt)/[\w.-]+/")
TEXT = ("*.json", "*.jsonl", "*.py", "*.md", "*.toml", "*.txt", "*.csv", "*.sh", "*.yml")


def find_places(text: str) -> list[str]:
    return PLACE.findall(text)


def test_no_file_names_a_place_of_one_machine():
    command = ["git", "grep", "-nIE", "/(home|Users|root|work|mnt)/", "--", *TEXT]
    process = run_process(command, code=None)
    if process.returncode > 1:
        pytest.skip(f"no repository here: {process.stderr.strip()}")
    lines = process.stdout.splitlines()
    assert any(line.startswith("tests/test_paths.py:") for line in lines), "this file names some"
    for line in lines:
        file, _, text = line.partition(":")
        assert file == "tests/test_paths.py" or not find_places(text), line[:160]


def test_the_pattern_finds_places_of_one_machine():
    for top in ("home", "Users", "root", "work", "mnt"):
        assert find_places(f'{{"file": "/{top}/copy/tools/model.py"}}')
    assert not find_places("tests/work/copy/x.py and https://example.org/home/page/")
