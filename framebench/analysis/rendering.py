"""A finished table, and how it is rendered: on a terminal by rich, and in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from textwrap import fill
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

MIB = 2**20
NOTES = 12  # below a table on a terminal; documents have them all
LONGEST_WORD = 24  # characters: a longer word among others is code, and may be broken
# Priorities of columns. On a narrow terminal those of the highest number are left out first, from
# right to left.
ESSENTIAL, NORMAL, DETAIL = range(3)


@dataclass(frozen=True)
class TableColumn:
    """A column of a table: its name, unit, meaning and priority, and how its values are printed.

    `form` is the format of a number, which is multiplied by `times` first, or a function of the
    value.
    """

    name: str
    form: str | Callable[[Any], str] = ""
    times: float = 1
    unit: str = ""
    meaning: str = ""
    priority: int = NORMAL

    @property
    def heading(self) -> str:
        """Return the name with the unit."""
        return f"{self.name} {self.unit}".rstrip()

    def text(self, value: Any) -> str:
        """Return a value as it is printed.

        A text stays as it is, such as a status in the place of a number; a missing value is a dash.
        """
        if isinstance(value, str):
            return value
        if is_missing(value):
            return "-"
        if callable(self.form):
            return self.form(value)
        return format(value * self.times, self.form)


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN or pandas' NA."""
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


def format_number(value: float | None, form: str, times: float = 1) -> str:
    """Return a number in this format after it was multiplied, or a dash if it is missing."""
    return TableColumn("", form, times).text(value)


def format_mib(count: float | None, form: str = ",.1f") -> str:
    """Return bytes in MiB, without the unit."""
    return format_number(count, form, 1 / MIB)


@dataclass(frozen=True, eq=False)
class Table:
    """A table.

    `data` has its rows; the columns of `data` that `shown` names are printed, in that order.
    """

    title: str
    caption: str
    data: pd.DataFrame = field(repr=False)
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
        *,
        left: int = 2,
        notes: tuple[str, ...] = (),
        machine: str = "",
    ) -> Table:
        """Return a table of cells that are text already.

        `head` has the columns, or only their headings.
        """
        shown: dict[str, TableColumn] = {}
        for place, column in enumerate(head):
            if isinstance(column, str):
                column = TableColumn(column)
            name = column.heading
            if name in shown:  # two columns may have the same heading
                name = f"{name}, {place}"
            shown[name] = column
        # the columns are named, so that a table without rows has its headings
        data = pd.DataFrame(list(rows), columns=list(shown))
        return cls(title, caption, data, shown, left=left, notes=notes, machine=machine)

    @property
    def key(self) -> str:
        """Return the name in documents: `xeon-2core: transformer train, batch 4, size cpu`."""
        return f"{self.machine}: {self.title}" if self.machine else self.title

    @property
    def head(self) -> tuple[str, ...]:
        """Return the headings."""
        return tuple(column.heading for column in self.shown.values())

    @cached_property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """Return the cells of each row as text."""
        columns = []
        for name, column in self.shown.items():
            columns.append([column.text(value) for value in self.data[name].tolist()])
        return tuple(zip(*columns))

    def terminal(self, console: Console) -> None:
        """Print the table."""
        render_terminal(self, console)

    def markdown(self) -> str:
        """Return the table in Markdown."""
        return render_markdown(self)


@dataclass(frozen=True)
class PrintedColumn:
    """A column as text, with the widths between which it can be laid out."""

    heading: str
    cells: tuple[str, ...]
    priority: int
    is_label: bool  # one of the left columns, which say what a row is about

    @cached_property
    def minimum(self) -> int:
        """Return the width that breaks no word but long ones of code."""
        return max(find_minimum_width(text) for text in (self.heading, *self.cells))

    @cached_property
    def natural(self) -> int:
        """Return the width that needs no second line, but for the heading."""
        longest = max((len(cell) for cell in self.cells), default=0)
        return max(longest, self.minimum)

    @property
    def constant(self) -> str:
        """Return ` (VALUE in every row)` if all rows have the same short value, or else nothing."""
        values = set(self.cells) - {"-"}
        if len(self.cells) < 2 or len(values) > 1:
            return ""
        value = values.pop() if values else "-"
        if len(value) > LONGEST_WORD:
            return ""
        return f" ({value} in every row)"


