"""The figure of savings by batch: a panel for each framework and quantity that was measured."""

from __future__ import annotations

from framebench.analysis.figures.batches import draw_savings
from framebench.records.record import Record
from tests.fake_records import frame, in_blocks, made

MIB = 2**20
PEAKS = {"fp32": {4: 100, 8: 200}, "checkpoint": {4: 50, 8: 60}}


def make_records(framework: str) -> list[Record]:
    """Return records of PEAKS in MiB by strategy and batch, of one second a step."""
    return [
        made(strategy, mib * MIB, 1.0, framework=framework, batch=batch)
        for strategy, of_batches in PEAKS.items()
        for batch, mib in of_batches.items()
    ]


def without_times(record: Record) -> Record:
    """Return the record of a run that measured memory alone."""
    return record.model_copy(update={"step_s": [], "turns": None})


def test_a_framework_that_was_not_timed_has_its_peaks_and_no_empty_panel() -> None:
    records = [*in_blocks(make_records("torch")), *map(without_times, make_records("jax"))]
    drawn = draw_savings(frame(*records))

    assert drawn is not None
    shown = {axes.get_title(loc="left") for axes in drawn.axes if axes.get_visible()}
    assert shown == {"PyTorch: peak", "PyTorch: throughput", "JAX: peak"}


def test_the_title_names_the_strategy_whose_share_depends_most_on_the_batch() -> None:
    drawn = draw_savings(frame(*in_blocks(make_records("torch"))))
    assert drawn is not None
    texts = " ".join(text.get_text().replace("\n", " ") for text in drawn.texts)
    assert "checkpoint in PyTorch takes 50% of the baseline's peak at batch 4, 30% at batch 8" in (
        texts + " " + (drawn.get_suptitle() or "").replace("\n", " ")
    )


def test_baselines_alone_are_no_figure() -> None:
    baselines = [record for record in make_records("torch") if "/fp32/" in record.case]
    assert draw_savings(frame(*in_blocks(baselines))) is None
