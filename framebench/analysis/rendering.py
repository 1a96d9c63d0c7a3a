"""A finished table, and how it is rendered: on a terminal by rich, and in Markdown."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

if TYPE_CHECKING:  # pandas takes longer to import than most tables of text to print
    import pandas as pd

MIB = 2**20
IN_SHORT = ", in short"  # the ending of a table's title if it has only some rows of another table
MISSING = "-"  # the cell of a value that nobody measured
NOTES = 12  # below a table on a terminal; documents have them all
LONGEST_WORD = 24  # characters: a longer word among others is code, and may be broken
# Priorities of columns. On a narrow terminal those of the highest number are left out first, from
# right to left.
ESSENTIAL, NORMAL, DETAIL = range(3)
PRIORITIES = {"essential": ESSENTIAL, "normal": NORMAL, "detail": DETAIL}
COLUMNS = Path(__file__).with_name("columns.csv")  # of this folder's tables
MARKUP = str.maketrans(
    {"\\": r"\\", "|": r"\|", "<": "&lt;", "\n": " ", "`": r"\`", "[": r"\[", "*": r"\*"}
)


@dataclass(frozen=True)
class TableColumn:
    """A column of a table: its name, unit, meaning and priority, and how its values are printed.

    `form` is the format of a number, which is multiplied by `scale` first, or a function of the
    value.
    """

    name: str
    form: str | Callable[[Any], str] = ""
    scale: float = 1
    unit: str = ""
    meaning: str = ""
    priority: int = NORMAL

    @property
    def heading(self) -> str:
        """Return the name with the unit."""
        return f"{self.name} {self.unit}".rstrip()

    def text(self, value: Any) -> str:
        """Return a value as it is printed.

        A text, such as a status in the place of a number, is unchanged. A missing value is a dash.
        """
        if isinstance(value, str):
            return value
        if is_missing(value):
            return MISSING
        if callable(self.form):
            return self.form(value)
        return format(value * self.scale, self.form)


def read_columns(table: str, **forms: Callable[[Any], str]) -> dict[str, TableColumn]:
    """Return the columns of a table in `columns.csv` by their keys, in their order.

    `forms` are functions that print the values of a column, by its key.
    """
    columns = {}
    with COLUMNS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["table"] != table:
                continue
            form = forms.get(row["key"], row["form"])
            priority = PRIORITIES[row["priority"]]
            columns[row["key"]] = TableColumn(
                row["name"], form, float(row["scale"]), row["unit"], row["meaning"], priority
            )
    return columns


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN or pandas' NA."""
    if value is None:
        return True
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, str | int):
        return False
    import pandas as pd  # all other values are from pandas

    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


def format_number(value: float | None, form: str, scale: float = 1) -> str:
    """Return a number in this format after it was multiplied, or a dash if it is missing."""
    return TableColumn("", form, scale).text(value)


def format_mib(count: float | None, form: str = ",.1f") -> str:
    """Return bytes in MiB, without the unit."""
    return format_number(count, form, 1 / MIB)


@dataclass(frozen=True, eq=False)
class Table:
    """A table.

    `data` has the values of each column; those that `shown` names are printed, in that order. A
    column without any value is left out, unless it says what a row is about.
    """

    title: str
    caption: str
    data: pd.DataFrame | Mapping[str, list[Any]] = field(repr=False)
    shown: Mapping[str, TableColumn]
    # the first columns say what a row is about and are aligned left, the others are aligned right
    left: int = 2
    notes: tuple[str, ...] = ()
    machine: str = ""
    cases: tuple[str, ...] = ()  # the case of each row, where a row is one case

    @classmethod
    def of_text(
        cls,
        title: str,
        caption: str,
        head: Sequence[str | TableColumn],
        rows: Sequence[Sequence[str]],
        **more: Any,
    ) -> Table:
        """Return a table of cells that are text already.

        `head` has the columns, or only their headings; `more` are other fields of the table.
        """
        shown: dict[str, TableColumn] = {}
        for place, column in enumerate(head):
            if isinstance(column, str):
                column = TableColumn(column)
            name = column.heading
            if name in shown:  # two columns may have the same heading
                name = f"{name}, {place}"
            shown[name] = column
        data: dict[str, list[str]] = {name: [] for name in shown}
        for row in rows:
            for name, text in zip(shown, row, strict=True):
                data[name].append(text)
        return cls(title, caption, data, shown, **more)

    @property
    def key(self) -> str:
        """Return the name in documents: `xeon-2core: transformer train, batch 4, size cpu`."""
        return f"{self.machine}: {self.title}" if self.machine else self.title

    @property
    def is_short(self) -> bool:
        """Return whether the table has only some rows of another one."""
        return self.title.endswith(IN_SHORT)

    @property
    def head(self) -> tuple[str, ...]:
        """Return the headings."""
        return tuple(self.shown[name].heading for name in self.texts)

    @cached_property
    def texts(self) -> dict[str, list[str]]:
        """Return the cells of each printed column as text."""
        texts = {}
        for place, (name, column) in enumerate(self.shown.items()):
            cells = [column.text(value) for value in self.data[name]]
            is_empty = set(cells) == {MISSING}
            if place < self.left or not is_empty:
                texts[name] = cells
        return texts

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """Return the cells of each row as text."""
        return tuple(zip(*self.texts.values()))

    def terminal(self, console: Console) -> None:
        """Print the table as wide as the console at most, with its caption and notes.

        Columns for which it is too narrow are named below the table.
        """

        def say(text: str, style: str = "") -> None:
            console.print(text, style=style, markup=False, highlight=False)

        chosen = choose_columns(self, console.width)
        say(self.key, "italic")
        console.print(make_grid(self, chosen, console.width))
        hidden = [self.shown[name].heading for name in self.texts if name not in chosen]
        if hidden:
            say(f"No room in {console.width} columns for: {', '.join(hidden)}", "italic")
            if not console.is_terminal:
                say("More columns: COLUMNS=200 framebench ...", "italic")
        if self.caption:
            say(self.caption, "dim italic")
        for note in self.notes[:NOTES]:
            say(f"- {note}")
        more = len(self.notes) - NOTES
        if more > 0:
            say(f"- {more} more: ask for fewer cases to see all of their notes")
        say("")

    def markdown(self) -> str:
        """Return the table in GitHub's syntax; text from files cannot break out of its cell."""
        alignment = []
        for place in range(len(self.head)):
            is_left = place < self.left
            alignment.append("---" if is_left else "---:")
        lines = [join_cells(self.head), f"| {' | '.join(alignment)} |"]
        lines += map(join_cells, self.rows)
        parts = [f"### {self.title}", "\n".join(lines)]
        if self.notes:
            parts.append("\n".join(f"- {escape_markup(note)}" for note in self.notes))
        if self.caption:
            parts.append(escape_markup(self.caption))
        return "\n\n".join(parts) + "\n"


