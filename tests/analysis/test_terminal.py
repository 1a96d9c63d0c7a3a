"""Tables on a terminal: nothing is wider than it, no word is broken, and what had no room is named."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from framebench.analysis import terminal
from framebench.analysis.comparison import Comparison
from framebench.analysis.results import Results
from framebench.publish.tables import for_documents
from tests.material import RESULTS
from tests.processes import ROOT


@pytest.fixture(scope="module")
def tables() -> list[Comparison]:
    """One table of each form."""
    return list({table.head: table for table in for_documents(Results(RESULTS))}.values())


def drawn(table: Comparison, width: int) -> tuple[str, list[str]]:
    console = Console(width=width, file=io.StringIO(), record=True)
    without = terminal.draw(console, table.head, table.rows, table.left)
    return console.export_text(), [re.sub(r" \(.* in every row\)$", "", name) for name in without]


@pytest.mark.parametrize("width", [80, 120])
def test_tables_fit_and_break_no_word(width: int, tables: list[Comparison]) -> None:
    assert len(tables) > 10
    for table in tables:
        text, without = drawn(table, width)
        assert max(map(len, text.splitlines())) <= width, table.title
        there = set(text.split())
        for i, name in enumerate(table.head):
            if name not in without:
                words = {word for row in table.rows for text in (name, row[i]) for word in text.split()}
                words = {
                    word for word in words if len(word) <= terminal.LONG or ("/" in word and not re.search("[._(,=]", word))
                }
                assert words <= there, (table.title, name, words - there)


def test_what_refines_a_number_goes_first_and_what_a_row_is_about_stays() -> None:
    head = ("framework", "strategy", "peak MiB", "step ms", "95 % interval", "p", "verified", "instrument")
    row = ("torch", "amp_bf16+checkpoint", "0.121", "749.0", "734.6 to 759.2", "4", "8e-08", "host.rss")
    table = Comparison.of_text("t", "", head, (row,))
    assert drawn(table, 200)[1] == []
    assert drawn(table, 84)[1] == ["p", "verified"]
    assert drawn(table, 70)[1] == ["95 % interval", "p", "verified"]


def test_what_is_the_same_in_every_row_goes_first_and_is_said() -> None:
    head = ("strategy", "peak MiB", "verified", "p", "effect")
    rows = (("fp32", "100.0", "8e-08", "4", "yes"), ("checkpoint", "100.0", "7e-08", "4", "yes"))
    console = Console(width=36, file=io.StringIO())
    assert terminal.draw(console, head, rows, 1) == ["p (4 in every row)", "effect (yes in every row)"]
    missing = (*rows, ("offload", "-", "-", "-", "yes"))
    assert terminal.draw(console, head, missing, 1) == ["p (4 in every row)", "effect (yes in every row)"]  # that has one
    assert terminal.draw(console, head, rows[:1], 1) == ["verified", "p"]  # one row has nothing in common


def test_every_heading_that_goes_first_or_last_is_one(tables: list[Comparison]) -> None:
    """Of a table in documents, or of one that a command alone prints."""
    headings = {name for table in tables for name in table.head}
    code = [path.read_text() for path in (ROOT / "framebench").rglob("*.py") if path.name != "terminal.py"]
    rest = set(terminal.SPARE + terminal.KEEP) - headings
    assert {name for name in rest if not any(f'"{name}"' in text for text in code)} == set()


def test_what_had_no_room_is_said() -> None:
    console = Console(width=40, file=io.StringIO(), record=True)
    Comparison.of_text("t", "c", ("case", "verdict", "records"), (("a" * 20, "worse", "b" * 20),)).terminal(console)
    text = console.export_text()
    assert "No room in 40 columns for: records" in text
    assert "worse" in text


def test_the_machine_stands_above_its_table() -> None:
    console = Console(width=80, file=io.StringIO(), record=True)
    Comparison.of_text("t", "", ("a",), (("1",),), machine="m").terminal(console)
    assert console.export_text().startswith("m: t\n")


def test_long_code_is_broken_after_its_punctuation() -> None:
    assert list(terminal.wrapped("by torch.autograd.graph.save_on_cpu(pin_memory=True) alone", 20)) == [
        "by torch.autograd.", "graph.save_on_cpu(", "pin_memory=True)", "alone",
    ]  # fmt: skip


def test_a_single_word_that_is_wider_than_the_terminal_is_folded() -> None:
    text, _ = drawn(Comparison.of_text("t", "", ("case",), (("a" * 100,),)), 80)
    assert text.count("a") == 100 + 1
    assert max(map(len, text.splitlines())) <= 80
