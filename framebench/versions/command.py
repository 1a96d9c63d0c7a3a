"""Commands on versions of a framework: `versions`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from packaging.version import InvalidVersion, Version

from framebench.cli.measuring import Threads, TimeLimit
from framebench.cli.shared import (
    MEASURE,
    AsJson,
    FileBatch,
    FileScenario,
    FileStrategies,
    Machines,
    ProfileOption,
    ResultsOption,
    TargetDevice,
    app,
    choose_cases,
    echo,
    end_command,
    err,
    fail,
    lock_for_measuring,
    open_session,
    out,
    repeat_options,
    report_failures,
    say,
    show_work,
)
from framebench.engine import environments, releases, runner
from framebench.engine.progress import CaseProgress
from framebench.engine.session import lock_results
from framebench.models.spec import USER_MODEL
from framebench.records import provenance
from framebench.records.pins import find_pinned_version, find_pinned_versions
from framebench.records.record import Record
from framebench.strategies.strategy import FRAMEWORKS, TITLES
from framebench.suite.case import FULL_SIZE, Case
from framebench.suite.counting import format_count
from framebench.suite.hypothetical import add_missing_size
from framebench.suite.selectors import parse, replace_framework
from framebench.suite.sequences import drop_duplicates
from framebench.suite.user_file import Fault
from framebench.user_file.opening import open_model
from framebench.user_file.strategies import parse_strategies
from framebench.versions import measure as versions
from framebench.versions.bisect import (
    PROCESSES,
    ReleaseBench,
    bisect_releases,
    count_most_releases,
)
from framebench.versions.bisection_record import FLOOR, Bisection

if TYPE_CHECKING:  # it imports pandas
    from framebench.versions.judge import QuantityComparison

versions_app = typer.Typer(
    no_args_is_help=True, help="Did an upgrade of the framework cost memory or time?"
)
app.add_typer(versions_app, name="versions", rich_help_panel=MEASURE)

THRESHOLD_HELP = "The smallest difference that matters, such as 5%. Default: each quantity's own."
Threshold = Annotated[str | None, typer.Option(help=THRESHOLD_HELP)]
Rounds = Annotated[int, typer.Option(min=0, help="Rounds per block; 0: memory only.")]
Blocks = Annotated[int, typer.Option(min=1, help="Number of blocks per case.")]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the environments that were made for it.")]
PLAN_HELP = "With --device: plan what has no cached plan, without cases training at full size."
EXIT_CODES = {"found": 0, "no change": 1, "not measured": 1, "one of several": 3, "undecided": 3}
CASE_HELP = "Such as unet3d/jax/train/fp32/b4/cpu, or your own file: its baseline."
PROCESSES_HELP = "Processes of each release. Their differences are its noise."


@versions_app.command()
def run(
    framework: Annotated[str, typer.Option(help="Such as jax.")],
    selectors: Annotated[
        list[str] | None, typer.Argument(help="Cases. Default: a few usual ones.")
    ] = None,
    profile: ProfileOption = None,
    named_versions: Annotated[
        list[str] | None,
        typer.Option("--version", help="Any release; may be repeated. Default: all pinned ones."),
    ] = None,
    blocks: Blocks = versions.BLOCKS,
    rounds: Rounds = runner.Options.rounds,
    results: ResultsOption = runner.RESULTS,
    threads: Threads = 1,
    time_limit: TimeLimit = 900.0,
) -> None:
    """Measure the same cases in several versions, taking turns in the same blocks.

    An interrupted run resumes.

    A release that is not pinned is installed with the packages of the pinned one as far as they go
    together, and kept.

    Exit code 1: a case was wrong, crashed, or ran out of time. Without cases and profile: training
    in fp32 and with checkpoints, evaluation, and a 3-D convolution in bf16.
    """
    compared_versions = versions.choose_versions(framework, named_versions)
    options = runner.Options(
        profile=profile,
        threads=threads,
        rounds=rounds,
        time_limit_s=time_limit,
        cold_blocks=versions.COLD_BLOCKS,
    )
    supported = []
    for case in versions.select_cases(framework, selectors, profile):
        obstacle = runner.explain_unsupported(case)
        if obstacle:
            say(f"{case.id}: unsupported: {obstacle}")
        else:
            supported.append(case)
    if not supported:
        fail("none of these cases can run here; framebench list --strategies has the reasons", 2)
    title = f"versions run {framework} {compared_versions} {blocks} {selectors} {options}"
    process_count = blocks * len(compared_versions)  # of each case
    with open_session(results, title) as session:
        environments_by_version = versions.install(framework, compared_versions, say)
        # a release whose kernels were compiled before would have the faster first step
        for environment in environments_by_version.values():
            environments.warm(environment, supported, say)
        with CaseProgress(supported, results, err, process_count, session.id) as progress:
            statuses = versions.measure(
                supported, environments_by_version, blocks, session.id, options, results, progress
            )
    for old, new in pairwise(compared_versions):
        command = f"framebench versions compare {framework}=={old} {framework}=={new}"
        say(command + repeat_options(results))
    has_failed = report_failures(statuses, "measurements")
    end_command(succeeded=not has_failed)


def check_order(base: str, change: str) -> None:
    """End the command if the base is the newer release, and name the right order.

    Otherwise a release that needs less memory would be reported as a regression. Raises
    UnknownVersion.
    """
    from framebench.versions.judge import parse_pair

    _, old, new = parse_pair(base, change)
    with suppress(InvalidVersion):
        if Version(old) > Version(new):
            fail(
                f"{base} is newer than {change}: the older release comes first, {change} {base}", 2
            )


@versions_app.command("compare")
def compare_(
    base: Annotated[str, typer.Argument(help="The older release, such as jax==0.9.2.")],
    change: Annotated[str, typer.Argument(help="The newer release, such as jax==0.10.2.")],
    selectors: Annotated[
        list[str] | None,
        typer.Argument(
            help="Cases, such as transformer/jax; or your own file, which is measured now."
        ),
    ] = None,
    device: TargetDevice = None,
    plan: Annotated[bool, typer.Option("--plan", help=PLAN_HELP)] = False,
    machine: Machines = None,
    threshold: Threshold = None,
    batch: FileBatch = 8,
    scenario: FileScenario = "train",
    strategies: FileStrategies = None,
    blocks: Annotated[int, typer.Option(min=1, help="Blocks to measure of your own file.")] = 3,
    rounds: Rounds = runner.Options.rounds,
    results: ResultsOption = provenance.READABLE,
    as_json: AsJson = False,
) -> None:
    """Compare every case of which both versions have records.

    Exit code 1: a regression; 3: too few blocks to tell.

    A regression that requirements/versions/accepted.toml has is listed as known, and no failure.

    A file of your own is measured in both versions first, in the same blocks.

    With --device: compare the plans of both releases for a device that is not here. Cases are
    those of which both have cached plans, and the answer comes at once. --plan plans the others. A
    case that is named with its batch is planned if it is not cached; a name without a size means
    the size full. Exit code 3: a case has no plan.
    """
    # these import pandas
    from framebench.versions import judge, planned, sources
    from framebench.versions.accepted import (
        MalformedEntry,
        explain_exit,
        read_accepted,
        split_regressions,
    )

    minimum = parse_share(threshold)
    chosen = selectors or []
    is_file = any(name.endswith(".py") for name in chosen)
    try:
        check_order(base, change)
    except judge.UnknownVersion as error:
        fail(str(error), 2)
    if is_file and (len(chosen) > 1 or device is not None):
        fail(
            "compare takes one file alone, and runs it here, without --device. The pinned release "
            f"predicts it: framebench predict {shlex.quote(chosen[0])} --device NAME",
            2,
        )
    if device is not None:
        raise typer.Exit(
            planned.compare_releases(base, change, chosen, device, results, minimum, as_json, plan)
        )
    if plan:
        fail("--plan is about a device that is not here: name one by --device", 2)
    try:
        accepted = read_accepted()
        if is_file:
            if results == provenance.PUBLISHED:
                results = runner.RESULTS  # nothing is written into an installed package
            request = sources.FileRequest(
                file=Path(chosen[0]),
                batch=batch,
                scenario=scenario,
                strategies=parse_strategies(strategies, scenario),
                blocks=blocks,
                rounds=rounds,
            )
            with lock_for_measuring(results):
                records = sources.measure_file(request, base, change, results)
            rows = judge.compare_versions(records, base, change, minimum)
        else:
            rows = compare_recorded(base, change, chosen, results, machine, minimum)
    except judge.ReleaseNotMeasured as error:
        fail(f"{error}{repeat_options(results)}", 2)
    except (Fault, judge.UnknownVersion, MalformedEntry) as error:
        fail(str(error), 2)
    run_hint = f"measure them in turn: {judge.suggest_run(base, change)}{repeat_options(results)}"
    if not rows:
        fail(f"no case has records of both {base} and {change}; {run_hint}", 2)
    regressions, accepted_regressions = split_regressions(rows, accepted)
    file = f"{shlex.quote(chosen[0])} --batch {batch}" if is_file else ""
    print_comparison(rows, regressions, results, as_json)
    for row, reason in accepted_regressions:
        say(f"known regression: {row.case}, {row.quantity}: {reason}")
    if regressions:
        suggest_next(base, change, regressions, results, threshold, file)
        from framebench.versions.table import describe_regression

        texts = [describe_regression(row).removeprefix("regression: ") for row in regressions]
        say(explain_exit(texts))
        raise typer.Exit(1)
    if all(row.verdict == judge.TOO_FEW for row in rows):
        fail(f"too few blocks for any verdict; {run_hint}", 3)


def compare_recorded(
    base: str,
    change: str,
    selectors: list[str],
    results: Path,
    machine: str | None,
    minimum: float | None,
) -> list[QuantityComparison]:
    """Compare two releases on the cases of these selectors, or on all that both have records of.

    The command ends if a selector names no case, or none that was measured in both releases.
    `minimum` is the smallest change that matters. Raises UnknownVersion for a release that was not
    measured.
    """
    from framebench.versions import judge, sources  # these import pandas

    case_ids = None
    if selectors:
        cases = choose_cases(selectors, [], size="*")
        framework, _, _ = judge.parse_pair(base, change)
        frameworks = drop_duplicates(case.framework for case in cases)
        if framework not in frameworks:
            of_others = " and ".join(TITLES[other] for other in frameworks)
            message = f"the cases of {shlex.join(selectors)} are {of_others}'s"
            fail(f"{message}; {suggest_own_cases(base, change, selectors, results)}", 2)
        case_ids = {case.id for case in cases}
    machine_records = sources.read_records_of_both(results, machine, base, change, case_ids)
    records = sources.select_named(machine_records, case_ids)
    was_measured = judge.has_both(machine_records, base, change)
    if was_measured and not judge.has_both(records, base, change):
        fail(explain_not_measured(machine_records, base, change, selectors, results), 2)
    # intervals depend on all blocks of the machine, not on which cases were chosen
    machine_blocks = judge.make_release_blocks(machine_records)
    return judge.compare_versions(records, base, change, minimum, machine_blocks)


def suggest_own_cases(base: str, change: str, selectors: list[str], results: Path) -> str:
    """Return the command that compares two releases on the cases of their own framework."""
    framework, _, _ = base.partition("==")
    own_selectors = [replace_framework(selector, framework) for selector in selectors]
    command = shlex.join(["framebench", "versions", "compare", base, change, *own_selectors])
    return f"those of {TITLES[framework]}: {command}{repeat_options(results)}"


def print_comparison(
    rows: list[QuantityComparison],
    regressions: list[QuantityComparison],
    results: Path,
    as_json: bool,
) -> None:
    """Print the comparison of two releases as a table, or as JSON with the regressions below."""
    from framebench.explain.table import load_causes
    from framebench.versions import table  # these import pandas

    if as_json:
        echo(json.dumps([row.as_dict() for row in rows], indent=1))
        for row in regressions:
            say(table.describe_regression(row))
        return
    say(table.describe_changes(rows))
    # the rows of a single case are all shown
    is_single_case = len({row.case for row in rows}) == 1
    folded = () if is_single_case else table.FOLDED
    table.make_table(rows, load_causes(results), folded).terminal(out)


def suggest_next(
    base: str,
    change: str,
    regressions: list[QuantityComparison],
    results: Path,
    threshold: str | None,
    file: str,
) -> None:
    """Print the command that finds the release with the regression, if it is one of a peak.

    `file` is that of a user's model with its batch, "" for the suite's cases. Of these also print
    the command that compares both releases' plans for a GPU, if any are cached.
    """
    from framebench.versions import sources, table  # these import pandas

    bisection = table.suggest_bisection(regressions, file)
    if bisection:
        say(bisection + repeat_options(results, threshold=threshold))
    plan_comparison = "" if file else sources.find_plans_of_both(results, base, change)
    if plan_comparison:
        say(f"plans of both for a GPU: {plan_comparison}")


def explain_not_measured(
    records: list[Record], base: str, change: str, selectors: list[str], results: Path
) -> str:
    """Return the message that a machine has not measured the named cases in both releases.

    It says how many other cases each release has, and ends with the command that measures the
    named ones.
    """
    from framebench.versions.judge import name_release, suggest_run

    case_counts = []
    for release in (base, change):
        cases = {record.case for record in records if name_release(record) == release}
        case_counts.append(f"{release}: {format_count(len(cases), 'case')}")
    arguments = " ".join(map(shlex.quote, selectors))
    command = f"{suggest_run(base, change)} {arguments}{repeat_options(results)}"
    return (
        f"no case of {arguments} has records of both {base} and {change}; of others there are: "
        f"{', '.join(case_counts)}; {command}"
    )


def parse_share(text: str | None) -> float | None:
    """Return `5%` or `0.05` as 0.05, and None as None. Raises typer.BadParameter."""
    if text is None:
        return None
    try:
        share = float(text.removesuffix("%"))
    except ValueError:
        share = -1.0  # refused below
    if text.endswith("%"):
        share /= 100
    if not 0 <= share < 1:
        raise typer.BadParameter(f"{text!r} is no threshold; write for instance 5%")
    return share


@versions_app.command()
def bisect(
    first: Annotated[str, typer.Argument(help="The older release, such as 0.9.2.")],
    last: Annotated[str, typer.Argument(help="The newer release.")],
    case_or_file: Annotated[str, typer.Argument(help=CASE_HELP, metavar="case")],
    framework: Annotated[str, typer.Option(help="Such as jax.")],
    threshold: Annotated[str, typer.Option(help="Relative change of the peak that counts.")] = "1%",
    processes: Annotated[int, typer.Option(min=1, help=PROCESSES_HELP)] = PROCESSES,
    keep: Keep = False,
    device: TargetDevice = None,
    batch: FileBatch = 8,
    results: ResultsOption = runner.RESULTS,
    as_json: AsJson = False,
) -> None:
    """Find the first release in which a case's peak memory changed. An interrupted search resumes.

    With --device: in which the plan for a device that is not here changed.

    Exit code 1: nothing changed, or no two releases could be measured; 3: several releases may be
    the first, or noise hides it.
    """
    # these import pandas
    from framebench.versions.bisection_table import make_table
    from framebench.versions.planned import PlanBench

    find_pinned_version(framework)  # raises UnknownName for an unknown framework
    minimum = parse_share(threshold) or 0.0
    if minimum < FLOOR:
        fail(
            f"--threshold {threshold} is less than equal processes differ by: at least {FLOOR:.1%}",
            2,
        )
    is_file = case_or_file.endswith(".py")
    if device is not None and is_file:
        command = f"framebench try {case_or_file} --device {device}{repeat_options(results)}"
        fail(f"--device takes the suite's cases: `{command}`", 2)
    if device is not None:
        case_or_file = add_missing_size(case_or_file, FULL_SIZE)
    with open_case(case_or_file, batch, results) as (case, folder):
        check_bisected(case, framework, device)
        release_names, only_planned = list_bisected(framework, first, last, device, results)
        say(f"{format_count(len(release_names), 'release')}: {', '.join(release_names)}")
        if only_planned:
            say(
                f"pip lists no {', '.join(only_planned)} for this Python, only its plan is there; "
                "others between these releases may be missing"
            )
        if device is not None:
            plan = PlanBench(case.id, device, results).measure
            bisection = bisect_releases(case, minimum, release_names, plan, device)
        else:
            # `open_case` has locked the results already if the case is a file
            with nullcontext() if is_file else lock_results(results):
                bisection = bisect_measured(case, minimum, release_names, folder, processes, keep)
    if as_json:
        echo(bisection.model_dump_json(indent=1))
    else:
        make_table(bisection).terminal(out)
    raise typer.Exit(EXIT_CODES[bisection.outcome])


def list_bisected(
    framework: str, first: str, last: str, device: str | None, results: Path
) -> tuple[list[str], list[str]]:
    """Return the releases from the first to the last, and those of them that pip does not list.

    Only for a device there are unlisted ones: a cached plan needs no package, and may be of a
    release for a newer Python.
    """
    from framebench.devices.plans.store import list_versions  # imports pandas

    listed = releases.list_releases(framework)
    planned: set[str] = set()
    if device is not None:
        planned = list_versions(results, device, framework)
    unlisted = planned - {Version(release).public for release in listed}
    all_releases = sorted({*listed, *unlisted}, key=Version)
    selected = releases.select_between(framework, first, last, all_releases)
    return selected, [release for release in selected if release in unlisted]


def bisect_measured(
    case: Case,
    minimum: float,
    release_names: list[str],
    folder: Path,
    processes: int,
    keep: bool,
) -> Bisection:
    """Bisect by measuring releases in fresh processes. An interrupted session resumes."""
    # without the threshold: a search with another one reads the same values
    title = f"bisect {case.id} {release_names[0]} {release_names[-1]} {processes}"
    most_releases = count_most_releases(len(release_names))
    say(f"at most {most_releases} of them are measured, unless one has to be stepped over")
    process_count = processes * most_releases
    with (
        open_session(folder, title) as session,
        CaseProgress(
            [case],
            folder,
            err,
            process_count,
            session.id,
            may_end_early=True,
            prints_records=False,  # a line for each release is enough
        ) as progress,
    ):
        bench = ReleaseBench(case, session.id, folder, say, keep, processes, progress)
        return bisect_releases(case, minimum, release_names, bench.measure)


def check_bisected(case: Case, framework: str, device: str | None) -> None:
    """End the command if a case cannot be measured or planned in releases of a framework."""
    if case.framework != framework:
        fail(f"{case.id} is a case of {case.framework}, not of {framework}", 2)
    if case.ranks > 1:
        fail(f"{case.id}: bisect measures a single process, and not one of several ranks", 2)
    obstacle = None
    if device is None:  # a plan needs no hardware
        obstacle = runner.explain_unsupported(case)
    if obstacle:
        fail(f"{case.id}: {obstacle}", 2)


@contextmanager
def open_case(case_or_file: str, batch: int, results: Path) -> Iterator[tuple[Case, Path]]:
    """Yield the case, or the baseline of a user's file, and the folder of its records.

    The folder is not the suite's, so that none of its tables shows these records. For a user's
    file, the results are locked, and the pinned release first computes the baseline's references.
    Raises UnknownCase.
    """
    if not case_or_file.endswith(".py"):
        case = parse(case_or_file)
        if case.workload == USER_MODEL:
            fail(f"{case.id} is of a file of yours: name the file in its place, and --batch", 2)
        yield case, results / "bisect"
        return
    try:
        with (
            lock_results(results),
            open_model(
                Path(case_or_file),
                scenario="train",
                strategies=[],  # the baseline alone
                batch=batch,
                env=None,
                results=results,
            ) as (cases, _environment, folder),
        ):
            (baseline,) = cases
            yield baseline, folder / "bisect"
    except Fault as error:
        fail(str(error), 2)


@versions_app.command()
def newest(
    frameworks: Annotated[
        list[str] | None, typer.Argument(help="Such as jax. Default: all.")
    ] = None,
    profile: ProfileOption = None,
    blocks: Blocks = versions.BLOCKS,
    rounds: Rounds = runner.Options.rounds,
    threshold: Threshold = None,
    keep: Keep = False,
    device: TargetDevice = None,
    results: ResultsOption = runner.RESULTS,
    as_json: AsJson = False,
) -> None:
    """Compare each framework's newest release, as the package index lists it, with the pinned
    version, in the same blocks.

    Exit code 1: a regression that is not accepted in requirements/versions/accepted.toml, a case
    that fails under the newest release alone, or no newer release that can be installed; 3: nothing
    could be judged. Nothing is measured where the pinned version is the newest one. Without a
    profile the cases are those of `versions run`. An interrupted comparison goes on where it
    stopped.

    With --device: compare what both releases plan for training at full size on a device that is
    not here. Plans have no noise. Jittor has none.
    """
    # these import pandas
    from framebench.versions import planned
    from framebench.versions.accepted import MalformedEntry, read_accepted
    from framebench.versions.newest import PairBench, find_release_pair
    from framebench.versions.table import make_table

    pairs = [find_release_pair(name) for name in drop_duplicates(frameworks or FRAMEWORKS)]
    minimum = parse_share(threshold)
    if device is not None:
        codes = []
        for pair in pairs:
            codes.append(planned.compare_newest(pair, device, results, minimum, as_json))
        raise typer.Exit(choose_exit_code(codes))
    try:
        accepted = read_accepted()
    except MalformedEntry as error:
        fail(str(error), 2)
    options = runner.Options(profile=profile, rounds=rounds, cold_blocks=versions.COLD_BLOCKS)
    bench = PairBench(blocks, options, results, minimum, keep, accepted)
    verdicts = []
    for pair in pairs:
        verdict = bench.measure_pair(pair)
        say(verdict.answer)
        verdicts.append(verdict)
    if as_json:
        echo(json.dumps([verdict.as_dict() for verdict in verdicts], indent=1))
    else:
        for verdict in verdicts:
            if verdict.rows:
                make_table(verdict.rows).terminal(out)
            for row, reason in verdict.known_regressions:
                say(f"known: {row.case}, {row.quantity}: {reason}")
    raise typer.Exit(choose_exit_code([verdict.exit_code for verdict in verdicts]))


def choose_exit_code(codes: Sequence[int]) -> int:
    """Return the exit code of several frameworks from theirs: 0 only if all are 0.

    A regression, 1, counts more than what could not be judged, 3.
    """
    return 1 if 1 in codes else max(codes)


@versions_app.command()
def add(
    release: Annotated[str, typer.Argument(help="Such as jax==0.9.1.")],
) -> None:
    """Pin a release of a framework, for `versions run` and asv's matrix.

    Writes requirements/versions/FRAMEWORK-VERSION.txt and a line of asv.versions.json. Installs
    nothing: the environment is built when it is first needed.
    """
    from framebench.versions import pin
    from framebench.versions.judge import UnknownVersion, parse_release  # imports pandas

    if not provenance.CHECKOUT:
        fail("releases are pinned in a checkout of the project, and this copy is installed", 2)
    try:
        framework, version = parse_release(release)
    except UnknownVersion as error:
        fail(str(error), 2)
    pinned = find_pinned_versions(framework)
    if version in pinned:
        fail(
            f"{release} is pinned already, in {pinned[version].name}; to measure it next to the "
            f"others: framebench versions run --framework {framework}",
            2,
        )
    releases.check_listed(framework, version)
    say(f"asking pip which packages {release} needs, which takes a minute or more")
    packages = pin.resolve(framework, version)
    file = pin.write_pins(framework, version, packages)
    pin.write_matrix()
    say(f"requirements/versions/{file.name}: {format_count(len(packages), 'package')}")
    if not pin.has_day(framework, version):
        say(
            f"requirements/{pin.RELEASES} lacks the day on which it appeared, by which the history "
            f"of releases is ordered; add the line {framework},{version},YYYY-MM-DD"
        )
    say(f"framebench versions run --framework {framework} measures it next to the others")


@versions_app.command()
def publish(
    config: Annotated[
        Path | None,
        typer.Option(
            help="asv's configuration. Default: asv.releases.json.", dir_okay=False, exists=True
        ),
    ] = None,
    results: ResultsOption = runner.RESULTS,
) -> None:
    """Show by asv which release of a framework regressed, from the records.

    Writes a git repository with a commit and a tag for each release, and asv's results from the
    records. Then runs `asv publish`, and prints the regressions of each release against the one
    before it, by the rule of `versions compare`. Exit code 1: nothing was measured in two releases.
    """
    from framebench.analysis.results import Results
    from framebench.versions import asv_history as history
    from framebench.versions.accepted import MalformedEntry, read_accepted

    config_file = config or history.CONFIG
    recorded = Results(results)
    with show_work("reading the records and the plans of all releases"):
        plans = history.read_plans(results)
    if not recorded.machines and not plans:
        fail(recorded.explain_absence(), 1)
    try:
        accepted = read_accepted()
    except MalformedEntry as error:
        fail(str(error), 2)
    try:
        with show_work("writing a commit and asv's results for each release"):
            tagged = history.write(recorded.records, config_file, plans)
        with show_work(f"comparing {format_count(len(tagged), 'release')} with those before them"):
            regressions = history.find_regressions(recorded.records, plans, accepted)
        with show_work("asv publish draws the graphs of all cases, which takes longest"):
            history.publish(config_file, regressions)
    except history.NoHistoryError as error:
        fail(str(error), 1)
    result_count = sum(release.has_results for release in tagged)
    say(
        f"{format_count(len(tagged), 'release')} from {tagged[0].tag} to {tagged[-1].tag}, "
        f"{result_count} of them with results"
    )
    say(format_count(len(regressions), "regression"))
    for sentence in history.describe_unchanged(tagged, regressions):
        say(sentence)
    for regression in regressions:
        step = f"{regression.before} to {regression.after}, on {regression.machine}"
        growth = "" if regression.change is None else f"{regression.change:+.1%} "
        known = f" (known: {regression.accepted_reason})" if regression.accepted_reason else ""
        say(f"{step}: {growth}{regression.quantity} of {regression.case.id}{known}")
    say(f"asv --config {config_file.name} preview shows it")
