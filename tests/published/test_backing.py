"""Test what the committed records have, and README's table of workloads against the
specifications.
"""

from __future__ import annotations

import re
import subprocess

import pytest

from framebench.publish.readme.backing import read_lost_commits
from tests.processes import ROOT
from tests.published.committed_files import tracked


def commits_named_by_results() -> set[str]:
    """Return each full hash that a file below results/ gives as a commit; records that are
    compressed have none.
    """
    files = [file for file in tracked("results") if file.endswith((".json", ".jsonl"))]
    found: set[str] = set()
    for file in files:
        found |= set(re.findall(r'"commit": ?"([0-9a-f]{40})"', (ROOT / file).read_text()))
    return found


def test_the_list_of_lost_commits_has_each_commit_that_git_lacks_and_no_other() -> None:
    shallow = subprocess.run(
        ["git", "rev-parse", "--is-shallow-repository"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    if shallow.stdout.strip() == "true":
        pytest.skip("a shallow clone lacks commits that the repository has")
    known = subprocess.run(
        ["git", "rev-list", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert read_lost_commits(ROOT / "results") == commits_named_by_results() - set(
        known.stdout.split()
    )
