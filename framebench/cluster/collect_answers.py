"""Add the searches and results of probes of one results folder to another, each once.

They are in `fits/<machine>/<framework>-<version>.jsonl` and `claims/<machine>.jsonl`. Older
versions of framebench wrote a file for each, in folders that had these names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from framebench.records import store
from framebench.records.record_parts import Provenance

CLAIMS, FITS = "claims", "fits"


class SavedAnswer(BaseModel):
    """A search or the result of a probe, of which only the provenance is read as typed fields."""

    model_config = ConfigDict(extra="allow")
    provenance: Provenance

    @property
    def contents(self) -> str:
        """Return the fields as JSON, without the names of machine and node."""
        return self.model_dump_json(exclude={"provenance": {"machine", "node"}})


class AnswerCounts(NamedTuple):
    """The result of collecting the answers of a folder."""

    added: int
    present: int  # that the folder had already


def add_answers(
    folder: Path, into: Path, name_machine: Callable[[Provenance], str]
) -> AnswerCounts:
    """Add the answers that a results folder has and the other lacks, and return their numbers.

    `name_machine` gives the name of a machine in the other folder. What cannot be read is named in
    a RecordWarning. Raises OSError if a file cannot be written.
    """
    added = already_present = 0
    for kind in (CLAIMS, FITS):
        present = {answer.contents for _, answer in read_answers(into / kind)}
        for file, answer in read_answers(folder / kind):
            if answer.contents in present:
                already_present += 1
                continue
            present.add(answer.contents)
            machine = name_machine(answer.provenance)
            provenance = change_machine(answer.provenance, machine)
            answer = answer.model_copy(update={"provenance": provenance})
            store.append(answer, into / kind / name_file(kind, file.relative_to(folder), machine))
            added += 1
    return AnswerCounts(added, already_present)


def name_file(kind: str, source: Path, machine: str) -> Path:
    """Return the path, below the folder of its kind, of the file for an answer.

    `source` is the file of the answer, below its results folder: such as
    `fits/lab/torch-2.13.0.jsonl`, or in the older layout a file in `fits/lab/torch-2.13.0/`.
    """
    if kind == CLAIMS:
        return Path(f"{machine}{store.SUFFIX}")
    _kind, _machine, release, *_ = source.parts
    return Path(machine, f"{release.removesuffix(store.SUFFIX)}{store.SUFFIX}")


def change_machine(provenance: Provenance, name: str) -> Provenance:
    """Return a provenance with `name` as its machine, and the machine that it had as its node."""
    if provenance.machine == name:
        return provenance
    node = provenance.node or provenance.machine
    return provenance.model_copy(update={"machine": name, "node": node})


def read_answers(folder: Path) -> Iterator[tuple[Path, SavedAnswer]]:
    """Yield each readable answer below a folder with its file, of today's layout and the older."""
    faults: list[store.BadRecord] = []
    for file in store.list_answer_files(folder):
        for _, answer in store.parse_file(SavedAnswer, file, faults.append):
            yield Path(file), answer
    for file in store.list_answer_files(folder, ".json"):
        try:
            yield Path(file), store.read_model(SavedAnswer, file)
        except store.BadRecord as error:
            faults.append(error)
    store.warn_of_skipped(faults)
