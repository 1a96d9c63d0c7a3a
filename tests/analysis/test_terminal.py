"""Tables on a terminal are no wider than it, break no words, and name what has no room."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from framebench.analysis.rendering import DETAIL, ESSENTIAL, Table, TableColumn
from framebench.analysis.results import Results
from framebench.publish.tables import make_document_tables, make_tables
from tests.sample_records import RESULTS

HEAD = (
    "framework",
    TableColumn("strategy", priority=ESSENTIAL),
    TableColumn("peak MiB", priority=ESSENTIAL),
    TableColumn("verified", priority=DETAIL),
    "instrument",
)
ROW = ("torch", "amp_bf16+checkpoint", "1,024.0", "8e-08", "host.rss")


@pytest.fixture(scope="module")
def tables() -> list[Table]:
    """Return one table for each set of headings."""
    results = Results(RESULTS)
    by_headings = {}
    for table in make_document_tables(results, make_tables(results.records, results)):
        by_headings[table.head] = table
    return list(by_headings.values())


def print_table(table: Table, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), record=True)
    table.terminal(console)
    return console.export_text()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_table_fits_the_terminal(width, tables):
    assert len(tables) > 10
    for table in tables:
        assert max(map(len, print_table(table, width).splitlines())) <= width, table.title


@pytest.mark.parametrize("width", [80, 120])
def test_ids_of_cases_and_numbers_are_not_broken(width):
    case = "transformer/torch/train/amp_bf16+checkpoint/b4/cpu"
    rows = ((case, "a reason of some length that needs several lines", "1,024.0", "host.rss"),)
    table = Table.of_text("title", "", ("case", "reason", "peak MiB", "instrument"), rows)

    words = print_table(table, width).split()

    assert case in words
    assert "1,024.0" in words


@pytest.mark.parametrize(
    ("width", "hidden"),
    [(120, ""), (64, "verified"), (50, "verified, instrument")],
)
def test_columns_are_left_out_by_priority_from_the_right(width, hidden):
    table = Table.of_text("title", "", HEAD, (ROW,))
    words = " ".join(print_table(table, width).split())
    named = words.partition(f"No room in {width} columns for: ")[2]
    assert named.partition(" More columns: COLUMNS=200")[0] == hidden


def test_the_first_column_always_stays():
    head = ("case", TableColumn("verdict", priority=ESSENTIAL))
    printed = print_table(Table.of_text("title", "", head, (("x" * 20, "slower"),)), 25)
    assert "x" * 20 in printed
    assert "for: verdict" in printed


@pytest.mark.parametrize("text", ["[red]x", "[/]", "a|b"])
def test_text_from_records_is_shown_as_it_is(text):
    assert text in print_table(Table.of_text("t", "c", ("a",), ((text,),)), 120)
    assert "x" in print_table(Table.of_text("t", "c", ("a",), (("\x1b[31mx",),)), 120)


def test_columns_of_sentences_share_the_width():
    """Else the one with the longest text would be a tower of single words."""
    rows = (("B3", "word " * 12, "word " * 8, "word " * 15),)
    head = ("id", "claim", "measured", "verdict")
    printed = print_table(Table.of_text("title", "", head, rows, left=4), 100)
    assert sum(line.startswith("│") for line in printed.splitlines()) == 3
