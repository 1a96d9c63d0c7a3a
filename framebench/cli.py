"""The command line: `framebench list | run | compare | fit | evaluate | predict | explain | show | report | doctor`."""

from __future__ import annotations

import json
import signal
import sys
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from framebench import cases, compare, environments, hypothetical, provenance, records, runner
from framebench.cases import Case, UnknownCase
from framebench.environments import Environment, SetupError
from framebench.progress import CaseProgress, line
from framebench.session import Busy, Session
from framebench.strategies import FRAMEWORKS

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__, add_completion=False)
# a pipe or a file has no width of its own: tables must not be folded to 80 columns there
out = Console(width=None if sys.stdout.isatty() else 200)
err = Console(stderr=True)

Selectors = Annotated[list[str] | None, typer.Argument(help="workload/framework/scenario/strategy/bN/size; parts may be globs")]
Profile = Annotated[str | None, typer.Option(help="tiny, quick (the default), standard or full; $FRAMEBENCH_PROFILE too")]
AsJson = Annotated[bool, typer.Option("--json", help="for programs")]
Results = Annotated[Path, typer.Option(help="folder of the records")]


def chosen(selectors: list[str] | None, default: list[Case], profile: str | None = None) -> list[Case]:
    """The cases that are named; of a profile those that are named, if both are given; without names the default."""
    if not selectors:
        return cases.profile(profile) if profile else default
    among = cases.profile(profile) if profile else None
    return list(dict.fromkeys(c for s in selectors for c in cases.select(s, among=among)))


@app.command("list")
def list_(
    selectors: Selectors = None,
    strategies: Annotated[bool, typer.Option("--strategies", help="the support matrix, with reasons")] = False,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """The cases of a profile, those a selector names, or the support matrix."""
    if strategies:
        from analysis import tables

        matrix = tables.support()
        if as_json:
            rows = [{"scenario": name, **dict(zip(m.head, line))} for name, m in matrix.items() for line in m.rows]
            typer.echo(json.dumps(rows, indent=1))
        else:
            for part in [*matrix.values(), tables.exclusions()]:
                tables.terminal(part, out)
        return
    found = chosen(selectors, cases.profile(), profile)
    if as_json:
        out.print_json(json.dumps([{"case": c.id, "supported": c.support.supported, "how": c.support.why} for c in found]))
        return
    for case in found:
        note = "" if case.support.supported else f"  unsupported: {case.support.why}"
        typer.echo(f"{case.id}{note}")


@app.command()
def run(
    selectors: Selectors = None,
    profile: Profile = None,
    results: Results = runner.RESULTS,
    samples: Annotated[int, typer.Option(min=1, help="timed steps at most")] = 20,
    budget: Annotated[float, typer.Option(help="seconds of sampling, after which 3 samples are enough")] = 2.0,
    threads: Annotated[int, typer.Option(min=1, help="1 pins the timing worker to one core")] = 1,
    time_limit: Annotated[float, typer.Option(help="seconds for each of a case's two workers")] = 900.0,
    memory_limit: Annotated[str | None, typer.Option(help="private memory a worker may map, such as 2GiB")] = None,
) -> None:
    """Measure cases (the quick profile if none is named). An interrupted run goes on where it stopped."""
    profile = profile or (None if selectors else cases.profile_name())
    found = chosen(selectors, [], profile)
    options = runner.Options(
        profile=profile, threads=threads, samples=samples, budget_s=budget, time_limit_s=time_limit,
        memory_limit=parse_bytes(memory_limit) if memory_limit else None,
    )  # fmt: skip
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    session = Session.open(results, provenance.code(), " ".join([*(selectors or []), profile or ""]))
    frameworks = {c.framework for c in found if not runner.unsupported(c)}
    say = partial(err.print, markup=False, highlight=False)
    ready = {f: environments.ensure(f, say=say) for f in FRAMEWORKS if f in frameworks}
    for environment in ready.values():
        environments.warm(environment, "standard" if profile == "standard" else "quick", say)
    try:
        statuses = measure_all(found, session, ready, options, results)
    except KeyboardInterrupt:
        fail("interrupted; what was measured is kept, and the same command goes on from there", 130)
    session.close(results)
    bad = [s for s in statuses if s in ("crashed", "timeout", "wrong")]
    if bad:
        err.print(f"{len(bad)} of {len(found)} cases failed ({', '.join(sorted(set(bad)))}); the others stand")
        raise typer.Exit(1)


def measure_all(
    found: list[Case], session: Session, ready: dict[str, Environment], options: runner.Options, results: Path
) -> list[str]:
    """Each case's status; those that this session has measured already are not repeated."""
    statuses: list[str] = []
    with CaseProgress(found, results, err) as progress:
        for case in found:
            environment = ready.get(case.framework) or environments.describe(case.framework)
            record = runner.measure_once(case, session.id, environment, options, results, partial(progress.phase, case))
            progress.done(case, record)
            statuses.append(record.status)
    return statuses


def parse_bytes(text: str) -> int:
    """`2GiB`, `512MiB`, `1e9`. Raises typer.BadParameter."""
    units = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "": 1}
    number = text.rstrip("KMGiB")
    try:
        return int(float(number) * units[text[len(number) :]])
    except (ValueError, KeyError):
        raise typer.BadParameter(f"{text!r} is no size; write for instance 512MiB or 2GiB") from None


