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

# by kind, how many names of a path below it tell the file: of one machine, or of one release too
NAMED_BY = {"claims": 1, "fits": 2}


class SavedAnswer(BaseModel):
    """A search or the result of a probe: whatever it says, it says where that was found."""

    model_config = ConfigDict(extra="allow")
    provenance: Provenance

    @property
    def contents(self) -> str:
        """Return the fields as JSON, without the names of machine and node."""
        return self.model_dump_json(exclude={"provenance": {"machine", "node"}})


class AnswerCounts(NamedTuple):
    """The result of collecting the answers of a folder."""

    added: int
    present: int  # were there already


def add_answers(
    folder: Path, into: Path, name_machine: Callable[[Provenance], str]
) -> AnswerCounts:
    """Add what a results folder has and the other lacks.

    `name_machine` gives the name of a machine in the other folder. What cannot be read is named in
    a RecordWarning. Raises OSError if a file cannot be written.
    """
    added = already_present = 0
    for kind, depth in NAMED_BY.items():
        present = {answer.contents for _, answer in read_answers(into / kind)}
        for file, answer in read_answers(folder / kind):
            if answer.contents in present:
                already_present += 1
                continue
            present.add(answer.contents)
            name = name_machine(answer.provenance)
            origin = rename_origin(answer.provenance, name)
            answer = answer.model_copy(update={"provenance": origin})
            release = file.relative_to(folder / kind).with_suffix("").parts[1:depth]
            target = into.joinpath(kind, name, *release)
            store.append(answer, target.with_name(target.name + store.SUFFIX))
            added += 1
    return AnswerCounts(added, already_present)


def rename_origin(origin: Provenance, name: str) -> Provenance:
    """Return a provenance with `name` as its machine, and the machine that it had as its node."""
    if origin.machine == name:
        return origin
    return origin.model_copy(update={"machine": name, "node": origin.node or origin.machine})


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
