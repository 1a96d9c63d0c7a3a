"""A table on a terminal: columns are left out before words are broken, and are named, with what is the same in every row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

# What goes first where there is no room, by its heading; then comes the rightmost that is not among KEEP
SPARE = (
    "records", "proof of effect", "own counter", "own counter MiB", "base throughput", "cold MiB", "of reference", "collector",
    "waiting", "libraries MiB", "held elsewhere MiB", "first s", "p", "minimum", "blocks", "verified", "measured at",
    "of budget",
    "kept MiB", "judged by", "range", "95 % interval", "throughput", "effect", "workloads", "what it does",
)  # fmt: skip
KEEP = (
    "verdict", "measured", "step ms", "peak MiB", "ratio", "predicted", "error", "bytes per step", "measured / lower bound",
    "strategy", "torch", "jax", "jittor", "peak x base", "step x base", "needs MiB", "saved most memory", "least MiB", "MiB",
)  # fmt: skip
LONG = 24  # characters: longer words are code, and may be broken after its punctuation; an id of a case has none
PIECE = re.compile(r"[^._(,=]*[._(,=]+|[^._(,=]+")
BORDER, LINES = 1, 3  # characters of the table's edge, and between two columns

Cells = Sequence[str]


def draw(console: Console, head: Cells, rows: Sequence[Cells], left: int) -> list[str]:
    """Print the table as wide as the console at most. Returns the headings of what had no room, in the table's order."""
    columns = list(zip(head, *rows))
    shown = fitting(columns, left, console.width)
    table = Table()
    room = console.width - BORDER - LINES * len(shown)
    wide = dict(zip(shown, _widths([columns[i] for i in shown], room)))
    for i, width in wide.items():
        table.add_column(Text(head[i]), justify="left" if i < left else "right", overflow="fold", width=width)
    for row in rows:
        table.add_row(*(Text("\n".join(wrapped(row[i], width))) for i, width in wide.items()))
    console.print(table)
    return [f"{head[i]}{_of_all(columns[i])}" for i in range(len(head)) if i not in shown]


def fitting(columns: Sequence[Cells], left: int, width: int) -> list[int]:
    """The columns that have room for their longest words, the first of all among them."""
    shown = list(range(len(columns)))
    while len(shown) > 1 and BORDER + sum(LINES + _longest_word(columns[i]) for i in shown) > width:
        shown.remove(_dispensable({i: columns[i] for i in reversed(shown)}, left))
    return shown


def _dispensable(shown: dict[int, Cells], left: int) -> int:
    """The column that goes next, of those shown from right to left; `left` of the table's say what a row is about."""
    others = [i for i, (heading, *_) in shown.items() if heading not in KEEP and i > 0]
    same = [i for i in others if _of_all(shown[i])]
    spare = [i for name in SPARE for i, (heading, *_) in shown.items() if heading == name and i > 0]
    values = [i for i in others if i >= left] or [i for i in shown if i >= left]
    return (same or spare or values or others or [*shown])[0]


def _of_all(column: Cells) -> str:
    """What it says of every row of several, in brackets, or nothing."""
    (value, *others) = {*column[1:]} - {"-"} or {"-"}
    return f" ({value} in every row)" if len(column) > 2 and not others and len(value) <= LONG else ""


def _widths(columns: Sequence[Cells], room: int) -> list[int]:
    """As wide as the longest word of each; what is left goes where it saves most lines."""
    column_widths = [_longest_word(cells) for cells in columns]
    wanted = [max(map(len, cells)) for cells in columns]
    for _ in range(room - sum(column_widths)):
        most = max(range(len(column_widths)), key=lambda i: wanted[i] / column_widths[i])
        if wanted[most] <= column_widths[most]:
            break
        column_widths[most] += 1
    return column_widths


def _longest_word(cells: Cells) -> int:
    return max((len(piece) for cell in cells for word in cell.split() for piece in _pieces(word)), default=1) or 1


def _pieces(word: str) -> list[str]:
    return PIECE.findall(word) if len(word) > LONG else [word]


def wrapped(cell: str, width: int) -> Iterator[str]:
    """Its lines, broken at spaces, and where a word of code is longer than one after punctuation."""
    line = ""
    for word in cell.split():
        for i, piece in enumerate(_pieces(word) if len(word) > width else [word]):
            gap = " " if line and i == 0 else ""
            if line and len(line + gap + piece) > width:
                yield line
                line, gap = "", ""
            line += gap + piece
    yield line
