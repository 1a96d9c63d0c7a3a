"""A mistake on the command line is answered in a sentence that helps: `mistakes.toml` has them."""

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
    said = done.stderr.splitlines()[-1]  # a long command says before what it does
    assert said.startswith("framebench: ")
    assert mistake["message"] in said
