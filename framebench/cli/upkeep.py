"""Commands that keep the suite in order: `setup`, and `dev`, to which other folders add."""

from __future__ import annotations

from typing import Annotated

import typer

from framebench.cli.shared import UPKEEP, app, echo, say
from framebench.engine import environments
from framebench.records.pins import find_pinned_version
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.profiles import list_profile_cases
from framebench.suite.selectors import select

KERNELS_HELP = (
    "Cases whose kernels Jittor compiles ahead, such as transformer/jittor/train. Default: those "
    "of the profile $FRAMEBENCH_PROFILE, or quick."
)
dev = typer.Typer(no_args_is_help=True, help="For changes of the suite: references, error rates.")
app.add_typer(dev, name="dev", rich_help_panel=UPKEEP)


@app.command(rich_help_panel=UPKEEP)
def setup(
    frameworks: Annotated[list[str] | None, typer.Argument()] = None,
    kernels: Annotated[list[str] | None, typer.Option(metavar="CASES", help=KERNELS_HELP)] = None,
) -> None:
    """Build the frameworks' environments now. Otherwise they are built when first needed."""
    cases = list_profile_cases()
    if kernels:
        cases = []
        for selector in kernels:
            cases += select(selector)
    for framework in frameworks or ():
        # refuses a wrong name before minutes are spent on the others
        find_pinned_version(framework)
    for framework in frameworks or FRAMEWORKS:
        environment = environments.ensure(framework, say=say)
        environments.warm(environment, cases, say)
        echo(f"{environment.name}: {environment.python}")