@app.command()
def fit(
    workload: Annotated[str, typer.Option(help="such as transformer")],
    budget: Annotated[str, typer.Option(help="memory for tensors and workspaces, such as 1GiB")],
    scenario: Annotated[str, typer.Option(help="such as train or eval")] = "train",
    framework: Annotated[list[str] | None, typer.Option(help="may be repeated; all of them if none is named")] = None,
    strategy: Annotated[list[str] | None, typer.Option(help="may be repeated; the baseline if none is named")] = None,
    size: str = cases.DEFAULT_SIZE,
    max_batch: Annotated[int, typer.Option(min=1)] = 2**16,
    time_limit: Annotated[float, typer.Option(help="seconds for each probe")] = 900.0,
    results: Results = runner.RESULTS,
    as_json: AsJson = False,
) -> None:
    """The largest batch that fits into a budget of memory, by framework and strategy, tried under an enforced limit."""
    from analysis import fits, tables
    from framebench.fit import chosen as searched
    from framebench.fit import find

    room, options = parse_bytes(budget), runner.Options(time_limit_s=time_limit)
    found = []
    for case in searched(workload, scenario, framework or list(FRAMEWORKS), strategy or [], size):
        with err.status(case.id) as status:
            try:
                environment = environments.ensure(case.framework, say=lambda text: err.print(text))
            except SetupError as error:
                err.print(f"{case.framework}: {error}", markup=False, highlight=False)
                continue
            show_phase = lambda at, phase: status.update(f"{at.id}: {phase}")  # noqa: E731
            try:
                found.append(find(case, room, environment, max_batch, options, results, show_phase))
            except KeyboardInterrupt:
                fail("interrupted; what was found for the cases before is kept", 130)
        if not as_json:
            tables.terminal(fits.table(found[-1]), out)
    if as_json:
        typer.echo(json.dumps([f.model_dump(mode="json") for f in found], indent=1))
    raise typer.Exit(any(f.status == "stopped" for f in found) or not found)


