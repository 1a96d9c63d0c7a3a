"""Which rows answer: this machine's, and those of others where it has not measured; and what needs
least, timed or not.
"""

from __future__ import annotations

from dataclasses import replace

from framebench.analysis import frames, rows
from framebench.analysis.answers import (
    rank_savings,
    select_comparable,
    select_rows,
    select_with_price,
)
from framebench.analysis.frames import Row
from framebench.analysis.reports.answer import make_answer
from framebench.budget.advise.advice import advise
from tests.advice_records import MIB, PASSED, QUESTION, made
from tests.fake_records import provenance, record

LEND = [
    made("torch", s, 4, peak, step, "other")
    for s, peak, step in (("fp32", 400, 1.0), ("checkpoint", 200, 1.5), ("accumulate", 300, 1.2))
]


def of(machine: str, *cases: tuple[str, int, float], device: str = "cpu") -> list[Row]:
    origin = provenance(
        machine=machine,
        versions={"torch": "1"},
        calibration=PASSED,
        hardware={"cpu": "x", "device": device},
    )
    return frames.make_rows(
        made("torch", s, 4, peak, step, machine, provenance=origin) for s, peak, step in cases
    )


def said(found: list[Row]) -> dict[str, str]:
    return {r.strategy: r.machine for r in found}


OTHER = of("other", ("fp32", 400, 1.0), ("checkpoint", 200, 1.5), ("accumulate", 300, 1.2))


def test_two_cases_of_ones_own_hide_nothing_else() -> None:
    own = of("here", ("fp32", 400, 9.0), ("checkpoint", 200, 13.5))
    assert said(select_rows([own, OTHER])) == {
        "fp32": "here",
        "checkpoint": "here",
        "accumulate": "other",
    }
    assert said(select_rows([[], OTHER])) == dict.fromkeys(
        ("fp32", "checkpoint", "accumulate"), "other"
    )


def test_a_case_whose_baseline_was_not_measured_here_is_compared_by_the_others() -> None:
    own = of("here", ("checkpoint", 200, 13.5))
    assert said(select_rows([own, OTHER])) == dict.fromkeys(
        ("fp32", "checkpoint", "accumulate"), "other"
    )
    assert said(select_rows([own, of("other", ("accumulate", 300, 1.2))])) == {
        "checkpoint": "here",
        "accumulate": "other",
    }


def test_what_broke_here_is_not_called_fine() -> None:
    broken = record(
        LEND[1].parsed, status="wrong", reason="loss is off", provenance=provenance(machine="here")
    )
    (failed,) = frames.make_rows([broken])
    found = {r.strategy: r.status for r in select_rows([[failed], OTHER])}
    assert found == {"fp32": "ok", "checkpoint": "wrong", "accumulate": "ok"}


def test_a_device_of_another_kind_takes_no_rows_of_a_cpu() -> None:
    card = of("here", ("fp32", 400, 0.1), device="a card")
    assert said(select_rows([card, OTHER])) == {"fp32": "here"}
    other_question = LEND[0].model_copy(update={"case": "transformer/torch/eval/no_grad/b4/tiny"})
    assert said(select_rows([card, frames.make_rows([other_question])])) == {
        "fp32": "here",
        "no_grad": "other",
    }


def test_advice_is_ranked_by_speeds_of_one_machine_that_has_timed_most() -> None:
    own = of("here", ("fp32", 400, 9.0), ("checkpoint", 200, 0.001))
    alone, both = advise([OTHER], QUESTION), advise([own, OTHER], QUESTION)
    assert [(o.case, o.peak.value, o.throughput) for o in both.fitting] == [
        (o.case, o.peak.value, o.throughput) for o in alone.fitting
    ]
    assert both.machine == "other"
    assert [o.evidence.machine for o in both.fitting] == ["here", "other", "here"]
    whole = advise(
        [of("here", *((s, 100, 0.001) for s in ("fp32", "checkpoint", "accumulate"))), OTHER],
        QUESTION,
    )
    assert whole.machine == "here"


def test_speeds_of_a_cpu_rank_nothing_for_a_card() -> None:
    card = of("here", ("fp32", MIB // 2, 0.1), ("checkpoint", MIB // 4, 0.1), device="a card")
    untimed = [replace(r, throughput=None) for r in card]
    assert {o.throughput for o in advise([untimed, OTHER], QUESTION).fitting} == {0}


def test_the_least_memory_is_of_all_proven_strategies() -> None:
    table = frames.make_frame_of_rows(
        [replace(r, time_ratio=None) if r.strategy == "checkpoint" else r for r in OTHER]
    )
    ((framework, found),) = rank_savings(select_comparable(rows.select_shown(table)))
    assert (framework, [row.strategy for row in found]) == ("PyTorch", ["checkpoint", "accumulate"])
    unproven = table.assign(usable=table["usable"] & (table["strategy"] != "checkpoint"))
    ((_, found),) = rank_savings(select_comparable(rows.select_shown(unproven)))
    assert [row.strategy for row in found] == ["accumulate"]


def test_the_answer_is_of_sizes_in_earnest_and_names_them_where_there_are_several() -> None:
    def sized(size: str) -> list[Row]:
        return [replace(r, size=size, case=r.case.replace("tiny", size)) for r in OTHER]

    assert [row[0] for row in make_answer(frames.make_frame_of_rows(sized("tiny"))).rows] == [
        "transformer"
    ]
    assert [
        row[0]
        for row in make_answer(frames.make_frame_of_rows([*sized("tiny"), *sized("cpu")])).rows
    ] == ["transformer"]
    both = make_answer(frames.make_frame_of_rows([*sized("full"), *sized("cpu")])).rows
    assert {row[0] for row in both} == {"transformer cpu", "transformer full"}


TIMES = {"fp32": 1.0, "accumulate": 1.2}
PRICED = [replace(r, time_ratio=TIMES.get(r.strategy)) for r in OTHER]


def test_the_least_memory_has_a_price_beside_it() -> None:
    table = frames.make_frame_of_rows(PRICED)
    ((_, found),) = rank_savings(select_comparable(rows.select_shown(table)))
    assert [row.strategy for row in select_with_price(found)] == ["checkpoint", "accumulate"]
    ((_, timed),) = rank_savings(
        select_comparable(
            rows.select_shown(
                frames.make_frame_of_rows([replace(r, time_ratio=1.5) for r in OTHER])
            )
        )
    )
    assert [row.strategy for row in select_with_price(timed)] == ["checkpoint"]
    assert [row.strategy for row in select_with_price(found[:1])] == ["checkpoint"]
    assert select_with_price([]) == []
