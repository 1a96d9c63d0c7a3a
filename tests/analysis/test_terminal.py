"""Tables on a terminal are no wider than it, break no words, and name the columns that have no
room.
"""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from framebench.analysis.rendering import DETAIL, ESSENTIAL, Table, TableColumn
from framebench.analysis.results import Results
from framebench.publish.tables import make_document_tables
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
    return list({table.head: table for table in make_document_tables(Results(RESULTS))}.values())


def print_table(table: Table, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), record=True)
    table.terminal(console)
    return console.export_text()


def find_hidden_columns(table: Table, width: int) -> str:
    """Return the columns that the terminal has no room for, as it names them."""
    words = " ".join(print_table(table, width).split())
    _, found, names = words.partition(f"No room in {width} columns for: ")
    return names if found else ""


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_table_fits_the_terminal(width: int, tables: list[Table]) -> None:
    assert len(tables) > 10
    for table in tables:
        assert max(map(len, print_table(table, width).splitlines())) <= width, table.title


@pytest.mark.parametrize("width", [80, 120])
def test_ids_of_cases_are_not_broken(width: int) -> None:
    case = "transformer/torch/train/amp_bf16+checkpoint/b4/cpu"
    rows = ((case, "a reason of some length that needs several lines", "1,024.0", "host.rss"),)
    table = Table.of_text("title", "", ("case", "reason", "peak MiB", "instrument"), rows)

    assert case in print_table(table, width).split()


def test_columns_are_left_out_by_their_priority() -> None:
    table = Table.of_text("title", "", HEAD, (ROW,))
    assert find_hidden_columns(table, 120) == ""
    assert find_hidden_columns(table, 64) == "verified"
    assert find_hidden_columns(table, 50) == "verified, instrument"


def test_of_equal_columns_the_rightmost_is_left_out() -> None:
    table = Table.of_text("title", "", ("case", "a" * 12, "b" * 12), (("x" * 20, "1", "2"),))
    assert find_hidden_columns(table, 45) == "b" * 12


def test_the_first_column_always_stays() -> None:
    table = Table.of_text(
        "title", "", ("case", TableColumn("verdict", priority=ESSENTIAL)), (("x" * 20, "slower"),)
    )
    assert find_hidden_columns(table, 25) == "verdict"


def test_the_value_of_a_column_that_is_the_same_in_every_row_is_named() -> None:
    rows = (("fp32", "5", "8e-08"), ("checkpoint", "5", "7e-08"), ("offload", "-", "-"))
    table = Table.of_text("title", "", ("strategy", "blocks", "verified"), rows)
    assert find_hidden_columns(table, 20) == "blocks (5 in every row), verified"


def test_the_machine_stands_above_its_table() -> None:
    assert print_table(Table.of_text("title", "", ("a",), (("1",),), machine="m"), 80).startswith(
        "m: title\n"
    )


def test_a_word_that_is_wider_than_the_terminal_is_folded() -> None:
    text = print_table(Table.of_text("title", "", ("case",), (("x" * 100,),)), 80)
    assert text.count("x") == 100
