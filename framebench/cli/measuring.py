"""Commands that measure: `run | compare | max-batch | evaluate`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from framebench.cli.shared import (
    BUDGET,
    MEASURE,
    AsJson,
    Frameworks,
    Profile,
    Results,
    Rounds,
    Scenario,
    Selectors,
    Size,
    Workload,
    app,
    broken,
    chosen,
    err,
    fail,
    measuring,
    out,
    parse_bytes,
    parts,
    say,
    session,
    writable,
)
from framebench.engine import blocks as measured
from framebench.engine import compare, environments, installed, runner
from framebench.engine.environments import Environment, SetupError
from framebench.engine.groups import groups, pair
from framebench.engine.progress import CaseProgress
from framebench.engine.session import Session
from framebench.engine.timed_process import Arm
from framebench.features.cluster.units import Asked, units
from framebench.features.ranks import measure as ranks
from framebench.models import spec
from framebench.records import store
from framebench.suite import profiles, selectors
from framebench.suite.case import DEFAULT_SIZE, Case
from framebench.suite.strategy import FRAMEWORKS

if TYPE_CHECKING:
    from framebench.records.search import Fit

Env = Annotated[
    str | None,
    typer.Option(help="`installed`: this interpreter, as it is; or the path of a python; else the pinned environments"),
]

Blocks = Annotated[int, typer.Option(min=1, help="fresh processes of each case, so often: what is published takes 5 or more")]
Turns = Annotated[
    int, typer.Option(min=0, help="turns of each process in a block; of fewer than 3 times do not count, and 0 measures none")
]
Threads = Annotated[int, typer.Option(min=1, help="1 pins the timing worker to one core")]
TimeLimit = Annotated[float, typer.Option(min=0.01, help="seconds for each of a case's two workers")]
MemoryLimit = Annotated[str | None, typer.Option(help="private memory a worker may map, such as 2GiB")]


@app.command(rich_help_panel=MEASURE)
def run(
    selectors: Selectors = None,
    profile: Profile = None,
    results: Results = runner.RESULTS,
    blocks: Blocks = 1,
    rounds: Turns = runner.Options.rounds,
    threads: Threads = 1,
    time_limit: TimeLimit = 900.0,
    memory_limit: MemoryLimit = None,
    env: Env = None,
    block: Annotated[
        int | None, typer.Option(min=0, help="the block of this number alone, as `framebench plan` names it")
    ] = None,
    beside_torch: Annotated[
        bool, typer.Option("--beside-torch", help="PyTorch's baseline in each block, though no case of it is named")
    ] = False,
    on: Annotated[
        str | None, typer.Option(help="`slurm`: as jobs there, each block on a node of its own; else on this machine")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--slurm", metavar="NAME=VALUE", help="of sbatch, such as partition=cpu; time is in minutes"),
    ] = None,
) -> None:
    """Measure cases (the quick profile if none is named). An interrupted run goes on where it stopped."""
    wanted = asked(selectors, profile, blocks, rounds, threads, time_limit, memory_limit, env)
    if block is not None and blocks != 1:
        fail(f"--block {block} is one block, and --blocks {blocks} is several: leave one of them out", 2)
    if on not in (None, "slurm"):
        fail(f"--on {on!r} is no engine: choose slurm, or have any other start the commands of framebench plan --shell", 2)
    if settings and not on:
        fail(f"--slurm {settings[0]} is for jobs: add --on slurm, or leave it out", 2)
    if on and (block is not None or beside_torch):
        fail("--block and --beside-torch are for one unit on this machine, and --on slurm submits all: leave one out", 2)
    if on:
        raise typer.Exit(broken(measure_on_slurm(wanted, results.absolute(), settings or [])))
    raise typer.Exit(broken(measure_here(replace(wanted, block=block, beside_torch=beside_torch), results)))


def asked(
    selectors: list[str] | None, profile: str | None, blocks: int, rounds: int, threads: int, time_limit: float,
    memory_limit: str | None, env: str | None,
) -> Asked:  # fmt: skip
    """Raises typer.BadParameter."""
    profile = profile or (None if selectors else profiles.profile_name())
    options = runner.Options(
        profile=profile, threads=threads, rounds=rounds, time_limit_s=time_limit,
        memory_limit=parse_bytes(memory_limit) if memory_limit else None,
    )  # fmt: skip
    return Asked(tuple(selectors or ()), profile, options, env, blocks)


def measure_here(wanted: Asked, results: Path) -> list[str]:
    """Each case's status (`measure_all`)."""
    env, found = wanted.env, chosen(list(wanted.selectors), [], wanted.profile)
    with session(results, wanted.named, keep=wanted.block is not None) as opened:
        frameworks = [c.framework for c in found if env or not runner.unsupported(c)]
        beside = FRAMEWORKS[:1] if wanted.beside_torch and frameworks else ()
        ready = installed.ready([*frameworks, *beside], env, say)
        found = [c for c in found if not env or c.framework in ready]
        for environment in ready.values():
            environments.warm(environment, wanted.profile or "quick", say)
        return measure_all(found, opened, ready, wanted.options, results, wanted.blocks)


