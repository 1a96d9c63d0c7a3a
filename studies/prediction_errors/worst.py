"""The tenth of the measured rows that was predicted worst, each with a cause that can be shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil

from framebench.analysis.rendering import Table, format_mib
from framebench.devices.needs import TITLES
from framebench.engine import runner
from framebench.records import store
from studies.prediction_errors.samples import Sample, find_device, read_peak
from studies.published_peaks import errors
from studies.published_peaks.rows import DATA
from studies.published_peaks.rows import read as read_rows
from studies.published_peaks.rules import CLOSE

SHARE = 0.1
UNEXPLAINED = "unexplained"
AUTOTUNED = "fp32"  # XLA's autotuning is on unless the strategy below switches it off
NOT_AUTOTUNED = "autotune_off"


def find_worst(samples: Iterable[Sample]) -> list[Sample]:
    """Return the tenth of the rows with the largest absolute errors, the worst first.

    A row that is predicted with several assumptions counts with the worst of them.
    """
    worst: dict[tuple[str, str, str], Sample] = {}
    for sample in samples:
        key = (sample.kind, sample.source, sample.row)
        if key not in worst or abs(sample.error) > abs(worst[key].error):
            worst[key] = sample
    ordered = sorted(worst.values(), key=lambda sample: -abs(sample.error))
    return ordered[: ceil(SHARE * len(ordered))]


def tabulate_worst(samples: Sequence[Sample]) -> Table:
    """Return the table of the worst tenth, with the cause of each error."""
    published = {
        compared.row.key: compared for compared in errors.compare_rows(DATA, read_rows(DATA))
    }
    untuned = read_untuned_peaks()
    cells = []
    for sample in find_worst(samples):
        name = sample.row
        if sample.row in published:
            compared = published[sample.row]
            name = f"{compared.row.model} b{compared.row.batch} {compared.row.optimizer.split()[0]}"
            cause = explain_published(compared)
        else:
            cause = explain_own(sample, samples, untuned)
        cells.append(
            (
                TITLES[sample.kind],
                name,
                sample.source,
                format_mib(sample.predicted),
                format_mib(sample.measured),
                f"{sample.error:+.1%}",
                cause,
            )
        )
    return Table.of_text(
        "The tenth of the rows that was predicted worst",
        "Peaks in MiB. error: measured / predicted - 1. A cause is named where a number shows it.",
        ("prediction", "row", "source", "predicted", "measured", "error", "cause"),
        cells,
        left=3,
    )


def explain_published(compared: errors.Held) -> str:
    """Return the cause of the error of a row that its authors ran twice.

    Where the second run, below a limit of memory, took no more than predicted, the first run took
    what it did not need. Where the first sample came late, it held weights.
    """
    row = compared.row
    predicted = compared.predicted_bytes or 0
    again = row.run_again_bytes
    if predicted < row.bytes and again and again <= predicted * (1 + CLOSE):
        return (
            "workspaces and cached blocks that it did not need: run again below a limit it took "
            f"{format_mib(again)}"
        )
    if row.bytes < predicted <= row.bytes + compared.weights_bytes:
        return (
            f"the counter's first sample may hold the weights, {format_mib(compared.weights_bytes)}"
        )
    return UNEXPLAINED


def explain_own(sample: Sample, samples: Iterable[Sample], untuned: Mapping[str, int]) -> str:
    """Return the cause of the error of a row of our own GPU, or of others' single runs."""
    if sample.kind == "torch, convolutions without workspaces":
        for other in samples:
            is_asked = other.kind == "torch, convolutions" and other.row == sample.row
            if is_asked and abs(other.error) < abs(sample.error):
                return f"workspaces: with those that cuDNN names it is {other.error:+.1%}"
    if sample.kind == "jax" and sample.row in untuned:
        peak = untuned[sample.row]
        return (
            f"kernels that autotuning chose: without it {format_mib(peak)} were measured, "
            f"{peak / sample.predicted - 1:+.1%}"
        )
    return UNEXPLAINED


def read_untuned_peaks() -> dict[str, int]:
    """Return what JAX had in use on our GPU without autotuning, by the case with it."""
    peaks = {}
    for record in store.read_all(runner.RESULTS):
        case = record.parsed
        is_untuned = case.framework == "jax" and case.strategy == NOT_AUTOTUNED
        if is_untuned and record.status == "ok" and find_device(record):
            peak = read_peak(record)
            if peak:
                peaks[case.id.replace(f"/{NOT_AUTOTUNED}/", f"/{AUTOTUNED}/")] = peak
    return peaks
