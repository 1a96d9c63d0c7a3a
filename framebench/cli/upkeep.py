"""Commands that keep the suite in order: `setup`, and `dev`, to which other folders add."""

from __future__ import annotations

from typing import Annotated

import typer

from framebench.cli.shared import UPKEEP, app, echo, say
from framebench.engine import environments
from framebench.records.pins import find_pinned_version
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.profiles import read_profile_name

dev = typer.Typer(no_args_is_help=True, help="For changes of the suite: references, error rates.")
app.add_typer(dev, name="dev", rich_help_panel=UPKEEP)


@app.command(rich_help_panel=UPKEEP)
def setup(frameworks: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Build the frameworks' environments now. Otherwise they are built when first needed."""
    for framework in frameworks or ():
        # refuses a wrong name before minutes are spent on the others
        find_pinned_version(framework)
    for framework in frameworks or FRAMEWORKS:
        environment = environments.ensure(framework, say=say)
        environments.warm(environment, read_profile_name(), say)
        echo(f"{environment.name}: {environment.python}")
