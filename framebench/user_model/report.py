"""Print what came of a user's model: tables, sentences, JSON, a figure and a page."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pandas as pd

from framebench.analysis import frames
from framebench.cli.shared import echo, err, fail, out, say
from framebench.records.record import Record
from framebench.records.search import Fit
from framebench.user_model import table


def show_first_look(records: list[Record], budget_bytes: int | None, follows: str) -> None:
    """Print memory and verification of the first records, which have no times yet.

    `follows` is a sentence about what is measured next.
    """
    remarks = table.collect_remarks(records)
    rows = table.add_needs(frames.make_frame(records), remarks)
    table.make_table(rows, {}, remarks).terminal(err)
    for sentence in (*describe_needs(rows, budget_bytes), follows):
        say(sentence)


def describe_needs(rows: pd.DataFrame, budget_bytes: int | None) -> list[str]:
    """Return which strategy needs least, and which fit within a budget, if one is given."""
    sentences = table.describe_least(rows)
    if budget_bytes:
        sentences.append(table.describe_fitting(rows, budget_bytes))
    return sentences


def show(
    records: list[Record],
    left_out: dict[str, str],
    budget_bytes: int | None,
    fits: list[Fit],
    figure: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Print the table of a model with sentences on it, and write the figure and page asked for.

    As JSON the rows of `show --json` are printed in the place of the table. `fits` are searches of
    the largest batch. Ends the command with exit code 1 where a peak contradicts what was saved.
    """
    remarks = table.collect_remarks(records)
    rows = table.add_needs(frames.make_frame(records), remarks)
    contradiction = table.find_contradiction(rows)
    if contradiction:
        fail(contradiction, 1)
    tables = [table.make_table(rows, left_out, remarks)]
    if fits:
        tables.append(table.make_batch_table(fits))
    sentences = [*describe_needs(rows, budget_bytes), *table.describe_verdicts(records)]
    if figure or html:
        from framebench.analysis.figures import fronts, page
        from framebench.publish.site.user_page import write_user_page
        from framebench.user_model.figure import draw_peaks

        # figures name a model by its workload, and take the peaks of the table
        renamed = rows.assign(workload=rows["size"], relative_peak=rows["peak_ratio"])
        drawing = fronts.draw_pareto(renamed) or draw_peaks(rows)
        if drawing is None:
            say("nothing to draw: no strategy passed verification")
        elif figure:
            figure.write_text(page.render_svg(drawing))
        if html:
            say(f"wrote {write_user_page(html, tables, sentences, drawing)}")
    for sentence in sentences:
        say(sentence)
    if not as_json:
        for shown in tables:
            shown.terminal(out)
        return
    for line in table.describe_left_out(left_out):
        say(line)
    needs = dict(zip(rows["case"], rows["needs_bytes"]))
    values = []
    for row in frames.make_rows(records):
        needed = None if math.isnan(needs[row.case]) else int(needs[row.case])
        values.append(vars(row) | {"needs_bytes": needed})
    echo(json.dumps(values, indent=1, default=lambda moment: moment.isoformat()))