def measure_on_slurm(wanted: Asked, results: Path, settings: list[str]) -> list[str]:
    """The status of each record that was added, in the end, to the results folder. Those of machines lie below it all along."""
    from framebench.features.cluster import slurm
    from framebench.features.cluster.collect import NODES, collect

    if wrong := next((s for s in settings if not re.fullmatch(r"\w+=.+", s)), None):
        fail(f"--slurm {wrong!r} is no NAME=VALUE, such as partition=cpu", 2)
    given = {name: int(value) if value.isdigit() else value for name, value in (s.split("=", 1) for s in settings)}
    found = chosen(list(wanted.selectors), [], wanted.profile)
    every = units(wanted, found)
    writable(results / NODES).mkdir(parents=True, exist_ok=True)
    left = slurm.measure(every, slurm.Jobs(results, given, say), list(dict.fromkeys(c.framework for c in found)))
    added = collect([results], results)
    say(f"{len(every) - len(left)} of {len(every)} units are done, {len(added.added)} records were added to {results}")
    for sentence in (*added.conflicts, *added.unreadable, *(f"not done: {unit.named}" for unit in left)):
        say(sentence)
    return [*(store.read(path).status for path in added.added), *("crashed" for _ in (*left, *added.conflicts))]


def measure_all(
    found: list[Case],
    session: Session,
    ready: dict[str, Environment],
    options: runner.Options,
    results: Path,
    blocks: int = 1,
    pairs: Sequence[tuple[Case, Case]] = (),
) -> list[str]:
    """Each case's status, the worst of its blocks; what this session has measured already is not repeated. Cases of `pairs`,
    which are among those found, are measured in a block with the other one."""
    able = [case for case in found if not runner.unsupported(case)]
    paired = {case for pair in pairs for case in pair}
    where = {case: environments.of_case(case, ready.get(case.framework), say) for case in found}
    with (
        CaseProgress(found, results, err, blocks) as progress,
        measured.Run(session.id, options, results, progress) as run,
    ):
        for case in found:
            if case not in able:
                measured.not_measured(case, run, where[case])
        for case in able:
            if case.ranks > 1:
                ranks.measure(case, where[case], run)
        alone = groups([case for case in able if case not in paired and case.ranks == 1], ready)
        measured.measure([*alone, *(pair(*both, ready) for both in pairs if set(both) <= set(able))], run, blocks)
        records = {case: run.records(Arm(case, where[case])) for case in found}
    return [next((r.status for r in has if r.status != "ok"), "ok") for has in records.values()]