def find_minimum_width(cell: str) -> int:
    """Return the width that breaks no word, nor a cell of one word such as the id of a case."""
    words = cell.split()
    if len(words) < 2:
        return max(len(cell), 1)
    longest = max(len(word) for word in words)
    return min(longest, LONGEST_WORD)


def render_terminal(table: Table, console: Console) -> None:
    """Print a table as wide as the console at most, with its caption and notes.

    Columns for which it is too narrow are named below the table.
    """

    def say(text: str, style: str = "") -> None:
        console.print(text, style=style, markup=False, highlight=False)

    columns = make_printed_columns(table)
    shown = choose_columns(columns, console.width)
    say(table.key, "italic")
    console.print(make_grid(shown, console.width))
    hidden = [f"{column.heading}{column.constant}" for column in columns if column not in shown]
    if hidden:
        say(f"No room in {console.width} columns for: {', '.join(hidden)}", "italic")
    if table.caption:
        say(table.caption, "dim italic")
    for note in table.notes[:NOTES]:
        say(f"- {note}")
    if len(table.notes) > NOTES:
        say(f"- {len(table.notes) - NOTES} more: ask for fewer cases to see all of their notes")
    say("")


def make_printed_columns(table: Table) -> list[PrintedColumn]:
    """Return the columns of a table as text."""
    columns = []
    for place, column in enumerate(table.shown.values()):
        cells = tuple(row[place] for row in table.rows)
        columns.append(PrintedColumn(column.heading, cells, column.priority, place < table.left))
    return columns


def choose_columns(columns: Sequence[PrintedColumn], width: int) -> list[PrintedColumn]:
    """Return the columns that fit at their minimum widths.

    They are the first, and of the others those that matter most, from left to right.
    """
    shown = list(columns)
    while len(shown) > 1 and count_spare_characters(shown, width) < 0:
        least = max(column.priority for column in shown[1:])
        place = len(shown) - 1
        while shown[place].priority != least:
            place -= 1
        del shown[place]
    return shown


def count_spare_characters(columns: Sequence[PrintedColumn], width: int) -> int:
    """Return the characters that borders, padding and the minimum widths leave."""
    borders = 1 + 3 * len(columns)
    return width - borders - sum(column.minimum for column in columns)


def make_grid(columns: Sequence[PrintedColumn], width: int) -> Grid:
    """Return the grid that rich prints, each column as wide as it needs.

    Where there is too little space, all are narrower by the same share.
    """
    spare = count_spare_characters(columns, width)
    requested = sum(column.natural - column.minimum for column in columns)
    share = 1.0
    if requested:
        share = min(1.0, max(spare, 0) / requested)
    grid = Grid()
    for column in columns:
        column_width = column.minimum + int(share * (column.natural - column.minimum))
        grid.add_column(
            Text(fill(column.heading, column_width, break_long_words=False)),
            justify="left" if column.is_label else "right",
            overflow="fold",
            # a column that is too wide even so is folded by rich
            width=column_width if spare >= 0 else None,
        )
    for cells in zip(*(column.cells for column in columns)):
        grid.add_row(*map(Text, cells))
    return grid


def render_markdown(table: Table) -> str:
    """Return a table in GitHub's syntax; text from files cannot break out of its cell."""
    labels = min(table.left, len(table.head))
    rule = ["---"] * labels + ["---:"] * (len(table.head) - labels)
    lines = [join_cells(table.head), f"| {' | '.join(rule)} |"]
    for row in table.rows:
        lines.append(join_cells(row))
    parts = [f"### {table.title}", "\n".join(lines)]
    if table.notes:
        parts.append("\n".join(f"- {escape_markup(note)}" for note in table.notes))
    if table.caption:
        parts.append(escape_markup(table.caption))
    return "\n\n".join(parts) + "\n"


def join_cells(cells: Sequence[str]) -> str:
    """Return one row of a table in Markdown."""
    escaped = [escape_markup(cell) for cell in cells]
    return f"| {' | '.join(escaped)} |"


MARKUP = str.maketrans(
    {"\\": r"\\", "|": r"\|", "<": "&lt;", "\n": " ", "`": r"\`", "[": r"\[", "*": r"\*"}
)


def escape_markup(text: str) -> str:
    """Return the text without anything that Markdown or HTML would take for markup."""
    return text.translate(MARKUP)
