"""What all commands share: the application, consoles, options, and how a user's mistake ends."""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn, TextIO

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from framebench.engine.session import Session, lock_results
from framebench.engine.shortages import describe_error
from framebench.engine.terminal import escape_control
from framebench.records import provenance, store
from framebench.records.provenance import ALL
from framebench.suite import profiles, protocol
from framebench.suite.case import DEFAULT_SIZE, FULL_SIZE, Case, UnknownCase
from framebench.suite.selectors import add_missing_batch, refuse_file, select, split_selector
from framebench.suite.sequences import drop_duplicates

if TYPE_CHECKING:
    from framebench.analysis.results import Results


class SafeConsole(Console):
    """A console that escapes the control characters of all texts; its own colours stay."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Yield the segments of a renderable."""
        for segment in super().render(renderable, options):
            if segment.control is None:
                segment = Segment(escape_control(segment.text), segment.style)
            yield segment


app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0: done. 1: failed, or the answer is no. 2: usage error. 3: undecided. "
    "130: interrupted.",
)
# the headings of --help
MEASURE = "Measure"
READ = "Read what was measured"
BUDGET = "Within a budget of memory"
UPKEEP = "This machine, and the suite"
MACHINES = "Many machines"
# of a table in a pipe or a file, which have no width of their own; $COLUMNS names another
PIPED_COLUMNS = 100
REPORT_S = 5.0  # before the first line on progress where there is no terminal
SLOWER, MOST_REPORT_S = 1.5, 120.0  # each next line takes so many times longer, up to this


def choose_width(stream: TextIO) -> int | None:
    """Return the width of what is printed to a stream; None takes the terminal's or $COLUMNS."""
    return None if stream.isatty() or "COLUMNS" in os.environ else PIPED_COLUMNS


out = SafeConsole(width=choose_width(sys.stdout))
err = SafeConsole(width=choose_width(sys.stderr), stderr=True)
LEAST_BYTES = 2**20 // 10  # no model fits in less, which tables would show as 0.0 MiB
UNITS = {
    "b": 1,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
}
MOST_BYTES = 2**60  # more than any machine has
MOST_S = 10**6  # seconds of a time limit: eleven days; the system's timers overflow after years
# statuses that fail the command, but not the other measurements
BROKEN = ("crashed", "timeout", "wrong")