@app.command()
def evaluate(
    workload: Annotated[str, typer.Option(help="such as transformer")],
    framework: Annotated[str, typer.Option(help="such as torch")],
    budget: Annotated[str, typer.Option(help="memory for tensors and workspaces, such as 300MiB")],
    samples: Annotated[int, typer.Option(min=1)] = 64,
    batch: Annotated[int, typer.Option(min=1, help="of the first attempt; halved when memory runs out")] = 64,
    size: str = cases.DEFAULT_SIZE,
    time_limit: Annotated[float, typer.Option(help="seconds for each process")] = 900.0,
    as_json: AsJson = False,
) -> None:
    """Evaluate samples within a budget of memory: the batch is halved whenever it runs out, and no sample is lost."""
    from analysis import fits
    from framebench import halving

    (case,) = {replace(c, batch=batch) for c in cases.select(f"{workload}/{framework}/eval/no_grad/*/{size}")}
    environment = environments.ensure(framework, say=lambda text: err.print(text))
    room, options = parse_bytes(budget), runner.Options(time_limit_s=time_limit)
    with err.status(case.id) as status:
        run = halving.runner_of(environment, options, lambda phase: status.update(f"{case.id}: {phase}"))
        found = halving.evaluate(case, samples, room, run)
    if as_json:
        typer.echo(json.dumps({"case": case.id, "budget_bytes": room} | found.as_dict(), indent=1))
    else:
        for line in fits.evaluation_lines(found):
            out.print(line, markup=False, highlight=False, soft_wrap=True)
    if found.failure:
        fail(found.failure, 1)


@app.command()
def show(selectors: Selectors = None, results: Results = runner.RESULTS, as_json: AsJson = False) -> None:
    """The newest record of each case, as lines or as one JSON array of flat rows."""
    from analysis import load

    wanted = {c.id for c in chosen(selectors, list(cases.every_case()))}
    found = [r for r in records.read_all(results) if r.case in wanted]
    if as_json:
        typer.echo(json.dumps([r._asdict() for r in load.latest(found)], indent=1))
        return
    newest = {(row.case, row.machine, row.measured_at) for row in load.latest(found)}
    for record in found:
        if (record.case, record.provenance.machine, record.provenance.measured_at.isoformat()) in newest:
            typer.echo(line(record))


@app.command()
def report(
    selectors: Selectors = None,
    results: Results = runner.RESULTS,
    here: Annotated[bool, typer.Option("--here", help="only what this machine measured")] = False,
    docs: Annotated[list[Path] | None, typer.Option(help="a document whose generated tables are made anew")] = None,
) -> None:
    """Comparison tables from the records, on the terminal and as Markdown: results/tables/<machine>.md."""
    from analysis import load, tables
    from analysis.docs import NoSuchTable, refresh
    from analysis.report import report_of

    wanted = {c.id for c in chosen(selectors, list(cases.every_case()))}
    table = load.load(results)
    table = table[table["case"].isin(wanted)]
    if here:
        table = table[table["machine"] == provenance.machine_name()]
    if table.empty:
        fail(f"no such records under {results}; measure first: framebench run, or make bench", 1)
    found = report_of(table)
    for comparison in found:
        tables.terminal(comparison, out)
    for machine in sorted(set(table["machine"])):
        target = results / "tables" / f"{machine}.md"
        target.parent.mkdir(exist_ok=True)
        target.write_text("\n".join(tables.markdown(c) for c in found if c.machine == machine))
        err.print(f"the same as Markdown: {target}", soft_wrap=True)
    for document in docs or ():
        try:
            document.write_text(refresh(document.read_text(), [*found, *tables.of_the_table()]))
        except NoSuchTable as error:
            fail(f"{document}: {error}", 2)


