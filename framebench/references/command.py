"""Command that makes float64 references: `dev golden`."""

from __future__ import annotations

from typing import Annotated

import typer

from framebench.cli.shared import echo, fail, say
from framebench.cli.upkeep import dev
from framebench.engine import environments
from framebench.models.spec import Workload
from framebench.strategies.strategy import TITLES


@dev.command()
def golden(
    workloads: Annotated[list[str] | None, typer.Argument()] = None,
    missing: Annotated[
        bool, typer.Option(help="Only keys without values, such as a new strategy's.")
    ] = False,
    unconfirmed: Annotated[
        bool,
        typer.Option(help="Allow a workload written for torch or JAX alone. Records then say so."),
    ] = False,
) -> None:
    """Compute float64 reference values by torch, confirm them by JAX, and write golden.json.

    For those who change a model.
    """
    from framebench.models.spec import list_workloads, load_workload
    from framebench.references import golden as references

    makers = {
        name: select_makers(load_workload(name), unconfirmed)
        for name in workloads or list_workloads()
    }
    for name, frameworks in makers.items():
        existing_keys = tuple(load_workload(name).golden) if missing else ()
        by_framework = []
        for framework in frameworks:
            environment = environments.ensure(framework, say=say)
            by_framework.append(
                references.compute_references(name, environment, excluded_keys=existing_keys)
            )
        computed = by_framework[0]
        if not computed:
            echo(f"{name}: no key is without values")
            continue
        try:
            if len(by_framework) > 1:
                confirmed = by_framework[1]
                path = references.write_confirmed(name, computed, confirmed, existing_keys)
                difference = references.measure_difference(computed, confirmed)
                how = f"the two frameworks differ by at most {difference:.1e}"
            else:
                path = references.write_unconfirmed(name, frameworks[0], computed, existing_keys)
                how = f"by {TITLES[frameworks[0]]} alone, confirmed by no other framework"
        except ValueError as error:
            fail(str(error), 1)
        echo(f"{path}: {len(computed)} keys, {how}")


def select_makers(workload: Workload, unconfirmed: bool) -> list[str]:
    """Return the frameworks that compute a workload's references.

    Ends the command where one alone may not.
    """
    from framebench.references.golden import MAKERS

    able = [framework for framework in MAKERS if framework in workload.frameworks]
    lacking = " and ".join(
        workload.describe_file(framework) for framework in MAKERS if framework not in able
    )
    if not able:
        fail(f"{workload.name}: references are made by PyTorch or JAX; write {lacking}", 1)
    if len(able) < len(MAKERS) and not unconfirmed:
        fail(
            f"{workload.name}: references are written if PyTorch and JAX agree, and it is written "
            f"for {TITLES[able[0]]} alone: "
            f"write {lacking}, or take the values of one framework with --unconfirmed, which "
            "every record then says",
            1,
        )
    return able
