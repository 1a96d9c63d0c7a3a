"""Planted bugs: edits of the source, and the case in which verification must see them."""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from framebench.suite.case import Case
from framebench.suite.selectors import parse

FOLDER = Path(__file__).parent / "bugs"


class TextIsGone(ValueError):
    """The source no longer has the text that a bug replaces; the message names bug and file."""


class Edit(BaseModel):
    """In `file`, relative to the project's root, `text` becomes `replacement`.

    The text must occur exactly once.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    file: str
    text: str
    replacement: str


class Bug(BaseModel):
    """A bug. `name` says in words what is wrong; name and case together are unique."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    case: str
    edits: tuple[Edit, ...] = ()
    equivalent: str = ""  # why no verification could see it: the values cannot change
    beyond: str = ""  # why this verification cannot be counted on to see it

    @property
    def parsed(self) -> Case:
        """Return the case that it is tried in."""
        return parse(self.case)

    def edit(self, root: Path) -> dict[str, str]:
        """Return the new content of each file that changes, by path. Raises TextIsGone."""
        contents: dict[str, str] = {}
        for edit in self.edits:
            source = contents.get(edit.file) or (root / edit.file).read_text()
            count = source.count(edit.text)
            if count != 1:
                raise TextIsGone(
                    f"bug {self.name!r}: {edit.file} has {count} places, not one, "
                    f"with the text {edit.text!r}"
                )
            contents[edit.file] = source.replace(edit.text, edit.replacement)
        return contents


def read_bugs() -> list[Bug]:
    """Return all planted bugs, in the order of the files."""
    bugs = []
    for file in sorted(FOLDER.glob("*.toml")):
        for row in tomllib.loads(file.read_text())["bug"]:
            bugs.append(Bug.model_validate(row))
    return bugs
