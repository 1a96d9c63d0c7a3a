"""The command that measures the suite itself: `dev study`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from framebench.cli.shared import err, fail, say, session
from framebench.cli.upkeep import dev
from framebench.engine import environments, runner
from framebench.engine.blocks import Run, measure
from framebench.engine.progress import CaseProgress
from framebench.features.study import measure as plan
from framebench.suite.case import DEFAULT_SIZE
from framebench.suite.strategy import FRAMEWORKS

QUIET, LOADED = "quiet", "loaded"
PARTS = TIME, MEMORY = "time", "memory"


@dev.command()
def study(
    condition: Annotated[str, typer.Argument(help="`quiet`, or `loaded`: beside one busy process per core.")],
    framework: Annotated[list[str] | None, typer.Option(help="May be repeated. Default: all.")] = None,
    size: Annotated[str, typer.Option(help="Size of the long steps: tiny, cpu or full.")] = DEFAULT_SIZE,
    blocks: Annotated[int, typer.Option(min=1, help="Number of blocks.")] = plan.BLOCKS,
    part: Annotated[str | None, typer.Option(help="`time` or `memory`. Default: both in turn.")] = None,
    results: Annotated[Path | None, typer.Option(help="Folder of the records, which no table shows.")] = None,
) -> None:
    """Measure comparisons whose answer is known, for docs/study.md. An interrupted study goes on where it stopped."""
    if condition not in (QUIET, LOADED):
        fail(f"{condition!r} is no condition of the study; choose {QUIET} or {LOADED}", 2)
    if part not in (None, *PARTS):
        fail(f"{part!r} is no part of the study; choose {' or '.join(PARTS)}, or leave it out for both", 2)
    chosen_cases = [c for c in plan.cases(size) if not runner.unsupported(c) and c.framework in (framework or FRAMEWORKS)]
    where = results or Path(f".study-{condition}")
    where.mkdir(parents=True, exist_ok=True)
    with session(where, " ".join(["study", condition, size, str(blocks), *filter(None, (part, *(framework or ())))])) as opened:
        ready = {name: environments.ensure(name, say=say) for name in dict.fromkeys(c.framework for c in chosen_cases)}
        with (
            plan.busy(len(os.sched_getaffinity(0)) if condition == LOADED else 0),
            CaseProgress(chosen_cases, where, err, blocks * (plan.EQUAL + len(plan.SPINS))) as progress,
            Run(opened.id, runner.Options(memory=False), where, progress) as run,
        ):
            if part != MEMORY:
                measure(plan.timed(chosen_cases, ready), run, blocks)
            run.options = runner.Options(rounds=1)  # of these only the memory matters
            larger = [c for c in plan.larger_cases(size) if c.framework in ready and not runner.unsupported(c)]
            if part != TIME:
                measure(plan.held(larger, ready), run)
    say(f"keep the records: python -m framebench.features.study.study {condition} {where}; judge them: make report")
