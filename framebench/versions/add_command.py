"""The command that pins a release of a framework: `versions add`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from framebench.cli.shared import fail, say
from framebench.records.pins import find_pinned_versions
from framebench.records.provenance import CHECKOUT
from framebench.versions.command import versions_app


@versions_app.command()
def add(
    release: Annotated[str, typer.Argument(help="Such as jax==0.9.1.")],
    released: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="The day of the release, for asv's history."),
    ] = None,
) -> None:
    """Pin a release of a framework, for `versions run` and asv's matrix.

    Writes requirements/versions/FRAMEWORK-VERSION.txt and a line of asv.versions.json. Installs
    nothing: the environment is built when it is first needed.
    """
    from framebench.engine import releases
    from framebench.versions import pin
    from framebench.versions.judge import UnknownVersion, parse_release

    if not CHECKOUT:
        fail(
            "releases are pinned in a checkout of the project, and this copy is an installed one", 2
        )
    try:
        framework, version = parse_release(release)
    except UnknownVersion as error:
        fail(str(error), 2)
    if version in find_pinned_versions(framework):
        fail(f"{release} is pinned already, in {find_pinned_versions(framework)[version].name}", 2)
    releases.check_listed(framework, version)
    packages = pin.resolve(framework, version)
    file = pin.write_pins(framework, version, packages)
    pin.write_matrix()
    if released is not None:
        pin.write_day(framework, version, released.date())
    say(f"requirements/versions/{file.name}: {len(packages)} packages")
    say(
        f"framebench versions run --framework {framework} measures it next to the other pinned "
        "releases"
    )
