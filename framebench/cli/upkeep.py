"""Commands that keep the suite in order: `setup | doctor`, and `dev golden | honest | overhead | study`."""

from __future__ import annotations

import json
import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer

from framebench.cli.shared import HERE, AsJson, Results, app, err, fail, measuring, out, say, session
from framebench.engine import environments, runner
from framebench.engine.blocks import Run, measure
from framebench.engine.progress import CaseProgress
from framebench.features.study import measure as plan
from framebench.models.spec import Workload
from framebench.records.pins import pinned_version
from framebench.records.provenance import ROOT
from framebench.suite.case import DEFAULT_SIZE
from framebench.suite.profiles import profile_name
from framebench.suite.strategy import FRAMEWORKS, TITLES

QUIET, LOADED = "quiet", "loaded"
PARTS = TIME, MEMORY = "time", "memory"
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


@app.command(rich_help_panel=HERE)
def doctor(
    as_json: AsJson = False,
    results: Results = runner.RESULTS,
    calibrate: Annotated[bool, typer.Option(help="measure known sizes and lengths too, about a minute")] = True,
    env: Annotated[str | None, typer.Option(help="`installed`, or the path of a python; else the pinned environments")] = None,
) -> None:
    """What this machine has and lacks, and how wrong its measurements may be. Later records carry the result."""
    from framebench.features.doctor import measure as examine

    findings = examine.findings(env)
    if calibrate:
        with measuring(results):
            measured = examine.calibration(say=say, env=env)
            examine.save(measured, results)
        findings += measured
    if as_json:
        typer.echo(json.dumps([f._asdict() for f in findings], indent=1))
    else:
        for finding in findings:
            out.print(f"{'ok ' if finding.passed else 'NO '} {finding.check}: {finding.detail}", markup=False, highlight=False)
    raise typer.Exit(0 if all(f.passed or f.optional for f in findings) else 1)


@dev.command()
def golden(
    workloads: Annotated[list[str] | None, typer.Argument()] = None,
    missing: Annotated[bool, typer.Option(help="only keys that have no values yet, as a new strategy's")] = False,
    unconfirmed: Annotated[
        bool, typer.Option(help="also of a workload that is written for torch or JAX alone; records then say so")
    ] = False,
) -> None:
    """Compute float64 reference values by torch, confirm them by JAX, and write golden.json. For those who change a model."""
    from framebench.engine import golden as references
    from framebench.models.spec import names, workload

    makers = {name: makers_of(workload(name), unconfirmed) for name in workloads or names()}
    for name, frameworks in makers.items():
        known = tuple(workload(name).golden) if missing else ()
        made, *confirmed = (references.compute(name, environments.ensure(f, say=say), but=known) for f in frameworks)
        if not made:
            typer.echo(f"{name}: no key is without values")
            continue
        try:
            if confirmed:
                path = references.write(name, made, confirmed[0], known)
                by = f"the two frameworks differ by at most {references.difference(made, confirmed[0]):.1e}"
            else:
                path = references.write_unconfirmed(name, frameworks[0], made, known)
                by = f"by {TITLES[frameworks[0]]} alone, confirmed by no other framework"
        except ValueError as error:
            fail(str(error), 1)
        typer.echo(f"{path}: {len(made)} keys, {by}")


def makers_of(workload: Workload, unconfirmed: bool) -> list[str]:
    """The frameworks that compute its references. Ends the command where one alone may not."""
    from framebench.engine.golden import MAKERS

    able = [framework for framework in MAKERS if framework in workload.frameworks]
    lacking = " and ".join(workload.file(framework) for framework in MAKERS if framework not in able)
    if not able:
        fail(f"{workload.name}: references are made by PyTorch or JAX; write {lacking}", 1)
    if len(able) < len(MAKERS) and not unconfirmed:
        fail(
            f"{workload.name}: references are written if PyTorch and JAX agree, and it is written for {TITLES[able[0]]} alone: "
            f"write {lacking}, or take the values of one framework with --unconfirmed, which every record then says",
            1,
        )
    return able


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
    from framebench.engine import rounding as errors
    from framebench.models.spec import names, workload

    for name in workloads or names():
        if not workload(name).golden:
            typer.echo(f"{name}: no reference values to be off from; make them first: framebench dev golden {name}")
            continue
        found = errors.measure(
            name,
            size or workload(name).referenced,
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


@dev.command()
def overhead(
    rounds: Annotated[int, typer.Option(min=5, help="steps of each arm")] = 30, results: Results = runner.RESULTS
) -> None:
    """The harness's step against a hand-written loop, alternating in one process: the ratio of the medians, as JSON."""
    with measuring(results):
        environment = environments.ensure("torch", say=say)
        typer.echo(environments.run_module(environment, "framebench.features.study.overhead", str(rounds), OMP_NUM_THREADS="1"))


@dev.command()
def study(
    condition: Annotated[str, typer.Argument(help="quiet, or loaded: beside as many busy processes as there are cores")],
    framework: Annotated[list[str] | None, typer.Option(help="may be repeated; all of them if none is named")] = None,
    size: Annotated[str, typer.Option(help="of the long steps: tiny, cpu or full")] = DEFAULT_SIZE,
    blocks: Annotated[int, typer.Option(min=1, help="fresh processes of each arm, so often")] = plan.BLOCKS,
    part: Annotated[str | None, typer.Option(help="time or memory; both, one after the other, if none is named")] = None,
    results: Annotated[Path | None, typer.Option(help="where the records go, which no table shows")] = None,
) -> None:
    """Measure comparisons whose answer is known, for docs/study.md. An interrupted study goes on where it stopped."""
    if condition not in (QUIET, LOADED):
        fail(f"{condition!r} is no condition of the study; choose {QUIET} or {LOADED}", 2)
    if part not in (None, *PARTS):
        fail(f"{part!r} is no part of the study; choose {' or '.join(PARTS)}, or leave it out for both", 2)
    found = [c for c in plan.cases(size) if not runner.unsupported(c) and c.framework in (framework or FRAMEWORKS)]
    where = results or ROOT / f".study-{condition}"
    where.mkdir(parents=True, exist_ok=True)
    with session(where, " ".join(["study", condition, size, str(blocks), *filter(None, (part, *(framework or ())))])) as opened:
        ready = {name: environments.ensure(name, say=say) for name in dict.fromkeys(c.framework for c in found)}
        with (
            plan.busy(len(os.sched_getaffinity(0)) if condition == LOADED else 0),
            CaseProgress(found, where, err, blocks * (plan.EQUAL + len(plan.SPINS))) as progress,
            Run(opened.id, runner.Options(memory=False), where, progress) as run,
        ):
            if part != MEMORY:
                measure(plan.timed(found, ready), run, blocks)
            run.options = runner.Options(rounds=1)  # of these only the memory matters
            larger = [c for c in plan.larger_cases(size) if c.framework in ready and not runner.unsupported(c)]
            if part != TIME:
                measure(plan.held(larger, ready), run)
    say(f"keep the records: python -m framebench.features.study.study {condition} {where}; judge them: make report")
