"""Commands that keep the suite in order: `setup`, and `dev golden | honest`."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated

import typer

from framebench.cli.shared import HERE, app, fail, say
from framebench.engine import environments
from framebench.records.pins import pinned_version
from framebench.suite.profiles import profile_name
from framebench.suite.strategy import FRAMEWORKS

dev = typer.Typer(no_args_is_help=True, help="For those who change the suite: references, tolerances, how often it errs.")
app.add_typer(dev, name="dev", rich_help_panel=HERE)


@app.command(rich_help_panel=HERE)
def setup(frameworks: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Build the frameworks' environments now (they are built when first needed otherwise)."""
    for framework in frameworks or ():  # a wrong name is said before minutes are spent on the others
        pinned_version(framework)
    for framework in frameworks or FRAMEWORKS:
        environment = environments.ensure(framework, say=say)
        environments.warm(environment, profile_name(), say)
        typer.echo(f"{environment.name}: {environment.python}")


@dev.command()
def golden(
    workloads: Annotated[list[str] | None, typer.Argument()] = None,
    missing: Annotated[bool, typer.Option(help="only keys that have no values yet, as a new strategy's")] = False,
) -> None:
    """Compute float64 reference values by torch, confirm them by JAX, and write golden.json. For those who change a model."""
    from framebench.engine import golden as references
    from framebench.models.spec import NAMES, workload

    for name in workloads or ():
        workload(name)
    for name in workloads or NAMES:
        known = tuple(workload(name).golden) if missing else ()
        made, confirmed = (references.compute(name, environments.ensure(f), but=known) for f in ("torch", "jax"))
        if not made:
            typer.echo(f"{name}: no key is without values")
            continue
        try:
            path = references.write(name, made, confirmed, known)
        except ValueError as error:
            fail(str(error), 1)
        typer.echo(
            f"{path}: {len(made)} keys, the two frameworks differ by at most {references.difference(made, confirmed):.1e}"
        )


@dev.command()
def honest(
    workloads: Annotated[list[str] | None, typer.Argument()] = None,
    size: Annotated[list[str] | None, typer.Option(help="sizes that have float64 values; by default all")] = None,
    take_all: Annotated[bool, typer.Option(help="write although some cases are far worse off than others")] = False,
    missing: Annotated[bool, typer.Option(help="only what no machine has measured, as a new strategy's")] = False,
    only: Annotated[str, typer.Option(help="only these cases, a pattern such as '*/pipeline/*'")] = "*",
) -> None:
    """Measure how far honest computations are off on this machine: tolerances are a multiple of that. Writes honest.json; with
    --missing or --only beside what this machine has measured before."""
    from framebench.engine import golden as references
    from framebench.engine import rounding as errors
    from framebench.models.spec import NAMES, workload

    for name in workloads or NAMES:
        workload(name)
        found = errors.measure(
            name,
            size or references.SIZES,
            say,
            lambda case: fnmatchcase(case.id, only) and (not missing or errors.unknown(case)),
        )
        if not found:
            typer.echo(f"{name}: no such case" if only != "*" else f"{name}: no case's errors are unknown")
            continue
        for line in (strange := errors.outliers(found)):
            say(line)
        if strange and not take_all:
            fail(f"{name}: {len(strange)} errors are no rounding; nothing was written (--take-all writes them)", 1)
        typer.echo(f"{errors.write(name, found, missing or only != '*')}: {len(found)} cases")
