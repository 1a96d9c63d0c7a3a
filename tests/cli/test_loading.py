"""Commands are imported when they are asked for."""

from __future__ import annotations

import sys

import pytest
import typer
from typer.main import get_command

from framebench.cli.__main__ import COMMANDS, join_help_lines
from framebench.cli.shared import app
from tests.processes import run_process


def test_each_command_is_added_by_the_module_that_the_table_names():
    commands = get_command(app).commands
    assert commands.keys() == COMMANDS.keys()
    for name, command in commands.items():
        if command.callback:  # a group of commands has none
            assert command.callback.__module__ == COMMANDS[name][0]


def test_the_lines_of_a_helps_paragraph_are_joined():
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
    listed = commands.commands["subcommand"].help
    assert listed == "Return another one, which it breaks too.\n\n- a list\n- stays"


LOAD_NO_COMMAND = "from framebench.cli.__main__ import load_commands; load_commands([])"
ANSWER_A_CLAIM = """
from framebench.analysis.results import Results
from framebench.claims import show
from framebench.claims.ledger import make_ledger
from tests.sample_records import MACHINE, RESULTS

entries = make_ledger(Results(RESULTS), MACHINE, ids=["B1"])
show.make_table(entries).markdown()
"""
ADVISE = """
from framebench.cli.__main__ import load_commands
from framebench.cli.shared import app
from tests.sample_records import IN_HERE

load_commands(["advise"])
app(["advise", "--budget", "8GiB", *IN_HERE], standalone_mode=False)
"""
LOAD_A_TABLE = """
import framebench
from tests.sample_records import MACHINE, RESULTS

assert len(framebench.load(RESULTS, MACHINE)) > 10
"""
IMPORT_JUDGE = "import framebench.versions.judge"


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        pytest.param(
            "import framebench; framebench.load",
            {"numpy", "pandas", "scipy", "pydantic", "framebench.analysis"},
            id="import",
        ),
        pytest.param(LOAD_A_TABLE, {"scipy.stats", "seaborn", "matplotlib", "jinja2"}, id="load"),
        pytest.param(IMPORT_JUDGE, {"scipy", "seaborn", "matplotlib"}, id="versions"),
        pytest.param(LOAD_NO_COMMAND, {"pandas", "matplotlib", "scipy", "jinja2"}, id="help"),
        pytest.param("import framebench.analysis", {"pandas", "numpy", "pydantic"}, id="analysis"),
        pytest.param(ANSWER_A_CLAIM, {"pandas"}, id="claims"),
        pytest.param(ADVISE, {"seaborn", "matplotlib", "scipy.stats"}, id="advise"),
    ],
)
def test_a_program_waits_for_no_heavy_import(program, heavy):
    """Libraries that draw or test take longer to import than these answers take."""
    code = f"{program}\nimport sys\nprint(*sys.modules, file=sys.stderr)"
    done = run_process([sys.executable, "-c", code])
    imported = set(done.stderr.split())
    assert "framebench" in imported
    assert imported & heavy == set()
