"""Cache predictions in a file for each device and release.

It is `results/planned/<device>/<framework>-<version>.jsonl`. A line is one case; a new prediction
is written over it. Lines are sorted by case, so that two versions of a file can be compared. In a
checkout these files are published; what a user asks for lies in a folder next to them that git
ignores.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from pydantic import ValidationError

from framebench.devices.plans.planned import Planned
from framebench.engine import runner
from framebench.engine.environments import Say
from framebench.engine.locks import hold_lock
from framebench.records import provenance
from framebench.records.lines import parse_json
from framebench.records.store import BadRecord, read_bytes, write_atomically

FOLDER, LOCK = "planned", ".planned.lock"
PUBLISHED, OWN = provenance.PUBLISHED, "own"
MOST_BYTES = 2**26  # of one file; a prediction has some 15 KiB


class PlannedWarning(UserWarning):
    """A line was skipped."""


def find_file(results: Path, device: str, framework: str, version: str) -> Path:
    """Return the path of the file of a device and a release."""
    return results / FOLDER / device / f"{framework}-{version}.jsonl"


def list_versions(results: Path, device: str, framework: str) -> set[str]:
    """Return the releases of a framework that have cached predictions for a device."""
    beginning = f"{framework}-"
    files: list[Path] = []
    for root in list_folders(results):
        files += (root / FOLDER / device).glob(f"{beginning}*.jsonl")
    return {file.stem.removeprefix(beginning) for file in files}


def choose_writable_folder(results: Path) -> Path:
    """Return the results folder that a user's predictions are written to.

    It is `results` itself, or one next to the published predictions if `results` has those. Into an
    installed package nothing is written.
    """
    if results.resolve() != PUBLISHED.resolve():
        return results
    return results / OWN if provenance.CHECKOUT else runner.RESULTS / OWN


def list_folders(results: Path) -> list[Path]:
    """Return the results folders with predictions: the named one, and the user's next to it."""
    return list(dict.fromkeys((results, choose_writable_folder(results))))


def publish(results: Path, is_chosen: Callable[[Planned], bool], say: Say) -> list[Planned]:
    """Move the chosen ones of the user's own predictions to the published ones, and return them."""
    own = choose_writable_folder(results)
    moved: list[Planned] = []
    if own == results:
        return moved
    for path in sorted((own / FOLDER).glob("*/*.jsonl")):
        chosen = {case: planned for case, planned in read(path).items() if is_chosen(planned)}
        for planned in chosen.values():
            write(results, planned, say)
        with lock(own, say):
            lines = read_numbered_lines(path).values()
            rewrite(path, (line for line in lines if find_case(line) not in chosen))
        moved += chosen.values()
    return moved


def lock(results: Path, say: Say) -> AbstractContextManager[None]:
    """Return the lock to hold while predictions of a results folder are written."""
    return hold_lock(results / LOCK, say, f"writes predictions into {results}")


def write(results: Path, planned: Planned, say: Say) -> Path:
    """Write a prediction over that of its case, and return the file."""
    target = find_file(results, planned.device, planned.framework, planned.framework_version)
    results.mkdir(parents=True, exist_ok=True)
    with lock(results, say):
        lines = {find_case(line): line for line in read_numbered_lines(target).values()}
        lines[planned.case] = planned.model_dump_json()
        rewrite(target, (line for _, line in sorted(lines.items())))
    return target


def rewrite(target: Path, lines: Iterable[str]) -> None:
    """Replace a file by these lines; whoever reads meanwhile reads the file as it was."""
    write_atomically("".join(f"{line}\n" for line in lines), target)


def find_case(line: str) -> str:
    """Return the case of a line, or the line itself if it cannot be read."""
    try:
        return str(parse_json(line.encode())["case"])
    except (ValueError, TypeError, KeyError):
        return line


def read(path: Path) -> dict[str, Planned]:
    """Return the predictions of a file by case, or none if there is no file.

    A file that cannot be read, and each line that is no prediction of this version of framebench,
    gives a PlannedWarning.
    """
    predictions = {}
    try:
        lines = read_numbered_lines(path)
    except BadRecord as error:
        warnings.warn(f"skipped {error}", PlannedWarning, stacklevel=2)
        return {}
    for number, line in lines.items():
        try:
            planned = Planned.model_validate_json(line)
        except ValidationError as error:
            message = f"skipped line {number} of {path}: {str(error).splitlines()[0]}"
            warnings.warn(message, PlannedWarning, stacklevel=2)
        else:
            predictions[planned.case] = planned
    return predictions


def read_numbered_lines(path: Path) -> dict[int, str]:
    """Return the lines that are not empty by their numbers, or none if there is no file.

    Raises BadRecord.
    """
    if not os.path.lexists(path):
        return {}
    text = read_bytes(path, MOST_BYTES).decode(errors="replace")
    # `splitlines` would also end a line at U+2028, which JSON has inside of texts
    lines = enumerate(text.split("\n"), 1)
    return {number: line for number, line in lines if line.strip()}


def read_every(results: Path, folder: str = FOLDER) -> Iterator[Planned]:
    """Yield every prediction that can be read, by device, framework and case."""
    for path in sorted((results / folder).glob("*/*.jsonl")):
        yield from read(path).values()
