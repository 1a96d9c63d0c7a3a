"""What `asv run` is refused before it measures: other commits than HEAD, and other Pythons."""

import pytest
from asv.util import UserError

from framebench.asv import run
from framebench.records import provenance


@pytest.mark.parametrize(
    ("check", "commit"),
    [(run.check_commits, "HEAD~"), (run.check_commits, "NEW"), (run.check_stored_commit, "HEAD~")],
)
def test_a_commit_other_than_head_is_refused(check, commit):
    """What runs is the working tree: nothing of another commit must be stored under its name."""
    with pytest.raises(UserError) as raised:
        check(commit)
    assert "check each commit out, type asv run there, then asv compare" in str(raised.value)


@pytest.mark.parametrize("requested", [None, "HEAD", "HEAD^!"])
def test_a_range_that_is_head_alone_is_taken(requested):
    run.check_commits(requested)
    run.check_stored_commit(provenance.find_commit())


@pytest.mark.parametrize("environment", ["existing:same", "virtualenv:same"])
def test_a_python_in_place_of_an_environment_is_refused(environment):
    with pytest.raises(UserError) as raised:
        run.check_environments([environment])
    assert "leave out --python and -E existing" in str(raised.value)
