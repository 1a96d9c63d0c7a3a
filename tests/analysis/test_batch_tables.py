"""Strategies by batch: what is compared at which batch, and which savings depend on it."""

from __future__ import annotations

from framebench.analysis.batch_tables import make_batch_tables
from framebench.analysis.rendering import Table
from tests.fake_records import frame, in_blocks, made

MIB = 2**20


def tabulate(
    peaks: dict[str, dict[int, int]], seconds: dict[str, dict[int, float]] | None = None
) -> list[Table]:
    """Return the tables of strategies by their peaks in MiB, and steps in seconds, at each batch.

    Without `seconds` every step takes one second.
    """
    records = []
    for strategy, strategy_peaks in peaks.items():
        for batch, mib in strategy_peaks.items():
            step = seconds[strategy][batch] if seconds else 1.0
            records.append(made(strategy, mib * MIB, step, batch=batch))
    return list(make_batch_tables(frame(*in_blocks(records))))


def test_each_strategy_is_compared_with_the_baseline_of_its_batch() -> None:
    table, _ = tabulate(
        {"fp32": {4: 100, 8: 160}, "checkpoint": {4: 50, 8: 64}},
        {"fp32": {4: 1.0, 8: 2.0}, "checkpoint": {4: 1.25, 8: 2.5}},
    )

    assert table.title == "transformer train by batch, size tiny"
    assert table.head == (
        "framework",
        "strategy",
        "b4: peak x base",
        "b8: peak x base",
        "b4: throughput x base",
        "b8: throughput x base",
        "b4: peak MiB",
        "b8: peak MiB",
    )
    assert table.rows == (
        ("torch", "fp32", "1.00", "1.00", "1.00", "1.00", "100.0", "160.0"),
        ("torch", "checkpoint", "0.50", "0.40", "0.80", "0.80", "50.0", "64.0"),
    )


def test_only_savings_that_depend_on_the_batch_are_noted() -> None:
    table, _ = tabulate(
        {"fp32": {4: 100, 8: 200}, "checkpoint": {4: 53, 8: 76}, "amp_bf16": {4: 60, 8: 124}}
    )

    assert table.notes == (
        "torch checkpoint depends on the batch: 53% at batch 4, 38% at batch "
        "8 of the baseline's peak",
    )


def test_a_strategy_at_a_single_batch_is_in_no_table() -> None:
    table, _ = tabulate(
        {"fp32": {4: 100, 8: 200}, "checkpoint": {4: 50, 8: 80}, "accumulate": {4: 40}}
    )
    assert [row[1] for row in table.rows] == ["fp32", "checkpoint"]


def test_baselines_alone_make_no_table() -> None:
    assert tabulate({"fp32": {4: 100, 8: 200}}) == []


def test_without_times_there_is_no_column_of_throughput() -> None:
    without_times = []
    for strategy in ("fp32", "checkpoint"):
        for batch in (4, 8):
            record = made(strategy, 100 * MIB, 1.0, batch=batch)
            without_times.append(record.model_copy(update={"step_s": [], "turns": None}))

    for table in make_batch_tables(frame(*without_times)):
        assert not any("throughput" in heading for heading in table.head)


def test_the_short_table_has_peaks_and_throughputs_of_the_main_strategies() -> None:
    _, table = tabulate(
        {
            "fp32": {4: 100, 8: 160},
            "checkpoint": {4: 50, 8: 64},
            "checkpoint+accumulate": {4: 40, 8: 48},
        },
        {
            "fp32": {4: 1.0, 8: 2.0},
            "checkpoint": {4: 2.0, 8: 4.0},
            "checkpoint+accumulate": {4: 2.0, 8: 4.0},
        },
    )

    assert table.title == "transformer train by batch, size tiny, in short"
    assert table.head == (
        "framework",
        "strategy",
        "b4: peak MiB",
        "b8: peak MiB",
        "b4: throughput",
        "b8: throughput",
    )
    fp32, checkpoint = table.rows
    assert fp32[:4] == ("torch", "fp32", "100", "160")
    assert checkpoint[:4] == ("torch", "checkpoint", "50", "64")
    assert float(fp32[4]) == 2 * float(checkpoint[4]), "half of the baseline's throughput"


def test_the_unit_of_throughput_is_in_the_caption() -> None:
    _, table = tabulate({"fp32": {4: 100, 8: 160}, "checkpoint": {4: 50, 8: 64}})
    assert table.caption.startswith("Throughput in tokens/s.")
