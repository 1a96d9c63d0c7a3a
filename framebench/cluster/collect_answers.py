"""Add the searches and results of probes of one results folder to another, each once.

They are in `fits/<machine>/<framework>-<version>.jsonl` and `claims/<machine>.jsonl`.
"""

from __future__ import annotations

from collections.abc import Callable
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
        present = {answer.contents for _, answer in store.read_answers(SavedAnswer, into / kind)}
        for place, answer in store.read_answers(SavedAnswer, folder / kind):
            if answer.contents in present:
                already_present += 1
                continue
            present.add(answer.contents)
            machine = name_machine(answer.provenance)
            provenance = change_machine(answer.provenance, machine)
            answer = answer.model_copy(update={"provenance": provenance})
            file = into / kind / f"{machine}{store.SUFFIX}"
            if kind == FITS:  # a file of each release in the machine's folder
                file = into / kind / machine / Path(place.rpartition(":")[0]).name
            store.append(answer, file)
            added += 1
    return AnswerCounts(added, already_present)


def change_machine(provenance: Provenance, name: str) -> Provenance:
    """Return a provenance with `name` as its machine, and the machine that it had as its node."""
    if provenance.machine == name:
        return provenance
    node = provenance.node or provenance.machine
    return provenance.model_copy(update={"machine": name, "node": node})