def choose_columns(table: Table, width: int) -> list[str]:
    """Return the names of the columns that fit so many characters without a broken word.

    The first column always stays; of the others those stay that matter most, from left to right.
    """
    shown = list(table.texts)
    while len(shown) > 1 and count_least_characters(table, shown) > width:
        # `max` takes the first of equal ones, which is the rightmost
        rightmost_first = reversed(shown[1:])
        shown.remove(max(rightmost_first, key=lambda name: table.shown[name].priority))
    return shown


def count_least_characters(table: Table, names: Sequence[str]) -> int:
    """Return the width of these columns with borders and padding, if no word is broken."""
    return 1 + sum(3 + find_minimum_width(table, name) for name in names)


def find_minimum_width(table: Table, name: str) -> int:
    """Return the width of a column that breaks no word but long ones of code.

    A cell of one word, such as the id of a case, is never broken. One of details is folded once at
    most: without room for it the column is left out.
    """
    least = 1
    if table.shown[name].priority == DETAIL:
        least = math.ceil(max(map(len, table.texts[name]), default=1) / 2)
    for text in (table.shown[name].heading, *table.texts[name]):
        longest = max(map(len, text.split()), default=0)
        if " " in text.strip():
            longest = min(longest, LONGEST_WORD)
        least = max(least, longest)
    return least


def choose_widths(table: Table, names: Sequence[str], width: int) -> dict[str, int]:
    """Return the characters of each column: no word is broken, and few columns are folded.

    What is left of the width goes, character by character, to the column whose longest cell takes
    most lines. Nothing is returned where the columns do not fit even so, since rich then shares the
    width out by itself.
    """
    remaining = width - count_least_characters(table, names)
    if remaining < 0:
        return {}
    widths = {name: find_minimum_width(table, name) for name in names}
    longest = {name: max(map(len, table.texts[name]), default=0) for name in names}
    for _ in range(remaining):
        lines = {name: math.ceil(longest[name] / widths[name]) for name in names}
        tallest = max(names, key=lambda name: lines[name])
        if lines[tallest] <= 1:
            break
        widths[tallest] += 1
    return widths


def make_grid(table: Table, names: Sequence[str], width: int) -> Grid:
    """Return the grid of these columns. Where space is short, cells of several words are folded."""
    labels = list(table.shown)[: table.left]
    widths = choose_widths(table, names, width)
    grid = Grid()
    for name in names:
        longest = max(map(len, table.texts[name]), default=0)
        least = find_minimum_width(table, name)
        heading = fill(table.shown[name].heading, max(least, longest), break_long_words=False)
        grid.add_column(
            Text(heading),
            justify="left" if name in labels else "right",
            overflow="fold",
            width=widths.get(name),
        )
    for cells in zip(*(table.texts[name] for name in names)):
        grid.add_row(*map(Text, cells))
    return grid


def join_cells(cells: Sequence[str]) -> str:
    """Return one row of a table in Markdown."""
    return f"| {' | '.join(map(escape_markup, cells))} |"


def escape_markup(text: str) -> str:
    """Return the text without anything that Markdown or HTML would take for markup."""
    return text.translate(MARKUP)
