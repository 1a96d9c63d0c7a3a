"""The short answers: which strategy needs least, and whether that holds at other batches."""

from __future__ import annotations

from framebench.analysis.rendering import Table
from framebench.publish.site.headlines import make_headlines
from tests.fake_records import frame, in_blocks, made

MIB = 2**20


def make_headline(peaks: dict[str, dict[int, int]]) -> Table:
    """Return the headlines of training, with these peaks in MiB by strategy and batch."""
    records = [
        made(strategy, mib * MIB, 1.0, batch=batch)
        for strategy, of_batches in peaks.items()
        for batch, mib in of_batches.items()
    ]
    (table,) = make_headlines(frame(*in_blocks(records)))
    return table


def test_a_headline_says_where_its_ratio_depends_on_the_batch() -> None:
    table = make_headline({"fp32": {4: 100, 8: 200}, "checkpoint": {4: 53, 8: 76}})
    assert table.notes == (
        "Transformer: torch checkpoint depends on the batch: 53% at batch 4, 38% at batch 8 "
        "of the baseline's peak",
    )


def test_a_headline_is_silent_about_strategies_that_it_does_not_show() -> None:
    table = make_headline(
        {
            "fp32": {4: 100, 8: 200},
            "checkpoint": {4: 50, 8: 100},
            "amp_bf16": {4: 80, 8: 120},
        }
    )
    assert table.notes == ()
