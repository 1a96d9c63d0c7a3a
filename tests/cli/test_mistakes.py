"""A mistake on the command line is answered in a sentence that helps: `mistakes.toml` lists
mistakes and answers.
"""

import shlex
import tomllib
from operator import itemgetter
from pathlib import Path

import pytest

from tests.processes import framebench
from tests.sample_records import IN_HERE

MISTAKES = tomllib.loads(Path(__file__).with_name("mistakes.toml").read_text())["mistake"]


@pytest.mark.parametrize("mistake", MISTAKES, ids=itemgetter("command"))
def test_a_mistake_is_answered_with_what_helps(mistake, tmp_path):
    command = mistake["command"].format(sample=" ".join(IN_HERE), empty=tmp_path)
    done = framebench(*shlex.split(command))
    assert done.returncode == mistake.get("code", 2), done.stderr
    answer = done.stderr.splitlines()[-1]  # a long command prints before what it does
    assert answer.startswith("framebench: ")
    assert mistake["message"] in answer


@pytest.mark.parametrize(
    ("command", "is_part_of_a_case"),
    [
        ("advise transformer --batch 8", True),
        ("explain x --size tiny", True),
        ("show --strategy fp32", True),
        ("run --btch 8", False),
    ],
)
def test_an_option_that_the_command_lacks_gets_no_suggestion(command, is_part_of_a_case):
    """By shared letters alone, --machine would be suggested for --batch. An option that is a part
    of a case shows how a case is written.
    """
    done = framebench(*shlex.split(command), code=2)
    assert "did you mean" not in done.stderr
    assert "possible options" not in done.stderr.lower()  # as click suggests
    if is_part_of_a_case:
        assert "workload/framework/scenario/strategy/batch/size" in done.stderr
