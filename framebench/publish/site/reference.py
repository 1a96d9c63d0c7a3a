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
from framebench.publish.tables import describe_columns

# the public functions by module
API = {
    "framebench": ("load", "machines", "planned", "folder"),
    "framebench.devices": ("devices", "simulate", "plan"),
    "framebench.devices.pytest_plugin": ("gpu_memory",),
}


def write_reference(source: SourceFolder) -> str:
    """Write the pages and return the path of the first one."""
    page = Page(source, "reference/index", "Reference")
    page.add_contents(
        [
            write_commands(source),
            write_api(source),
            write_columns(source),
            write_strategies(source),
            write_devices(source),
            *list_reference_guides(),
        ]
    )
    return page.save()


def write_commands(source: SourceFolder) -> str:
    """Write every command with its arguments and options, as typer describes them."""
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
    """Write the public functions with their docstrings."""
    page = Page(source, "reference/api", "Python")
    for module, names in API.items():
        page.add_heading(module)
        directives = "\n".join(f".. autofunction:: {module}.{name}" for name in names)
        page.add_markdown(f"```{{eval-rst}}\n{directives}\n```")
    return page.save()


def write_columns(source: SourceFolder) -> str:
    """Write the columns of the DataFrames."""
    page = Page(source, "reference/columns", "Columns")
    page.add_tables([describe_columns(), planned_frame.columns()])
    return page.save()


def write_strategies(source: SourceFolder) -> str:
    """Write every strategy in every framework."""
    page = Page(source, "reference/strategies", "Strategies in every framework")
    page.add_markdown(
        "*native*: the framework has it; *emulated*: written with its public parts; *always on*: "
        "it always works this way; *unsupported*: with the reason."
    )
    page.add_tables(support.make_tables())
    return page.save()


def write_devices(source: SourceFolder) -> str:
    """Write the devices that cases are predicted for."""
    page = Page(source, "reference/devices", "Devices that cases are predicted for")
    page.add_table(tabulate_devices())
    return page.save()