@app.command("compare", rich_help_panel=MEASURE)
def compare_(
    base: Annotated[str, typer.Argument(help="a full case id: what the other is compared with")],
    change: Annotated[str, typer.Argument(help="a full case id; the same as BASE shows the machine's noise")],
    blocks: Annotated[int, typer.Option(min=1, help="fresh processes of both, so often")] = compare.BLOCKS,
    rounds: Rounds = runner.Options.rounds,
    results: Results = runner.RESULTS,
    threads: Annotated[int, typer.Option(min=1, help="1 pins the timing workers to one core")] = 1,
    env: Env = None,
    as_json: AsJson = False,
) -> None:
    """Is CHANGE slower than BASE, or does it need more memory? Measured in turn; the records are kept.

    An interrupted comparison goes on where it stopped.
    """
    from framebench.analysis.blocks import Blocks as Known
    from framebench.analysis.reports import verdicts
    from framebench.analysis.results import Results as Folder

    pair = selectors.parse(base), selectors.parse(change)
    if over := next((case for case in pair if case.ranks > 1), None):
        fail(f"{over.id} is over ranks, which have no step times to compare: framebench run measures their memory", 2)
    for difference in compare.differences(*pair):
        say(f"note: the cases differ in {difference}")
    options = runner.Options(threads=threads, rounds=rounds, peaks_each_block=True)
    named = " ".join(["compare", base, change, f"{blocks} blocks", *([f"--env {env}"] if env else []), str(options)])
    with session(results, named) as opened:
        try:
            ready = installed.ready((c.framework for c in pair), env, say)
            if missing := {c.framework for c in pair} - ready.keys():
                raise compare.NotMeasured(f"{' and '.join(sorted(missing))} cannot be measured by --env {env}")
            with CaseProgress(list(dict.fromkeys(pair)), results, err, blocks) as progress:
                found = compare.measure(pair, blocks, opened.id, ready, options, results, progress)
        except compare.NotMeasured as error:
            opened.close(results)  # the next try is a new comparison
            fail(str(error), 1)
    arms = [r.base for r in found], [r.change for r in found]
    known = Known(Folder(results).of_machine(arms[0][0].provenance.machine))
    if as_json:
        typer.echo(json.dumps(verdicts.as_json(*arms, known)))
    else:
        verdicts.table(*arms, known).terminal(out)


@app.command("fit", hidden=True)
@app.command("max-batch", rich_help_panel=BUDGET)
def max_batch_(
    context: typer.Context,
    budget: Annotated[str, typer.Option(help="memory for tensors and workspaces, such as 1GiB")],
    asked: Annotated[
        str, typer.Argument(metavar="CASES", help="such as transformer/*/train/checkpoint; by default the baseline of training")
    ] = "",
    workload: Workload = None,
    scenario: Scenario = None,
    framework: Frameworks = None,
    strategy: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
    size: Size = None,
    max_batch: Annotated[int, typer.Option(min=1)] = 2**16,
    time_limit: Annotated[float, typer.Option(min=0.01, help="seconds for each probe")] = 900.0,
    results: Results = runner.RESULTS,
    again: Annotated[bool, typer.Option("--again", help="search anew, though this was answered before")] = False,
    env: Env = None,
    as_json: AsJson = False,
) -> None:
    """The largest batch that fits into a budget of memory, by framework and strategy, tried under an enforced limit.

    What this machine has found out before is answered at once.
    """
    from framebench.features.max_batch import measure as search
    from framebench.features.max_batch import table as searches

    if context.info_name == "fit":
        say("fit is called max-batch; both names work")
    given = parts(asked)
    if given.batch:
        fail(f"max-batch finds the batch: leave b{given.batch} out", 2)
    if not (workload := workload or given.workload):
        known = spec.names()
        fail(f"which workload? {', '.join(known)}: framebench max-batch '{known[-1]}/*/train' --budget {budget}", 2)
    frameworks = framework or ([given.framework] if given.framework else list(FRAMEWORKS))
    strategies = strategy or ([given.strategy] if given.strategy else [])
    named = workload, scenario or given.scenario or "train", frameworks, strategies, size or given.size or DEFAULT_SIZE
    room, options = parse_bytes(budget), runner.Options(time_limit_s=time_limit)
    found: list[Fit] = []
    for case in search.chosen(*named):
        one = None if again or env else search.known(case, room, environments.describe(case.framework), max_batch, results)
        if one:
            say(f"{case.id}: measured {one.provenance.measured_at:%Y-%m-%d %H:%M} UTC; --again measures anew")
        elif (one := searched(case, room, env, max_batch, options, results, bool(found))) is None:
            continue
        found.append(one)
        if not as_json:
            searches.table(found[-1]).terminal(out)
    if as_json:
        typer.echo(json.dumps([f.model_dump(mode="json") for f in found], indent=1))
    raise typer.Exit(any(f.status == "stopped" for f in found) or not found)