CASES = "Such as transformer/torch/train/fp32/b4/cpu. Parts may be globs, {a,b}, or left out."
Selectors = Annotated[list[str] | None, typer.Argument(metavar="CASES", help=CASES)]
SUMMARIES = "; ".join(f"{name}: {profile.summary}" for name, profile in profiles.PROFILES.items())
ProfileOption = Annotated[
    str | None, typer.Option(help=f"{SUMMARIES}. By default $FRAMEBENCH_PROFILE, or quick")
]
Rounds = Annotated[int, typer.Option(min=1, help="Rounds per block. Below 3, times are discarded.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ResultsOption = Annotated[Path, typer.Option(file_okay=False, help="Folder of the records.")]
ENV_HELP = (
    "`installed` (this interpreter), or the path of a Python. Default: the pinned environments."
)
Env = Annotated[str | None, typer.Option(help=ENV_HELP)]
FileBatch = Annotated[int, typer.Option(min=1, help="Batch size of your own file.")]
FileScenario = Annotated[str, typer.Option(help="Scenario of your own file: train or eval.")]
FileStrategies = Annotated[
    str | None,
    typer.Option(help="Strategies for your own file, separated by commas. Default: its baseline."),
]
DEVICE_HELP = (
    "Predict for a device that is not here, such as h100-80gb. `framebench devices` lists them. "
    "Cases without a size then mean the size full. "
    "New answers are kept in `planned` of --results, by default in results/own/planned."
)
TargetDevice = Annotated[str | None, typer.Option(help=DEVICE_HELP)]
WHOSE = (
    "Whose records. Default: this machine's where they answer, else those of one with this "
    "processor, else of another."
)


def check_machine(machine: str | None) -> str | None:
    """Return the name of a machine, or `all`, as it was given. Raises typer.BadParameter."""
    if machine is None or machine == ALL:
        return machine
    try:
        return provenance.check_machine(machine)
    except provenance.BadMachine as error:
        raise typer.BadParameter(str(error)) from None


MachineOption = Annotated[str | None, typer.Option(callback=check_machine, help=WHOSE)]
Machines = Annotated[
    str | None,
    typer.Option(callback=check_machine, help=f"{WHOSE} `{ALL}`: every machine's."),
]


def print_version(is_requested: bool) -> None:
    """Print the version, the commit and the protocol, and end the command."""
    if not is_requested:
        return
    version = metadata.version("framebench")
    code = (provenance.find_commit() or "no commit")[:10]
    if provenance.is_dirty():
        code += ", changed since"
    typer.echo(f"framebench {version} ({code}), protocol {protocol.VERSION}")
    raise typer.Exit


VERSION_OPTION = typer.Option(
    "--version",
    callback=print_version,
    is_eager=True,
    help="version, commit and protocol",
)


@app.callback()
def framebench(version: Annotated[bool, VERSION_OPTION] = False) -> None:
    """Which framework, with which memory strategy, trains or serves this model in this much memory,
    and what does it cost?
    """


def choose_cases(
    selectors: list[str] | None,
    default: list[Case],
    profile: str | None = None,
    size: str = DEFAULT_SIZE,
) -> list[Case]:
    """Return the cases that the selectors name, each once; without selectors the profile's.

    With a profile, selectors name cases of it. Without a profile and selectors, `default` is
    returned. `size` is that of a selector which states none. Raises UnknownCase, also for an empty
    selector.
    """
    profile_cases = profiles.list_profile_cases(profile) if profile else None
    if not selectors:
        return default if profile_cases is None else profile_cases
    for selector in selectors:
        if not selector.strip("/ "):
            raise UnknownCase(
                f"{selector!r} names no case; `*` names all, framebench list prints them",
            )
    cases: list[Case] = []
    for selector in selectors:
        cases += select(selector, size, profile_cases, ranks=True)
    return drop_duplicates(cases)


@contextmanager
def lock_for_measuring(
    results: Path, describe_saved: Callable[[], str] = lambda: ""
) -> Iterator[None]:
    """Lock the results folder in this context, so that nothing else measures into it.

    Checks first whether records can be written. In the context Ctrl-C ends the command with exit
    code 130, and any OSError with exit code 1. The message ends with the text of `describe_saved`,
    which says what was saved. Raises Busy if another process is measuring.
    """
    try:
        check_writable(results / "records" / provenance.read_machine_name())
        with lock_results(results):
            yield
    except KeyboardInterrupt:
        fail(f"interrupted{describe_saved()}", 130)
    except OSError as error:
        fail(f"{describe_error(error)}{describe_saved()}", 1)


@contextmanager
def show_progress(name: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a text on the progress of the command, after its name.

    On a terminal each text replaces the one before, in the last line. Elsewhere the newest text is
    printed after REPORT_S seconds, and then ever more rarely, unless it was printed before.
    """
    newest = name
    ended = threading.Event()

    def print_newest() -> None:
        printed = name
        wait_s = REPORT_S
        while not ended.wait(wait_s):
            if newest != printed:
                printed = newest
                say(printed)
                wait_s = min(SLOWER * wait_s, MOST_REPORT_S)

    printer = threading.Thread(target=print_newest, daemon=True)
    with err.status(name) as status:

        def show(text: str) -> None:
            nonlocal newest
            newest = f"{name}: {text}"
            status.update(newest)

        if not err.is_terminal:
            printer.start()
        try:
            yield show
        finally:
            ended.set()
            if printer.is_alive():
                printer.join()


@contextmanager
def show_work(text: str) -> Iterator[None]:
    """Show on standard error a text for as long as the command is at work.

    On a terminal the text stands in the last line. Elsewhere it is printed once, at the beginning.
    """
    if err.is_terminal:
        with err.status(text):
            yield
    else:
        say(text)
        yield


@contextmanager
def open_session(results: Path, selector: str, keep: bool = False) -> Iterator[Session]:
    """Yield a new session of this code, or an interrupted one, and close it after the context.

    A session that an error or Ctrl-C ends stays open, so that the same command resumes it. With
    `keep` a file says afterwards that the session was completed. Ends the command and raises as
    `lock_for_measuring` does.
    """
    session: Session | None = None

    def describe_saved() -> str:
        if session is not None and session.has_results(results):
            return "; what was measured is kept, and the same command goes on from there"
        return "; nothing was measured yet"

    with lock_for_measuring(results, describe_saved):
        session = Session.open(results, provenance.name_code(), selector)
        yield session
        session.close(results, keep)


def repeat_options(results: Path, budget: int | None = None, threshold: str | None = None) -> str:
    """Return options of this command that a suggested command has to repeat.

    They are such as ` --budget 512MiB --results mine`, to be put behind the suggested command. The
    folder is left out if it is the one that commands read or write by default.
    """
    text = ""
    if budget is not None:
        mib, remaining_bytes = divmod(budget, UNITS["mib"])
        text += f" --budget {budget}B" if remaining_bytes else f" --budget {mib}MiB"
    text += format_options(threshold=threshold)
    return text + provenance.repeat_results(results)


def format_options(**values: str | None) -> str:
    """Return the options that have a value as they are typed, such as ` --size tiny`."""
    text = ""
    for name, value in values.items():
        if value:
            text += f" --{name} {shlex.quote(value)}"
    return text


def suggest_measuring(selector: str, results: Path) -> str:
    """Return the end of a message: the command that measures a selector's cases.

    It is "" without a selector.
    """
    if not selector:
        return ""
    duration = ""
    if selector.endswith(f"/{FULL_SIZE}"):
        duration = f" (size {FULL_SIZE} is for GPUs, and takes hours on a CPU)"
    return f"; measure first{duration}: framebench run '{selector}'{repeat_options(results)}"


def check_writable(folder: Path) -> Path:
    """Return the folder if files could be written into it. Raises OSError.

    A folder that is not there yet is judged by the nearest of its parents that is.
    """
    for path in (folder, *folder.absolute().parents):
        if os.path.lexists(path):
            break
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "Not a folder", str(path))
    if not can_access(path, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "Nothing can be written there", str(path))
    return folder


def can_access(path: Path, mode: int) -> bool:
    """Return whether this process has these rights, by its effective user where that is known."""
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def check_folder_option(value: Path | None) -> Path | None:
    """Return an option's folder if it can be written. Raises typer.BadParameter."""
    if value is None:
        return None
    try:
        return check_writable(value)
    except OSError as error:
        raise typer.BadParameter(describe_error(error)) from None


def check_file_option(value: Path | None) -> Path | None:
    """Return an option's file if it can be written. Raises typer.BadParameter."""
    if value is None:
        return None
    if value.is_dir():
        raise typer.BadParameter(f"{value} is a folder; name a file")
    if value.exists() and not can_access(value, os.W_OK):
        raise typer.BadParameter(f"Nothing can be written there: {value}")
    if store.is_stream(value):  # nothing is made in its folder
        return value
    folder = Path(os.path.realpath(value)).parent  # a link stays, and its target is written
    if not folder.exists():
        raise typer.BadParameter(f"there is no folder {folder}")
    check_folder_option(folder)
    return value


def report_failures(statuses: list[str], what: str = "cases") -> bool:
    """Print how many of these statuses are failures, and return whether any is.

    The statuses `oom` and `unsupported` are answers, and no failures. `what` is the plural noun in
    the message.
    """
    failed = [status for status in statuses if status in BROKEN]
    if failed:
        kinds = ", ".join(sorted(set(failed)))
        say(f"{len(failed)} of {len(statuses)} {what} failed ({kinds}); the others stand")
    return bool(failed)


def find_machine(
    results: Results,
    named: str | None,
    is_suitable: Callable[[str], bool] = lambda name: True,
    by_processor: bool = True,
) -> str:
    """Return the machine whose records a command reads.

    That is the named machine. Without a name it is the first suitable one: this machine comes
    first, then those with this processor, then the others. If none is suitable, it is the first of
    all. A message then says which machine it is, and names the others.

    Ends the command if `all` is named, if there are no records, or if the named machine has none.

    Args:
        results: The results.
        named: The machine that the user named, or None.
        is_suitable: Whether the machine of this name has what the command needs.
        by_processor: False if a machine with this processor does not come before others, as for
            files that are published.
    """
    from framebench.analysis.results import NoRecords, UnknownMachine

    provenance.read_machine_name()  # raises for a bad name, also where there are no records
    if named == ALL and results.machines:
        machines = ", ".join(results.machines)
        fail(f"this is about one machine, not {ALL}; choose from: {machines}", 2)
    processor = provenance.describe_hardware()["cpu"] if by_processor else None
    try:
        machine = results.choose_machine(named, is_suitable, processor)
    except NoRecords as error:
        fail(str(error), 1)
    except UnknownMachine as error:
        fail(str(error), 2)
    others = ", ".join(name for name in results.machines if name != machine)
    if named is None and others:
        reason = results.explain_choice(machine, processor)
        if not reason and machine != results.choose_machine(processor=processor):
            reason = "which has more of what was asked for"
        chosen = f"{machine}, {reason}" if reason else machine
        say(f"machine {chosen}; --machine takes the records of another: {others}")
    return machine


def find_machines(
    results: Results,
    named: str | None,
    is_suitable: Callable[[str], bool] = lambda name: True,
) -> list[str]:
    """Return the one machine that `find_machine` returns, or all machines if `all` is named.

    The one with the most records comes first.
    """
    if named == ALL and results.machines:
        return results.machines
    return [find_machine(results, named, is_suitable)]


def find_answering_machines(
    results: Results,
    named: str | None,
    count_answers: Callable[[str], tuple[int, ...]] = lambda name: (1,),
    limit: int | None = None,
) -> list[str]:
    """Return the machines whose records answer a question together, at most `limit`.

    That is the named machine alone. Without a name this machine comes first, or else one with this
    processor; others follow for what it has not measured. If neither of the two has measured
    anything, it is the best of the others alone.

    `count_answers` returns numbers by which machines are compared, the most important first: how
    much a machine has measured of the question itself, and then of what else helps to answer it.
    Machines with only zeros are left out.
    """
    if named is not None:
        return [find_machine(results, named)]
    processor = provenance.describe_hardware()["cpu"]
    counts = {}
    preferred = []
    others = []
    for name in results.order_machines(processor):
        counts[name] = count_answers(name)
        if not any(counts[name]):
            continue
        if results.explain_choice(name, processor):
            preferred.append(name)
        else:
            others.append(name)
    # stable: among equals the one with most records comes first
    others.sort(key=lambda name: counts[name], reverse=True)
    answering = [*preferred, *others][:limit]
    if len(answering) < 2 or not preferred:
        return [find_machine(results, None, lambda name: name in answering[:1])]
    first, *others = answering
    reason = results.explain_choice(first, processor)
    say(
        f"machine {first}, {reason}; what it has not measured comes from {', '.join(others)} "
        "(--machine NAME takes one alone)",
    )
    return answering


class ParsedSelector(NamedTuple):
    """The fields of a selector; None for one that it leaves out, or that is `*`."""

    workload: str | None = None
    framework: str | None = None
    scenario: str | None = None
    strategy: str | None = None
    batch: int | None = None
    size: str | None = None


def parse_selector(selector: str | None) -> ParsedSelector:
    """Return the fields of a selector that names one question, not a list of cases.

    A selector may have a size without a batch before it. Raises UnknownCase.
    """
    complete_selector = add_missing_batch(refuse_file(selector or ""))
    fields: dict[str, Any] = {}
    for name, text in split_selector(complete_selector, "*").items():
        if text not in ("*", "b*"):
            fields[name] = text
    batch = fields.pop("batch", None)
    if batch is None:
        return ParsedSelector(**fields)
    if not re.fullmatch(r"b[1-9]\d{0,6}", batch):
        raise UnknownCase(f"{batch!r} in {selector!r} is no batch; write for instance b8")
    return ParsedSelector(**fields, batch=int(batch[1:]))


def parse_bytes(text: str) -> int:
    """Return the bytes that a text names. Raises typer.BadParameter.

    The text is such as `2GiB`, `512 mib`, `256MB` (10^6 bytes) or `1e9B`, and at least 0.1 MiB.
    """
    match = re.fullmatch(r"\s*([\d.]+(?:e\d+)?)\s*([a-z]+)\s*", text.lower())
    try:
        byte_count = int(float(match[1]) * UNITS[match[2]]) if match else 0
    except (ValueError, OverflowError, KeyError):  # `1.2.3MiB`, `1e999B`, `3 apples`
        byte_count = 0
    if not LEAST_BYTES <= byte_count <= MOST_BYTES:
        raise typer.BadParameter(
            f"{text!r} is no size of memory; write a number with its unit, for instance 512MiB "
            "(2^20 bytes) or 256MB (10^6 bytes), and at least 0.1 MiB, since no model fits in less"
        )
    return byte_count


BUDGET_HELP = "Memory for tensors and workspaces, such as 1GiB. Default: all that --device has."
Budget = Annotated[int | None, typer.Option(parser=parse_bytes, metavar="SIZE", help=BUDGET_HELP)]
NO_BUDGET = "how much memory? --budget 16GiB, or --device a100-40gb for one that is not here"


def echo(text: object = "") -> None:
    """Print a text on stdout, its control characters escaped."""
    typer.echo(escape_control(str(text)))


def say(message: object) -> None:
    """Print a message on stderr unchanged: brackets in it are no markup."""
    # escaped before, since rich drops some control characters without a sign
    text = escape_control(str(message))
    err.print(text, markup=False, highlight=False, soft_wrap=True)


def end_command(succeeded: bool | None) -> NoReturn:
    """End the command with exit code 0, with 1 if it failed or its answer is no.

    None stands for a question without an answer: exit code 3.
    """
    if succeeded is None:
        raise typer.Exit(3)
    raise typer.Exit(0 if succeeded else 1)


def fail(message: str, code: int) -> NoReturn:
    """Print what is wrong on stderr, and end the command with this exit code."""
    with suppress(OSError):  # if stderr is a log on a full disk, the exit code still tells
        say(f"framebench: {message}")
    sys.exit(code)