@app.command("compare")
def compare_(
    base: Annotated[str, typer.Argument(help="a full case id: what the other is compared with")],
    change: Annotated[str, typer.Argument(help="a full case id; the same as BASE shows the machine's noise")],
    rounds: Annotated[int, typer.Option(min=2, help="fresh processes of each case, alternately")] = compare.ROUNDS,
    results: Results = runner.RESULTS,
    samples: Annotated[int, typer.Option(min=1, help="timed steps of each process at most")] = 20,
    budget: Annotated[float, typer.Option(help="seconds of sampling, after which 3 samples are enough")] = 2.0,
    threads: Annotated[int, typer.Option(min=1, help="1 pins the timing worker to one core")] = 1,
    as_json: AsJson = False,
) -> None:
    """Is CHANGE slower than BASE, or does it need more memory? Measured alternately; the records are kept."""
    from analysis import tables, verdicts

    pair = cases.parse(base), cases.parse(change)
    for difference in compare.differences(*pair):
        err.print(f"note: the cases differ in {difference}", markup=False, highlight=False)
    session = Session.open(results, provenance.code(), f"compare {base} {change}")
    try:
        ready = {c.framework: environments.ensure(c.framework, say=lambda text: err.print(text)) for c in pair}
        options = runner.Options(threads=threads, samples=samples, budget_s=budget)
        say = partial(err.print, markup=False, highlight=False, soft_wrap=True)
        found = compare.measure(pair, rounds, session.id, ready, options, results, lambda record: say(line(record)))
    except KeyboardInterrupt:
        fail("interrupted; the records of what was measured are kept", 130)
    except compare.NotMeasured as error:
        fail(str(error), 1)
    finally:
        session.close(results)
    said = compare.as_json(found)
    if as_json:
        typer.echo(json.dumps(said | verdicts.as_json(said)))
    else:
        tables.terminal(verdicts.table(said), out)


@app.command()
def predict(
    case: Annotated[str, typer.Argument(help="workload/framework/scenario/strategy/bN/size, with any batch")],
    results: Results = runner.RESULTS,
    as_json: AsJson = False,
) -> None:
    """The peak of a case without running it: its floor, fake tensors (PyTorch, eager), a line through measured batches."""
    asked = hypothetical.named(case)
    found = predictions(asked, results)
    if as_json:
        typer.echo(json.dumps({"case": asked.id, "predictions": found}, indent=1))
        return
    typer.echo(asked.id)
    for one in found:
        interval = f" ({one['low'] / 2**20:,.1f} to {one['high'] / 2**20:,.1f})" if one.get("low") is not None else ""
        peak = "-" if one["bytes"] is None else f"{one['bytes'] / 2**20:,.1f} MiB{interval}"
        typer.echo(f"  {one['method']:<13} {peak:>13}  {one['note']}")


def predictions(case: Case, results: Path) -> list[dict[str, Any]]:
    """Bytes by method; None with the reason where a method cannot tell."""
    from analysis import load
    from analysis.predict import predictions as lines
    from models.floor import floor

    found: list[dict[str, Any]] = [
        {"method": "floor", "instrument": "counted", "bytes": floor(case).total, "note": "the least that any framework needs"}
    ]
    fake: dict[str, Any] = {"method": "fake tensors", "instrument": "predicted", "bytes": None}
    if why := hypothetical.obstacle(case):
        found.append(fake | {"note": why})
    else:
        environment = environments.ensure("torch", say=lambda text: err.print(text))
        printed = environments.run_module(environment, "framebench.fake", case.id, OMP_NUM_THREADS="1")
        peak = json.loads(printed.splitlines()[-1])["predicted"]
        found.append(fake | {"bytes": peak, "note": f"torch {environment.version}, eager, as on a CPU; no kernel's workspace"})
    for where, fitted in lines(load.load(results), case.id):
        value, low, high = fitted.at(case.batch)
        origin = (
            f"{where['machine']}, {case.framework} {where['framework_version']}, batches {', '.join(map(str, fitted.batches))}"
        )
        sums = f"{fitted.fixed.value / 2**20:,.1f} + {fitted.per_sample.value / 2**20:,.2f} MiB per sample"
        unsure = "; 95 % interval" if low is not None else "; no interval from two batches"
        found.append(
            {"method": "line", "instrument": where["peak_instrument"], "bytes": round(value), "low": low, "high": high}
            | {"note": f"{where['peak_instrument']} on {origin}: {sums}{unsure}"}
        )
    if found[-1]["method"] != "line":
        found.append({"method": "line", "instrument": None, "bytes": None, "note": "no records of this case at two batches"})
    return found


