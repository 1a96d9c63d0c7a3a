"""Command that makes float64 references: `dev golden`."""

from __future__ import annotations

from collections.abc import Collection
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
        frameworks = makers[name]
        existing_keys = tuple(workload.golden) if missing else ()
        by_framework = []
        for framework in frameworks:
            environment = environments.ensure(framework, say=say)
            by_framework.append(
                references.compute_references(name, environment, workload.referenced, existing_keys)
            )
        computed, *confirmed = by_framework
        if not any(by_framework):
            echo(f"{name}: no key is without values")
            continue
        try:
            if confirmed:
                path = references.write_confirmed(
                    name, computed, confirmed[0], existing_keys, unconfirmed
                )
                how = describe_written(computed.keys(), confirmed[0].keys())
            else:
                path = references.write_unconfirmed(name, frameworks[0], computed, existing_keys)
                alone = TITLES[frameworks[0]]
                how = f"{len(computed)} keys, by {alone} alone, confirmed by no other framework"
        except ValueError as error:
            fail(str(error), 1)
        echo(f"{path}: {how}")


def describe_written(computed: Collection[str], confirmed: Collection[str]) -> str:
    """Return how many keys both frameworks have values for, and which one alone has."""
    alone = sorted({*computed} ^ {*confirmed})
    parts = []
    if computed and confirmed:
        parts.append(f"{len({*computed} & {*confirmed})} keys, confirmed by the other framework")
    if alone:
        parts.append(f"by one framework alone: {', '.join(alone)}")
    return "; ".join(parts)


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
