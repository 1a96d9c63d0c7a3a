"""A planted bug: one or several edits of the source, and the case in which verification must see
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from framebench.suite.case import Case
from framebench.suite.selectors import parse


class TextIsGone(ValueError):
    """The source no longer has the text that a bug replaces; the message names bug, file and
    text.
    """


@dataclass(frozen=True)
class Edit:
    """In `file`, relative to the project's root, `text` becomes `replacement`.

    The text must occur exactly once.
    """

    file: str
    text: str
    replacement: str


@dataclass(frozen=True)
class Bug:
    """A bug. `name` says in words what is wrong; name and case together are unique."""

    name: str
    case_id: str
    edits: tuple[Edit, ...]
    equivalent: str = ""  # why no verification could see it: the values cannot change
    beyond: str = ""  # why this verification cannot be counted on to see it

    @property
    def case(self) -> Case:
        return parse(self.case_id)

    def edited(self, root: Path) -> Mapping[str, str]:
        """The new content of each file that changes. Raises TextIsGone."""
        found: dict[str, str] = {}
        for edit in self.edits:
            source = found.get(edit.file) or (root / edit.file).read_text()
            if (times := source.count(edit.text)) != 1:
                raise TextIsGone(
                    f"bug {self.name!r}: {edit.file} has {times} places, not one, "
                    f"with the text {edit.text!r}"
                )
            found[edit.file] = source.replace(edit.text, edit.replacement)
        return found


def bug(
    name: str,
    case: str,
    file: str,
    text: str,
    replacement: str,
    *more: Edit,
    equivalent: str = "",
    beyond: str = "",
) -> Bug:
    """Make a bug of one edit or more.

    A case without batch and size is meant at batch 4 of the size `tiny`.
    """
    case_id = case if case.count("/") == 5 else f"{case}/b4/tiny"
    return Bug(name, case_id, (Edit(file, text, replacement), *more), equivalent, beyond)
