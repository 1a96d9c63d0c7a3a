"""Test that the workflows of the repository ask for no secret and run pinned actions alone."""

import re
from operator import attrgetter

import pytest
import yaml

from tests.processes import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PINNED = re.compile(r"uses: [\w/-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")


@pytest.mark.parametrize("file", WORKFLOWS, ids=attrgetter("name"))
def test_a_workflow_only_reads_the_repository_and_uses_no_secret(file):
    text = file.read_text()
    assert yaml.safe_load(text)["permissions"]["contents"] == "read"
    assert "secrets." not in text


@pytest.mark.parametrize("file", WORKFLOWS, ids=attrgetter("name"))
def test_an_action_is_pinned_by_the_hash_of_its_commit(file):
    actions = [line for line in file.read_text().splitlines() if "uses:" in line]
    assert actions
    for line in actions:
        assert PINNED.search(line), line
