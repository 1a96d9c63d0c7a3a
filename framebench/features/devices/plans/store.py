"""Predictions as lines of a file for each device and release: `results/planned/<device>/<framework>-<version>.jsonl`.

A line is one case; told again, it is written over. Lines are sorted by case, so that two versions of a file can be compared.
In a checkout these files are published. What its reader asks for is kept beside them, in a folder that git ignores.
"""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from filelock import FileLock
from pydantic import ValidationError

from framebench.engine import runner
from framebench.features.devices.plans.planned import Planned

FOLDER, LOCK = "planned", ".planned.lock"
PUBLISHED, OWN = runner.RESULTS, "own"


class PlannedWarning(UserWarning):
    """A line was skipped."""


def file(results: Path, device: str, framework: str, version: str) -> Path:
    return results / FOLDER / device / f"{framework}-{version}.jsonl"


def own(results: Path) -> Path:
    """The results folder that takes answers of one's own: the same, unless it is the published one."""
    return results / OWN if results.resolve() == PUBLISHED.resolve() else results


def publish(results: Path, chosen: Callable[[Planned], bool]) -> list[Planned]:
    """Move those of one's own answers that are chosen to the published ones. Returns them."""
    moved: list[Planned] = []
    for path in sorted((own(results) / FOLDER).glob("*/*.jsonl")) if own(results) != results else ():
        mine = {case: planned for case, planned in read(path).items() if chosen(planned)}
        for planned in mine.values():
            write(results, planned)
        with FileLock(own(results) / LOCK):
            _replace(path, (line for _, line in _lines(path) if _case(line) not in mine))
        moved += mine.values()
    return moved


def write(results: Path, planned: Planned) -> Path:
    """Put the line in its place; whoever reads meanwhile reads the file as it was."""
    target = file(results, planned.device, planned.framework, planned.framework_version)
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(results / LOCK):
        lines = {_case(line): line for _, line in _lines(target)} | {planned.case: planned.model_dump_json()}
        _replace(target, (line for _, line in sorted(lines.items())))
    return target


def _case(line: str) -> str:
    """Of a line that cannot be read, the line: it is left where it is."""
    try:
        return str(json.loads(line)["case"])
    except (ValueError, TypeError, KeyError):
        return line


def _replace(target: Path, lines: Iterable[str]) -> None:
    handle, temporary = tempfile.mkstemp(dir=target.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "w") as out:
            out.writelines(f"{line}\n" for line in lines)
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: Path) -> dict[str, Planned]:
    """By case. A warning for each line that is no prediction of this version's; nothing where there is no file."""
    found = {}
    for number, line in _lines(path):
        try:
            planned = Planned.model_validate_json(line)
        except ValidationError as error:
            warnings.warn(f"skipped line {number} of {path}: {str(error).splitlines()[0]}", PlannedWarning, stacklevel=2)
        else:
            found[planned.case] = planned
    return found


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        text = path.read_text()
    except FileNotFoundError:
        return
    yield from ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())


def every(results: Path, folder: str = FOLDER) -> Iterator[Planned]:
    """All that can be read, by device, framework and case."""
    for path in sorted((results / folder).glob("*/*.jsonl")):
        yield from read(path).values()
