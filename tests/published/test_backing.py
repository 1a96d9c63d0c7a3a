"""Test what the committed records have, and README's table of workloads against the
specifications.
"""

from __future__ import annotations

import re

import pytest

from framebench.publish.sentences.backing import read_lost_commits
from tests.processes import ROOT
from tests.published.committed_files import list_tracked
from tests.repositories import run_git


def list_named_commits() -> set[str]:
    """Return each full hash that a file below results/ gives as a commit; records that are
    compressed have none.
    """
    files = [file for file in list_tracked("results") if file.endswith((".json", ".jsonl"))]
    found = set()
    for file in files:
        found |= set(re.findall(r'"commit": ?"([0-9a-f]{40})"', (ROOT / file).read_text()))
    return found


@pytest.fixture
def whole_history() -> None:
    """Skip where commits are missing."""
    if run_git(ROOT, "rev-parse", "--is-shallow-repository") == "true":
        pytest.skip("a shallow clone lacks commits that the repository has")


@pytest.mark.usefixtures("whole_history")
def test_the_list_of_lost_commits_is_exact():
    known = run_git(ROOT, "rev-list", "HEAD").split()
    assert read_lost_commits(ROOT / "results") == list_named_commits() - set(known)


@pytest.mark.usefixtures("whole_history")
def test_no_line_of_a_measurement_was_ever_changed_or_deleted():
    """An edited number would change verdicts, and nothing in its record tells it."""
    files = ("results/records/*.jsonl", "results/claims/*.jsonl")
    committed = run_git(ROOT, "log", "--format=", "--numstat", "HEAD", "--", *files)
    uncommitted = run_git(ROOT, "diff", "--numstat", "HEAD", "--", *files)
    changes = [line.split("\t") for line in f"{committed}\n{uncommitted}".splitlines() if line]
    assert changes
    assert [change for change in changes if change[1] != "0"] == []
