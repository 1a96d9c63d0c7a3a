"""A finished table: values, and how each column is printed, for a terminal, Markdown, a page or a notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import pandas as pd
from rich.console import Console

from framebench.analysis import terminal

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

MIB = 2**20
NOTES = 12  # below a table on a terminal; documents have them all


class Shown(NamedTuple):
    """How a column is printed: its heading, and the format of a number (after it was multiplied) or a function of the value."""

    head: str
    form: str | Callable[[Any], str] = ""
    times: float = 1

    def text(self, value: Any) -> str:
        """Texts stay as they are, such as a status in the place of a number; what is missing is a dash."""
        if isinstance(value, str):
            return value
        if missing(value):
            return "-"
        return self.form(value) if callable(self.form) else format(value * self.times, self.form)


def missing(value: Any) -> bool:
    """None, NaN, and pandas' NA."""
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


def number(value: float | None, form: str, times: float = 1) -> str:
    return Shown("", form, times).text(value)


def mib(count: float | None, form: str = ",.1f") -> str:
    """Bytes in MiB, without the unit."""
    return number(count, form, 1 / MIB)


@dataclass(frozen=True, eq=False)
class Comparison:
    """`data` has a row for each row of the table; its columns named in `shown` are printed, in that order."""

    title: str
    caption: str
    data: pd.DataFrame = field(repr=False)
    shown: Mapping[str, Shown]
    left: int = 2  # the first columns are text, the others are aligned right
    notes: tuple[str, ...] = ()
    machine: str = ""
    cases: tuple[str, ...] = ()  # the case of each row, where a row is one case

    @classmethod
    def of_text(cls, title: str, caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], **more: Any) -> Comparison:
        """One whose cells are text already."""
        names = [f"{name}, {i}" if name in head[:i] else name for i, name in enumerate(head)]
        return cls(title, caption, pd.DataFrame(list(rows), columns=names), dict(zip(names, map(Shown, head))), **more)

    @property
    def key(self) -> str:
        """How documents ask for it: `xeon-2core: transformer train, batch 4, size cpu`."""
        return f"{self.machine}: {self.title}" if self.machine else self.title

    @property
    def head(self) -> tuple[str, ...]:
        return tuple(column.head for column in self.shown.values())

    @cached_property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The cells as text."""
        columns = ([column.text(value) for value in self.data[name].tolist()] for name, column in self.shown.items())
        return tuple(zip(*columns))

    def terminal(self, console: Console) -> None:
        console.print(self.key, style="italic", markup=False, highlight=False)
        without = terminal.draw(console, self.head, self.rows, self.left)
        if without:
            message = f"No room in {console.width} columns for: {', '.join(without)}"
            console.print(message, style="italic", markup=False, highlight=False)
        if self.caption:
            console.print(self.caption, style="dim italic", markup=False, highlight=False)
        for note in self.notes[:NOTES]:
            console.print(f"- {note}", markup=False, highlight=False)
        if (more := len(self.notes) - NOTES) > 0:
            console.print(f"- {more} more: ask for fewer cases to see all of their notes", highlight=False)
        console.print()

    def markdown(self) -> str:
        """GitHub's table syntax; what comes from files cannot break out of its cell."""

        def line(cells: Sequence[str]) -> str:
            return f"| {' | '.join(cells)} |"

        rule = ["---" if i < self.left else "---:" for i in range(len(self.head))]
        body = [line([_safe(c) for c in self.head]), line(rule), *(line([_safe(c) for c in row]) for row in self.rows)]
        notes = "\n".join(f"- {_safe(note)}" for note in self.notes)
        return "\n\n".join(filter(None, (f"### {self.title}", "\n".join(body), notes, _safe(self.caption)))) + "\n"

    @property
    def style(self) -> Styler:
        """For notebooks. The site has templates instead: a Styler has no place for `scope`, links and badges, and gives every
        cell classes that make a page half as long again."""
        styler = (
            self.data[list(self.shown)]
            .style.hide(axis=0)
            .set_caption(escape(self.title))
            .set_uuid(f"{crc32(self.key.encode()):x}")
        )
        printers: Any = {name: column.text for name, column in self.shown.items()}
        styler = styler.format(printers, escape="html").relabel_index(list(self.head), axis=1)
        numbers: list[Any] = list(self.shown)[self.left :]
        return styler.set_properties(subset=numbers, **{"text-align": "right"})

    def _repr_html_(self) -> str:
        return str(self.style.to_html())


def _safe(text: str) -> str:
    for char, escaped in (("\\", r"\\"), ("|", r"\|"), ("<", "&lt;"), ("\n", " "), ("`", r"\`"), ("[", r"\["), ("*", r"\*")):
        text = text.replace(char, escaped)
    return text
