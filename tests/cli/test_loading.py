"""Commands are imported when they are asked for."""

from __future__ import annotations

import subprocess
import sys

import typer
from typer.main import get_command

from framebench.cli.__main__ import COMMANDS, join_help_lines
from framebench.cli.shared import app
from tests.processes import ROOT


def test_each_command_is_added_by_the_module_that_the_table_names() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert commands.keys() == COMMANDS.keys()
    for name, command in commands.items():
        if command.callback:  # a group of commands has none
            assert command.callback.__module__ == COMMANDS[name][0]


def test_the_lines_of_a_helps_paragraph_are_joined() -> None:
    app = typer.Typer()

    @app.callback()
    def group() -> None:
        """A sentence that the source
        breaks.
        """

    @app.command()
    def subcommand() -> None:
        """Return another one, which
        it breaks too.

        - a list
        - stays
        """

    commands = get_command(app)
    join_help_lines(commands)

    assert commands.help == "A sentence that the source breaks."
    listed = commands.commands["subcommand"].help  # type: ignore[attr-defined]
    assert listed == "Return another one, which it breaks too.\n\n- a list\n- stays"


def test_the_help_imports_no_library_that_takes_long() -> None:
    program = (
        "import sys; from framebench.cli.__main__ import load_commands; load_commands([]); "
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert {"pandas", "matplotlib", "scipy", "jinja2"}.isdisjoint(done.stdout.split())


def test_a_claim_is_answered_without_data_frames() -> None:
    program = (
        "import sys; from framebench.analysis.results import Results; "
        "from framebench.claims import show; from framebench.claims.ledger import ledger; "
        "entries = ledger(Results(sample_records.RESULTS), sample_records.MACHINE, ids=['B1']); "
        "show.make_table(entries).markdown(); print('pandas' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"from tests import sample_records; {program}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert done.stdout.split() == ["False"]
