"""Reading records stays linear: what publishes a year of results must not slow down with it."""

from __future__ import annotations

from analysis.studies import cost


def test_reading_and_tabulating_is_linear() -> None:
    """Processor time, as the machine may be shared; a quadratic step would make the second ratio ten."""
    small, large = cost.measure(500), cost.measure(5000)
    assert (large.read_cpu_s + large.table_cpu_s) / (small.read_cpu_s + small.table_cpu_s) < 25


def test_the_cost_of_measuring_is_read_from_the_records() -> None:
    table = cost.measuring()
    assert {row[0] for row in table.rows} == {"torch", "jax", "jittor"}
    assert "harness" in table.head
