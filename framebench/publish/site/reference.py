"""Write the reference: everything in it is generated from the code."""

from __future__ import annotations

import typer
from typer.cli import get_docs_for_click
from typer.main import get_command

from framebench.analysis.reports import support
from framebench.cli.__main__ import COMMANDS, load_commands
from framebench.cli.shared import app
from framebench.devices.tables import frame as planned_frame
from framebench.devices.tables.table import tabulate_devices
from framebench.publish.site.guides import list_reference_guides
from framebench.publish.site.source import Page, SourceFolder
from framebench.publish.tables import tabulate_columns

# the public functions by module
API = {
    "framebench": ("load", "machines", "planned", "folder"),
    "framebench.devices": ("devices", "simulate", "plan"),
    "framebench.devices.pytest_plugin": ("gpu_memory",),
}


def write_reference(source: SourceFolder) -> str:
    """Write the pages and return the path of the first one."""
    columns = Page(source, "reference/columns", "Columns")
    columns.add_tables(tabulate_columns(), planned_frame.columns())
    strategies = Page(source, "reference/strategies", "Strategies in every framework")
    strategies.add_markdown(
        "*native*: the framework has it; *emulated*: written with its public parts; *always on*: "
        "it always works this way; *unsupported*: with the reason."
    )
    strategies.add_tables(*support.make_tables())
    devices = Page(source, "reference/devices", "Devices that cases are predicted for")
    devices.add_tables(tabulate_devices())
    page = Page(source, "reference/index", "Reference")
    page.add_contents(
        [
            write_commands(source),
            write_api(source),
            columns.save(),
            strategies.save(),
            devices.save(),
            *list_reference_guides(),
        ]
    )
    return page.save()


def write_commands(source: SourceFolder) -> str:
    """Write every command with its options, as typer describes them, and return the page's path."""
    path = "reference/commands"
    for command in COMMANDS:
        load_commands([command])
    group = get_command(app)
    docs = get_docs_for_click(
        obj=group,
        ctx=typer.Context(group),
        name="framebench",
        title="Every command and option",
    )
    source.write(f"{path}.md", docs)
    return path


def write_api(source: SourceFolder) -> str:
    """Write the public functions with their docstrings, and return the page's path."""
    page = Page(source, "reference/api", "Python")
    for module, names in API.items():
        page.add_heading(module)
        directives = "\n".join(f".. autofunction:: {module}.{name}" for name in names)
        page.add_markdown(f"```{{eval-rst}}\n{directives}\n```")
    return page.save()
