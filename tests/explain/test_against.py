"""The difference of two peaks sums to the byte, whatever the categories explain of it."""

from __future__ import annotations

from framebench.explain import against
from framebench.explain.record import Explanation


def explained(measured: dict[str, int], *holders: tuple[str, str, int], version: str = "0.10.2") -> Explanation:
    held = [{"kind": kind, "layer": layer, "phase": "forward", "bytes": size, "tensors": 1} for layer, kind, size in holders]
    peak = sum(size for *_, size in holders)
    return Explanation(
        case="unet3d/jax/train/fp32/b4/tiny", how="buffers", measured=measured, versions={"jax": version}, device="cpu",
        timeline=[(0, peak, "forward")], peak={"event": 0, "bytes": peak, "phase": "forward"}, holders=held,
    )  # fmt: skip


OLD = explained(
    {"compiler.plan": 120, "host.rss": 500},
    ("up.0", "saved", 70),
    ("up.1", "saved", 10),
    ("head", "input", 30),
    version="0.9.2",
)
NEW = explained({"compiler.plan": 215}, ("up.0", "saved", 70), ("up.1", "saved", 90), ("head", "temporary", 35))


def test_the_rows_sum_to_the_difference_of_the_measured_peaks() -> None:
    rows = against.differences(OLD, NEW)
    assert [(*row, row.difference) for row in rows] == [
        ("up.*", "saved", 80, 160, 80),
        ("head", "temporary", 0, 35, 35),
        ("head", "input", 30, 0, -30),
        ("", "unexplained", 10, 20, 10),
    ]
    assert sum(row.difference for row in rows) == 215 - 120
    found = against.as_json(OLD, NEW)
    assert found["difference"] == sum(row["difference"] for row in found["rows"]) == 95


def test_the_table_sums_too_when_small_rows_are_folded() -> None:
    many = [(f"layer{chr(97 + i)}", "saved", i + 1) for i in range(20)]
    table = against.table(explained({"compiler.plan": 1}, ("layera", "saved", 1)), explained({"compiler.plan": 300}, *many))
    numbers = [int(text.replace(",", "")) for text in table.data["difference"]]
    assert len(numbers) == against.LARGEST + 3
    assert sum(numbers[:-1]) == numbers[-1] == 299
    assert list(table.data["kind"])[-2] == "unexplained"


def test_two_instruments_are_never_subtracted() -> None:
    """Where none measured both, the accounts are compared, which explain themselves."""
    assert against.peaks(OLD, explained({"host.rss": 9}, ("a", "saved", 5)))[0] == "host.rss"
    apart = explained({"allocator.in_use": 9}, ("a", "saved", 5))
    assert against.peaks(OLD, apart) == ("the account", 110, 5)
    assert against.differences(OLD, apart)[-1].difference == 0