@app.command()
def explain(
    case: Annotated[str, typer.Argument(help="workload/framework/scenario/strategy/bN/size, with any batch")],
    figure: Annotated[Path | None, typer.Option(help="draw the step's memory over time into this SVG file")] = None,
    as_json: AsJson = False,
) -> None:
    """Where the peak of one steady step comes from: what is held at the fullest moment, by kind, layer and phase."""
    from analysis import explained, tables
    from framebench.explain import Unexplained, obstacle
    from framebench.explain import explain as account

    asked = hypothetical.named(case)
    try:
        if why := obstacle(asked):  # before an environment is built for nothing
            raise Unexplained(f"{asked.id}: {why}")
        with err.status(asked.id):
            found = account(asked, environments.ensure(asked.framework, say=lambda text: err.print(text)))
    except Unexplained as error:
        fail(str(error), 2)
    if figure:
        explained.figure(found).savefig(figure, format="svg")
    if as_json:
        typer.echo(found.model_dump_json())
        return
    for table in (explained.by_kind(found), explained.by_layer(found)):
        tables.terminal(table, out)


@app.command()
def golden(workloads: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Compute float64 reference values by torch, confirm them by JAX, and write golden.json. For those who change a model."""
    from framebench import golden as references
    from models.spec import NAMES

    for name in workloads or NAMES:
        made, confirmed = (references.compute(name, environments.ensure(f)) for f in ("torch", "jax"))
        path = references.write(name, made, confirmed)
        typer.echo(
            f"{path}: {len(made)} keys, the two frameworks differ by at most {references.difference(made, confirmed):.1e}"
        )


@app.command()
def overhead(rounds: Annotated[int, typer.Option(min=5, help="steps of each arm")] = 30) -> None:
    """The harness's step against a hand-written loop, alternating in one process: the ratio of the medians, as JSON."""
    environment = environments.ensure("torch", say=lambda text: err.print(text))
    typer.echo(environments.run_module(environment, "framebench.overhead", str(rounds), OMP_NUM_THREADS="1"))


@app.command()
def setup(frameworks: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Build the frameworks' environments now (they are built when first needed otherwise)."""
    for framework in frameworks or FRAMEWORKS:
        environment = environments.ensure(framework, say=lambda text: err.print(text))
        typer.echo(f"{environment.name}: {environment.python}")


@app.command()
def doctor(
    as_json: AsJson = False,
    results: Results = runner.RESULTS,
    calibrate: Annotated[bool, typer.Option(help="measure known sizes and lengths too, about a minute")] = True,
) -> None:
    """What this machine has and lacks, and how wrong its measurements may be. Later records carry the result."""
    from framebench import doctor as examine

    findings = examine.findings()
    if calibrate:
        measured = examine.calibration(say=lambda text: err.print(text))
        examine.save(measured, results)
        findings += measured
    if as_json:
        typer.echo(json.dumps([f._asdict() for f in findings], indent=1))
    else:
        for finding in findings:
            out.print(f"{'ok ' if finding.passed else 'NO '} {finding.check}: {finding.detail}", markup=False, highlight=False)
    raise typer.Exit(0 if all(f.passed or f.optional for f in findings) else 1)


def main() -> None:
    """Users' mistakes end in a sentence, not in a traceback."""
    warnings.showwarning = plain_warning  # type: ignore[assignment]
    try:
        app()
    except (UnknownCase, SetupError, Busy) as error:
        fail(str(error), 2)
    except OSError as error:
        fail(f"{error.strerror}: {error.filename}; what was measured so far is kept", 1)


def plain_warning(message: Any, *_: Any, **__: Any) -> None:
    err.print(f"warning: {message}", markup=False, highlight=False, soft_wrap=True)


def fail(message: str, code: int) -> NoReturn:
    err.print(f"framebench: {message}", markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
