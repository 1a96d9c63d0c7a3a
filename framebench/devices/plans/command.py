"""`framebench dev publish`: the user's own predictions become published ones."""

from __future__ import annotations

from typing import Annotated

import typer

from framebench.cli.shared import ResultsOption, say
from framebench.cli.upkeep import dev
from framebench.devices.catalog import find
from framebench.devices.plans import store
from framebench.devices.plans.planned import Planned
from framebench.devices.tables.table import is_known_and_reusable
from framebench.engine import runner
from framebench.models import spec
from framebench.suite.case import Case


@dev.command()
def publish(
    device: Annotated[
        list[str] | None, typer.Argument(help="whose predictions; by default all")
    ] = None,
    results: ResultsOption = runner.RESULTS,
) -> None:
    """Move predictions of results/own/planned to results/planned, which git tracks: answers of
    these sources, of the suite's cases that the framework has.
    """
    names = {find(name).name for name in device or ()}

    def is_chosen(planned: Planned) -> bool:
        case = Case.from_id(planned.case)
        is_of_suite = case.workload != spec.USER_MODEL and case.support.supported
        is_wanted = not names or planned.device in names
        return is_of_suite and is_wanted and is_known_and_reusable(planned)

    moved = store.publish(results, is_chosen, say)
    say(f"{len(moved)} predictions moved to {results / store.FOLDER}")
