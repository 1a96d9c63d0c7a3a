"""Lines in the files of records of a test's results folder: read, copied, changed and planted."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from framebench.records import store
from framebench.records.record import Record

Fields = dict[str, Any]
# What a crash, a full disk or another program may leave in a file of JSON objects, one a line
DAMAGED_LINES = [b"\0" * 100, b"\xff\xfe", b"", b"[1, 2]", b"5", b"null", b"[" * 10**5, b'{"a":']


def add_records(results: Path, *records: Record) -> None:
    """Add records to a results folder, each in the file of its machine and release."""
    for record in records:
        release = f"{record.parsed.framework}-{record.framework_version}"
        store.append(record, store.find_file(results, record.provenance.machine, release))


def list_files(results: Path) -> list[Path]:
    """Return the files of records in a results folder."""
    return sorted((results / "records").glob("*/*.jsonl"))


def load_fields(file: Path) -> list[Fields]:
    """Return the records of a file as its lines have them."""
    lines = file.read_text().split("\n")[:-1]  # a line may have other characters that end lines
    return [json.loads(line) for line in lines]


def save_fields(file: Path, records: Iterable[Fields]) -> None:
    """Write these records as the lines of a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(record) + "\n" for record in records))


def append_lines(file: Path, *texts: str) -> None:
    """Add lines of any text to a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as opened:
        for text in texts:
            opened.write(text + "\n")


def change_line(place: str, change: Callable[[Fields], object]) -> None:
    """Change the record in a line, such as `torch-2.13.0.jsonl:3`."""
    name, _, number = place.rpartition(":")
    records = load_fields(Path(name))
    change(records[int(number) - 1])
    save_fields(Path(name), records)


def change_all(results: Path, change: Callable[[Fields], object]) -> None:
    """Change each record in a results folder."""
    for file in list_files(results):
        records = load_fields(file)
        for record in records:
            change(record)
        save_fields(file, records)


def copy_cases(source: Path, target: Path, cases: Collection[str]) -> None:
    """Add the records of these cases to a results folder, in the files of the same names."""
    for file in list_files(source):
        chosen = [record for record in load_fields(file) if record["case"] in cases]
        if chosen:
            append_lines(target / file.relative_to(source), *map(json.dumps, chosen))
