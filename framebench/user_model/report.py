"""Print what came of a user's model: tables, sentences, JSON, a figure and a page."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pandas as pd

from framebench.analysis import frames
from framebench.analysis.rendering import Table
from framebench.cli.shared import echo, err, fail, out, say
from framebench.publish.site.target import Unbuildable, check_folder
from framebench.records import store
from framebench.records.record import Record
from framebench.records.search import Fit
from framebench.suite.case import Case
from framebench.suite.user_file import Fault
from framebench.user_model import table


def show_first_look(records: list[Record], budget_bytes: int | None, follows: str) -> None:
    """Print memory and verification of the first records, which have no times yet.

    `follows` is a sentence about what is measured next.
    """
    remarks = table.collect_remarks(records)
    rows = table.add_needs(frames.make_frame(records), remarks)
    table.make_table(rows, {}, remarks, budget_bytes).terminal(err)
    for sentence in (*describe_needs(rows, budget_bytes), follows):
        say(sentence)


def describe_needs(rows: pd.DataFrame, budget_bytes: int | None) -> list[str]:
    """Return which strategy needs least, and which fit within a budget, if one is given."""
    sentences = table.describe_least(rows)
    if budget_bytes:
        sentences.append(table.describe_fitting(rows, budget_bytes))
    return sentences


@dataclass(frozen=True)
class TrialReport:
    """What the records of a model say."""

    rows: pd.DataFrame  # of `make_frame`, with what each strategy needs
    table: Table
    sentences: list[str]


def make_report(
    records: list[Record], left_out: dict[str, str], budget_bytes: int | None
) -> TrialReport:
    """Return what the records of a model say; `left_out` has why strategies were not measured."""
    remarks = table.collect_remarks(records)
    rows = table.add_needs(frames.make_frame(records), remarks)
    return TrialReport(
        rows=rows,
        table=table.make_table(rows, left_out, remarks, budget_bytes),
        sentences=[*describe_needs(rows, budget_bytes), *table.describe_verdicts(records)],
    )


def find_contradiction(records: list[Record]) -> str | None:
    """Return why nothing is reported: a peak contradicts what was saved. None if none does."""
    return table.find_contradiction(frames.make_frame(records))


def show(
    records: list[Record],
    left_out: dict[str, str],
    budget_bytes: int | None,
    figure: Path | None,
    html: Path | None,
    as_json: bool,
    fits: Sequence[Fit] = (),
) -> None:
    """Print the table of a model with sentences on it, then write the figure and page asked for.

    As JSON the rows of `show --json` are printed in the place of the table, each with what `fits`
    found. Ends the command with exit code 1 where a peak contradicts what was saved. Raises OSError
    if a file cannot be written.
    """
    contradiction = find_contradiction(records)
    if contradiction:
        fail(contradiction, 1)
    report = make_report(records, left_out, budget_bytes)
    for sentence in report.sentences:
        say(sentence)
    if as_json:
        print_json(records, left_out, report.rows, fits)
    else:
        report.table.terminal(out)
    if figure or html:
        write_drawings(figure, html, report.rows, [report.table], report.sentences)


def show_batches(
    records: list[Record],
    left_out: dict[str, str],
    budget_bytes: int | None,
    fits: list[Fit],
    html: Path | None,
    as_json: bool,
) -> None:
    """Print the largest batches as a table, and write them into the page.

    `fits` are the searches, which follow what `show` has printed; its JSON has them. Raises OSError
    if the page cannot be written.
    """
    batches = table.make_batch_table(fits)
    if not as_json:
        batches.terminal(out)
    if html:
        report = make_report(records, left_out, budget_bytes)
        write_drawings(None, html, report.rows, [report.table, batches], report.sentences)


def print_json(
    records: list[Record], left_out: dict[str, str], rows: pd.DataFrame, fits: Sequence[Fit]
) -> None:
    """Print the rows of `show --json`, each with the bytes that its strategy needs.

    Where largest batches were searched, a row has its strategy's, and what was found in words.
    """
    for line in table.describe_left_out(left_out):
        say(line)
    needs = dict(zip(rows["case"], rows["needs_bytes"]))
    fit_by_strategy = {Case.from_id(fit.case).strategy: fit for fit in fits}
    values = []
    for row in frames.make_rows(records):
        value = dict(vars(row))
        value["needs_bytes"] = None
        if not math.isnan(needs[row.case]):
            value["needs_bytes"] = int(needs[row.case])
        if fits:
            value["largest_batch"] = None
            value["largest_batch_answer"] = None
        if row.strategy in fit_by_strategy:
            fit = fit_by_strategy[row.strategy]
            value["largest_batch"] = fit.largest
            value["largest_batch_answer"] = fit.answer
        values.append(value)
    echo(json.dumps(values, indent=1, default=datetime.isoformat))


def write_drawings(
    figure: Path | None,
    html: Path | None,
    rows: pd.DataFrame,
    tables: list[Table],
    sentences: list[str],
) -> None:
    """Write the figure, and the page with these tables and sentences, where they are asked for.

    Raises OSError.
    """
    from framebench.analysis.figures import fronts, page
    from framebench.publish.site.user_page import write_user_page
    from framebench.user_model.figure import draw_peaks

    # figures name a model by its workload, and take the peaks of the table
    renamed = rows.assign(workload=rows["size"], relative_peak=rows["peak_ratio"])
    drawing = fronts.draw_pareto(renamed) or draw_peaks(rows)
    if drawing is None:
        say("nothing to draw: no strategy passed verification")
    elif figure:
        store.replace_text(page.render_svg(drawing), figure)
        say(f"wrote {figure}")
    if html:
        say(f"wrote {write_user_page(html, tables, sentences, drawing)}")


def check_page_folder(html: Path) -> None:
    """Check that a page may be written into this folder. Raises Fault."""
    try:
        check_folder(html)
    except Unbuildable as error:
        raise Fault(f"--html: {error}") from error
