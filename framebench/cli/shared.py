"""What all commands share: the application, the consoles, options, and how a user's mistake ends."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from framebench.measure.session import Session, alone
from framebench.records import provenance
from framebench.records.provenance import ALL
from framebench.suite import profiles
from framebench.suite.case import DEFAULT_SIZE, Case
from framebench.suite.selectors import select

if TYPE_CHECKING:
    from analysis.results import Results as Folder

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
# a pipe or a file has no width of its own: tables must not be folded to 80 columns there
out = Console(width=None if sys.stdout.isatty() else 200)
err = Console(stderr=True)
BROKEN = ("crashed", "timeout", "wrong")  # a measurement that ended so fails the command, not the others

Selectors = Annotated[list[str] | None, typer.Argument(help="workload/framework/scenario/strategy/bN/size; parts may be globs")]
DESCRIBED = "; ".join(f"{name}: {p.summary}" for name, p in profiles.PROFILES.items())
Profile = Annotated[str | None, typer.Option(help=f"{DESCRIBED}. By default $FRAMEBENCH_PROFILE, or quick")]
Rounds = Annotated[int, typer.Option(min=1, help="turns of each process in a block")]
AsJson = Annotated[bool, typer.Option("--json", help="for programs")]
Results = Annotated[Path, typer.Option(help="folder of the records")]
WHOSE = "whose records: by default this machine's, if it has any, or else those of the machine with the most"


def named(machine: str | None) -> str | None:
    """The name of a machine, or `all`. Raises typer.BadParameter."""
    try:
        return machine if machine in (None, ALL) else provenance.as_machine(machine)
    except provenance.BadMachine as error:
        raise typer.BadParameter(str(error)) from None


Machine = Annotated[str | None, typer.Option(callback=named, help=WHOSE)]
Machines = Annotated[str | None, typer.Option(callback=named, help=f"{WHOSE}; `{ALL}` takes every machine's")]


def chosen(
    selectors: list[str] | None, default: list[Case], profile: str | None = None, size: str = DEFAULT_SIZE
) -> list[Case]:
    """The cases that are named; of a profile those that are named, if both are given; without names the default. `size` is
    that of a selector which states none."""
    if not selectors:
        return profiles.profile(profile) if profile else default
    among = profiles.profile(profile) if profile else None
    return list(dict.fromkeys(c for s in selectors for c in select(s, size, among)))


@contextmanager
def measuring(results: Path, interrupted: str = "interrupted") -> Iterator[None]:
    """Start workers in here: alone in the results folder, and ended by SIGTERM as by Ctrl-C, with this word and exit code 130.

    Raises Busy if another process is measuring, OSError if nothing can be written into the folder.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with alone(results):
            yield
    except KeyboardInterrupt:
        fail(interrupted, 130)
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def session(results: Path, selector: str) -> Iterator[Session]:
    """Measure in a session of this code, which is finished if the block comes to its end. Raises Busy and OSError, as above."""
    with measuring(results, "interrupted; what was measured is kept, and the same command goes on from there"):
        opened = Session.open(results, provenance.code(), selector)
        yield opened
        opened.close(results)


def broken(statuses: list[str], what: str = "cases") -> bool:
    """Whether some broke, which is said too. That memory ran out, or that something is unsupported, is an answer."""
    bad = [s for s in statuses if s in BROKEN]
    if bad:
        say(f"{len(bad)} of {len(statuses)} {what} failed ({', '.join(sorted(set(bad)))}); the others stand")
    return bool(bad)


def machine_of(found: Folder, named: str | None) -> str:
    """The machine that a command reads (`WHOSE`); where none was named it says which, and which others there are. Ends the
    command if there are no records, or none of the machine that was named."""
    from analysis.results import NoRecords, UnknownMachine

    try:
        chosen = found.machine(named)
    except (NoRecords, UnknownMachine) as error:
        fail(str(error), 1 if isinstance(error, NoRecords) else 2)
    if others := [name for name in found.machines if name != chosen and named is None]:
        say(f"machine {chosen}; --machine takes the records of another: {', '.join(others)}")
    return chosen


def machines_of(found: Folder, named: str | None) -> list[str]:
    """The same where `all` may be said. The one with the most records comes first."""
    return found.machines if named == ALL and found.machines else [machine_of(found, named)]


def parse_bytes(text: str) -> int:
    """`2GiB`, `512MiB`, `1e9`; at least one byte. Raises typer.BadParameter."""
    units = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "": 1}
    number = text.rstrip("KMGiB")
    try:
        found = int(float(number) * units[text[len(number) :]])
    except (ValueError, KeyError, OverflowError):  # what overflows is `inf`
        found = 0
    if found < 1:
        raise typer.BadParameter(f"{text!r} is no size; write for instance 512MiB or 2GiB")
    return found


def say(message: Any) -> None:
    """Beside the output proper, as it is: brackets in it are no markup."""
    err.print(message, markup=False, highlight=False, soft_wrap=True)


def fail(message: str, code: int) -> NoReturn:
    say(f"framebench: {message}")
    sys.exit(code)
