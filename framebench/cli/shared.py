"""What all commands share: the application, the consoles, options, and how a user's mistake ends."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

import typer
from rich.console import Console

from framebench.engine.session import Session, alone
from framebench.models.spec import names, workload
from framebench.records import provenance
from framebench.records.provenance import ALL
from framebench.suite import profiles, protocol
from framebench.suite.case import DEFAULT_SIZE, Case, UnknownCase
from framebench.suite.selectors import no_file, select

if TYPE_CHECKING:
    from framebench.analysis.results import Results as Folder

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0: done. 1: failed, or the answer is no. 2: usage error. 3: undecided. 130: interrupted.",
)
# the headings of --help
MEASURE, READ, BUDGET, UPKEEP = "Measure", "Read what was measured", "Within a budget of memory", "This machine, and the suite"
MACHINES = "Many machines"
# a pipe or a file has no width of its own: tables must not be folded to 80 columns there
out = Console(width=None if sys.stdout.isatty() else 200)
err = Console(stderr=True)
LEAST = 2**20 // 10  # bytes: less holds no model, and is 0.0 MiB in the tables
UNITS = {"b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
MOST = 2**60  # bytes: more than this no machine has
BROKEN = ("crashed", "timeout", "wrong")  # a measurement that ended so fails the command, not the others

CASES = "Such as transformer/torch/train/fp32/b4/cpu. Parts may be globs, {a,b}, or left out."
Selectors = Annotated[list[str] | None, typer.Argument(metavar="CASES", help=CASES)]
DESCRIBED = "; ".join(f"{name}: {p.summary}" for name, p in profiles.PROFILES.items())
Profile = Annotated[str | None, typer.Option(help=f"{DESCRIBED}. By default $FRAMEBENCH_PROFILE, or quick")]
Rounds = Annotated[int, typer.Option(min=1, help="Rounds per block. Below 3, times are discarded.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Results = Annotated[Path, typer.Option(file_okay=False, help="Folder of the records.")]
Env = Annotated[
    str | None,
    typer.Option(help="`installed` (this interpreter), or the path of a Python. Default: the pinned environments."),
]
WHOSE = "Whose records. Default: this machine's where they answer, else the published ones."


def named(machine: str | None) -> str | None:
    """The name of a machine, or `all`. Raises typer.BadParameter."""
    try:
        return machine if machine in (None, ALL) else provenance.as_machine(machine)
    except provenance.BadMachine as error:
        raise typer.BadParameter(str(error)) from None


Machine = Annotated[str | None, typer.Option(callback=named, help=WHOSE)]
Machines = Annotated[str | None, typer.Option(callback=named, help=f"{WHOSE} `{ALL}`: every machine's.")]


def _tell_version(asked: bool) -> None:
    if asked:
        version, code = metadata.version("framebench"), provenance.commit() or "no commit"
        changed = ", changed since" if provenance.dirty() else ""
        typer.echo(f"framebench {version} ({code[:10]}{changed}), protocol {protocol.VERSION}")
        raise typer.Exit


@app.callback()
def framebench(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="version, commit and protocol")
    ] = False,
) -> None:
    """Which framework, with which memory strategy, trains or serves this model in this much memory, and what does it cost?"""


def chosen(
    selectors: list[str] | None, default: list[Case], profile: str | None = None, size: str = DEFAULT_SIZE
) -> list[Case]:
    """The cases that are named; of a profile those that are named, if both are given; without names the default. `size` is
    that of a selector which states none."""
    if not selectors:
        return profiles.profile(profile) if profile else default
    if "" in (texts := [s.strip("/ ") for s in selectors]):
        raise UnknownCase(f"{selectors[texts.index('')]!r} names no case; `*` names all, framebench list prints them")
    among = profiles.profile(profile) if profile else None
    return list(dict.fromkeys(c for s in selectors for c in select(s, size, among, ranks=True)))


@contextmanager
def measuring(results: Path, kept: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Start workers in here: alone in the results folder, and ended by SIGTERM as by Ctrl-C, with exit code 130.

    `kept` says what is left of what was measured when this ends early, or nothing. Raises Busy if another process is measuring;
    if a record cannot be written, before all or later, the command ends with exit code 1.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        writable(results / "records" / provenance.machine_name())
        with alone(results):
            yield
    except KeyboardInterrupt:
        fail(f"interrupted{kept()}", 130)
    except OSError as error:
        fail(f"{problem(error)}{kept()}", 1)
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def session(results: Path, selector: str, keep: bool = False) -> Iterator[Session]:
    """Measure in a session of this code, which is finished if the block comes to its end, and with `keep` known to be so
    afterwards. As above."""
    opened: list[Session] = []

    def kept() -> str:
        if opened and opened[0].kept(results):
            return "; what was measured is kept, and the same command goes on from there"
        return "; nothing was measured yet"

    with measuring(results, kept):
        opened.append(Session.open(results, provenance.code(), selector))
        yield opened[0]
        opened[0].close(results, keep)


def problem(error: OSError) -> str:
    return f"{error.strerror}: {error.filename}" if error.filename else str(error)


def writable(folder: Path) -> Path:
    """The folder, if files could be written into it, be it there already or not. Raises OSError."""
    there = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "Not a folder", str(there))
    if not _may_write(there, os.X_OK):
        raise PermissionError(errno.EACCES, "Nothing can be written there", str(there))
    return folder


def _may_write(path: Path, more: int = 0) -> bool:
    return os.access(path, os.W_OK | more, effective_ids=os.access in os.supports_effective_ids)


def folder_to_fill(value: Path | None) -> Path | None:
    """An option's folder, before any work is done for it. Raises typer.BadParameter."""
    try:
        return value and writable(value)
    except OSError as error:
        raise typer.BadParameter(problem(error)) from None


