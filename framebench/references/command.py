"""Command that makes float64 references: `dev golden`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
        typer.Option(help="Allow values that torch or JAX alone has. Records then say so."),
    ] = False,
) -> None:
    """Compute float64 reference values by torch, confirm them by JAX, and write golden.json.

    For those who change a model.
    """
    from framebench.models.spec import list_workloads, load_workload
    from framebench.references import golden as references

    chosen = [load_workload(name) for name in workloads or list_workloads()]
    makers = {workload.name: select_makers(workload, unconfirmed) for workload in chosen}
    for workload in chosen:
        name = workload.name
        existing_keys = tuple(workload.golden) if missing else ()
        by_framework = {}
        for framework in makers[name]:
            environment = environments.ensure(framework, say=say)
            by_framework[framework] = references.compute_references(
                name, environment, workload.referenced, existing_keys
            )
        if not any(by_framework.values()):
            echo(f"{name}: no key is without values")
            continue
        try:
            path = references.write_references(name, by_framework, existing_keys, unconfirmed)
        except ValueError as error:
            fail(str(error), 1)
        echo(f"{path}: {describe_written(by_framework)}")


def describe_written(keys_by_framework: Mapping[str, Collection[str]]) -> str:
    """Return how many keys have values now, and which ones no second framework confirms."""
    made, *others = map(set, keys_by_framework.values())
    if not others:
        (framework,) = keys_by_framework
        return f"{len(made)} keys, by {TITLES[framework]} alone, confirmed by no other framework"
    (confirming,) = others
    alone = sorted(made ^ confirming)
    confirmed = f"{len(made & confirming)} keys, confirmed by the other framework"
    return f"{confirmed}; by one framework alone: {', '.join(alone)}" if alone else confirmed


def select_makers(workload: Workload, unconfirmed: bool) -> list[str]:
    """Return the frameworks that compute a workload's references.

    Ends the command if there is only one, and that is not allowed.
    """
    from framebench.references.golden import MAKERS

    able = [framework for framework in MAKERS if framework in workload.frameworks]
    others = [framework for framework in MAKERS if framework not in able]
    lacking = " and ".join(map(workload.describe_file, others))
    if not able:
        fail(f"{workload.name}: references are made by PyTorch or JAX; write {lacking}", 1)
    if others and not unconfirmed:
        fail(
            f"{workload.name}: references are written if PyTorch and JAX agree, and it is written "
            f"for {TITLES[able[0]]} alone: "
            f"write {lacking}, or take the values of one framework with --unconfirmed, which "
            "every record then says",
            1,
        )
    return able