def searched(
    case: Case, room: int, env: str | None, max_batch: int, options: runner.Options, results: Path, before: bool
) -> Fit | None:
    """None if the framework's environment cannot be built, which is said. `before`: whether another case has its answer."""
    from framebench.features.max_batch.measure import find

    kept = "; what was found for the cases before is kept" if before else "; nothing was found yet"
    with measuring(results, lambda: kept), err.status(case.id) as status:
        try:
            environment = installed.ready([case.framework], env, say)[case.framework]
        except SetupError as error:
            say(f"{case.framework}: {error}")
            return None
        show_phase = lambda at, phase: status.update(f"{at.id}: {phase}")  # noqa: E731
        return find(case, room, environment, max_batch, options, results, show_phase)


@app.command(rich_help_panel=BUDGET)
def evaluate(
    budget: Annotated[str, typer.Option(help="memory for tensors and workspaces, such as 300MiB")],
    asked: Annotated[
        str, typer.Argument(metavar="CASE", help="such as transformer/torch/eval/no_grad/b64, whose batch is tried first")
    ] = "",
    samples: Annotated[int, typer.Option(min=1, help="that are evaluated in all")] = 64,
    workload: Workload = None,
    framework: Annotated[str | None, typer.Option(hidden=True)] = None,
    batch: Annotated[int | None, typer.Option(min=1, hidden=True)] = None,
    size: Size = None,
    time_limit: Annotated[float, typer.Option(min=0.01, help="seconds for each process")] = 900.0,
    results: Results = runner.RESULTS,
    as_json: AsJson = False,
) -> None:
    """Evaluate samples within a budget of memory: the batch is halved whenever it runs out, and no sample is lost."""
    from framebench.engine import oom_recovery

    given = parts(asked)
    if (given.scenario or "eval", given.strategy or "no_grad") != ("eval", "no_grad"):
        fail(f"evaluate does eval/no_grad alone, and not {asked}", 2)
    wanted = f"{workload or given.workload or '*'}/{framework or given.framework or '*'}/eval/no_grad/*"
    every = selectors.select(f"{wanted}/{size or given.size or DEFAULT_SIZE}")
    found_cases = {replace(c, batch=batch or given.batch or 64) for c in every}
    if len(found_cases) > 1:
        fail(f"one workload, framework and size are evaluated, not {len(found_cases)}; patterns name several", 2)
    (case,) = found_cases
    room, options = parse_bytes(budget), runner.Options(time_limit_s=time_limit)
    with measuring(results), err.status(case.id) as status:
        environment = environments.ensure(case.framework, say=say)
        run = oom_recovery.runner_of(environment, options, lambda phase: status.update(f"{case.id}: {phase}"))
        found = oom_recovery.evaluate(case, samples, room, run)
    if as_json:
        typer.echo(json.dumps({"case": case.id, "budget_bytes": room} | found.as_dict(), indent=1))
    else:
        for line in oom_recovery.in_words(found):
            out.print(line, markup=False, highlight=False, soft_wrap=True)
    if found.failure:
        fail(found.failure, 1)