def file_to_write(value: Path | None) -> Path | None:
    """Likewise a file."""
    if value and value.is_dir():
        raise typer.BadParameter(f"{value} is a folder; name a file")
    if value and value.exists() and not _may_write(value):
        raise typer.BadParameter(f"Nothing can be written there: {value}")
    if value and not value.absolute().parent.exists():
        raise typer.BadParameter(f"there is no folder {value.parent}")
    folder_to_fill(value and value.absolute().parent)
    return value


def broken(statuses: list[str], what: str = "cases") -> bool:
    """Whether some broke, which is said too. That memory ran out, or that something is unsupported, is an answer."""
    bad = [s for s in statuses if s in BROKEN]
    if bad:
        say(f"{len(bad)} of {len(statuses)} {what} failed ({', '.join(sorted(set(bad)))}); the others stand")
    return bool(bad)


def machine_of(folder: Folder, named: str | None, answers: Callable[[str], bool] = lambda name: True) -> str:
    """The machine that a command reads (`WHOSE`): the first whose records answer. Where none was named it says which, and which
    others there are. Ends the command if there are no records, or none of the machine that was named."""
    from framebench.analysis.results import NoRecords, UnknownMachine

    if named == ALL and folder.machines:
        fail(f"this is about one machine, not {ALL}; choose from: {', '.join(folder.machines)}", 2)
    try:
        chosen = folder.machine(named, answers)
    except (NoRecords, UnknownMachine) as error:
        fail(str(error), 1 if isinstance(error, NoRecords) else 2)
    if others := [name for name in folder.machines if name != chosen and named is None]:
        here = provenance.machine_name()
        first = here if here in others else folder.machines[0]
        lacking = f", as {'this one, ' if first == here else ''}{first}{',' * (first == here)} has no such records"
        why = ", this one" if chosen == here else lacking if first != chosen else ""
        say(f"machine {chosen}{why}; --machine takes the records of another: {', '.join(others)}")
    return chosen


def machines_of(folder: Folder, named: str | None, answers: Callable[[str], bool] = lambda name: True) -> list[str]:
    """The same where `all` may be said. The one with the most records comes first."""
    return folder.machines if named == ALL and folder.machines else [machine_of(folder, named, answers)]


def answering(folder: Folder, named: str | None) -> list[str]:
    """Whose records answer a question: the machine's that is named; or else this one's, and those of the published one where
    this one has not measured."""
    if named is not None or (here := provenance.machine_name()) not in folder.machines:
        return [machine_of(folder, named)]
    if not (published := next((name for name in folder.machines if name != here), None)):
        return [here]
    say(f"machine {here}, this one; what it has not measured comes from {published} (--machine NAME takes one alone)")
    return [here, published]


class Parts(NamedTuple):
    """What a selector says; None for a part that it leaves out, or that is `*`."""

    workload: str | None = None
    framework: str | None = None
    scenario: str | None = None
    strategy: str | None = None
    batch: int | None = None
    size: str | None = None


def parts(selector: str | None) -> Parts:
    """Of a selector that names one question, not a list of cases; before a size the batch may be left out. Raises
    UnknownCase."""
    texts = [text if text not in ("", "*", "b*") else None for text in no_file(selector or "").strip("/").split("/")]
    if len(texts) > 6:
        raise UnknownCase(f"{selector!r} has {len(texts)} parts; a case is workload/framework/scenario/strategy/bN/size")
    if len(texts) == 5 and any(texts[4] in workload(name).sizes for name in names()):
        texts.insert(4, None)
    given: dict[str, Any] = dict(zip(Parts._fields, texts))
    if (batch := given.get("batch")) is not None:
        if not re.fullmatch(r"b[1-9]\d{0,6}", batch):
            raise UnknownCase(f"{batch!r} in {selector!r} is no batch; write for instance b8")
        given["batch"] = int(batch[1:])
    return Parts(**given)


def parse_bytes(text: str) -> int:
    """`2GiB`, `512 mib`, `256MB` (10^6 bytes), `1e9B`; at least 0.1 MiB. Raises typer.BadParameter."""
    parts = re.fullmatch(r"\s*([\d.]+(?:e\d+)?)\s*([a-z]*)\s*", text.lower())
    try:
        byte_count = int(float(parts[1]) * UNITS.get(parts[2], 1)) if parts else 0
    except (ValueError, OverflowError):  # `1.2.3`, `1e999`
        byte_count = 0
    if not 1 <= byte_count <= MOST:
        raise typer.BadParameter(f"{text!r} is no size; write for instance 512MiB or 2GiB")
    assert parts
    if parts[2] not in UNITS:
        raise typer.BadParameter(f"{text!r} {f'has the unit {parts[2]!r}' if parts[2] else 'has no unit'}; write for instance "
                                 f"{parts[1]}MiB (2^20 bytes) or {parts[1]}MB (10^6 bytes)")  # fmt: skip
    if byte_count < LEAST:
        raise typer.BadParameter(f"{text!r} is less than 0.1 MiB, which holds no model; write for instance 512MiB")
    return byte_count


def say(message: Any) -> None:
    """Beside the output proper, as it is: brackets in it are no markup."""
    err.print(message, markup=False, highlight=False, soft_wrap=True)


def fail(message: str, code: int) -> NoReturn:
    say(f"framebench: {message}")
    sys.exit(code)
