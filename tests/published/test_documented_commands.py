"""Commands that documents print are ones that the command line takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile

import pytest
import typer

from framebench.cli.shared import app
from tests.processes import ROOT

DOCUMENTS = ["README.md", "CONTRIBUTING.md", *map(str, sorted((ROOT / "docs").glob("*.md")))]
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"(?:^|[\s/])framebench ([a-z].*)$", re.MULTILINE)
ENDS = {"&&", ">", "<", "|"}


def find_commands(text: str) -> Iterator[list[str]]:
    """Yield the arguments of each `framebench` in a block of code."""
    for block in BLOCK.findall(text):
        for line in COMMAND.findall(block):
            words = shlex.split(line.replace("$(uname -n)", "lab"), comments=True)
            yield list(takewhile(lambda word: word not in ENDS, words))


def parse_command(arguments: list[str]) -> str:
    """Parse arguments as the command line does; return what it says of a wrong one."""
    command = typer.main.get_command(app)  # typer does not say what its groups are
    name, context = "framebench", None
    try:
        while hasattr(command, "commands"):
            context = command.make_context(name, list(arguments), parent=context)
            name, *arguments = arguments
            command = command.commands[name]
        command.make_context(name, arguments, parent=context)
    except KeyError as error:
        return f"no command {error}"
    except Exception as error:  # the reader's own files and folders are not here
        return "" if "does not exist" in str(error) else f"{type(error).__name__} {error}"
    return ""


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_of_a_document_is_one(document):
    for arguments in find_commands((ROOT / document).read_text()):
        assert parse_command(arguments) == "", arguments


def test_a_wrong_command_would_be_found():
    assert "NoSuchOption" in parse_command(["advise", "--nonsense"])
    assert "no command" in parse_command(["advice"])
    (arguments,) = find_commands("```\nframebench try 'a b.py' --rounds 0 > out  # why\n```\n")
    assert arguments == ["try", "a b.py", "--rounds", "0"]
