"""What two machines say of the same cases, side by side."""

from __future__ import annotations

from framebench.records.record import Record
from framebench.suite.case import Case
from studies.noise.other_machine import comparisons
from tests.fake_records import make_blocks

CASES = [
    Case("transformer", framework, "train", strategy, 4, "cpu")
    for framework, strategy in (
        ("torch", "fp32"),
        ("torch", "checkpoint"),
        ("torch", "amp_bf16"),
        ("jax", "fp32"),
    )
]
HEAVY = [100 << 20, 60 << 20, 80 << 20, 200 << 20]


def machine(
    name: str, times: list[float], peaks: list[int] = HEAVY, cases: list[Case] = CASES
) -> list[Record]:
    return make_blocks(
        [(case, [[s] * 5] * 3) for case, s in zip(cases, times)], peaks=peaks, machine=name
    )


def test_what_holds_elsewhere_is_counted_by_kind() -> None:
    other = machine("other", [2.0, 2.7, 1.0, 3.0], [100 << 20, 60 << 20, 90 << 20, 200 << 20])
    (table,) = comparisons([*machine("shown", [1.0, 1.3, 1.7, 2.0]), *other], ["shown", "other"])
    assert table.title == "other beside shown"
    assert "3 of 4 are within 1%" in table.caption
    assert (
        "within 10% are 1 of 1 of strategies in float32, 0 of 1 of strategies in bfloat16, 0 of 1 "
        "of frameworks" in table.caption
    )
    apart = {row[0]: (row[3], row[-1]) for row in table.rows}
    assert apart == {
        CASES[0].id: ("+0.0%", "-"),
        CASES[1].id: ("+0.0%", "+4%"),
        CASES[2].id: ("+12.5%", "-71%"),
        CASES[3].id: ("+0.0%", "-25%"),
    }


def test_a_machine_beside_itself_holds_everything() -> None:
    times = [1.0, 1.3, 1.7, 2.0]
    (table,) = comparisons([*machine("shown", times), *machine("twin", times)], ["shown", "twin"])
    assert "4 of 4 are within 1%" in table.caption
    assert {row[-1] for row in table.rows} == {"-", "+0%"}


def test_what_one_of_them_lacks_is_left_out() -> None:
    found = [
        *machine("shown", [1.0, 1.3, 1.7, 2.0]),
        *machine("other", [1.0, 1.3], cases=CASES[:2]),
    ]
    (table,) = comparisons(found, ["shown", "other"])
    assert [row[0] for row in table.rows] == [case.id for case in CASES[:2]]
    assert comparisons(machine("shown", [1.0, 1.3]), ["shown"]) == comparisons([], []) == []
