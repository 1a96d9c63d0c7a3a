"""Mathematics are checked once, by processes that may die, and decide before anything is
measured.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from framebench.engine import blocks, mathematics
from framebench.engine.blocks import Run
from framebench.engine.environments import Environment
from framebench.engine.groups import Group
from framebench.engine.recording import judge
from framebench.engine.runner import CaseOutcome, Options
from framebench.engine.supervisor import Outcome, Worker
from framebench.engine.timed_process import Variant
from framebench.suite.case import Case
from framebench.suite.result import Mathematics, Result, Verification, to_json
from framebench.suite.selectors import parse

CASES = [
    parse(f"transformer/torch/train/{name}/b4/tiny")
    for name in ("fp32", "checkpoint", "accumulate")
]
RIGHT = Mathematics(
    "", computed=True, passed=True, tensors=1, worst="loss_0", error=0.0, tolerance=1e-9
)


class Process:
    """Plays the worker: writes a line for each case, and dies at those that are deadly."""

    started: ClassVar[list[list[str]]] = []
    deadly: ClassVar[set[str]] = set()

    def __init__(self, environment: Environment, module: str, orders: Any, variables: Any) -> None:
        self.orders = orders
        self.started.append(orders["cases"])

    def end(self, on_phase: Any, limit_s: float) -> Outcome:
        on_phase("mathematics in float64")
        for name in self.orders["cases"]:
            if name in self.deadly:
                return Outcome("crashed", "ended by SIGSEGV")
            with open(self.orders["file"], "a") as file:
                file.write(json.dumps({name: to_json(replace(RIGHT, case=name))}) + "\n")
        return Outcome()

    def kill(self) -> None:
        """Nothing is left of it."""


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[Process]:
    monkeypatch.setenv("FRAMEBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(mathematics, "Worker", Process)
    monkeypatch.setattr(Options, "list_cores", lambda _: (0, 1))
    Process.started, Process.deadly = [], set()
    return Process


def variants(cases: list[Case] = CASES) -> list[Variant]:
    return [Variant(case, Environment("torch", "1", Path("python"))) for case in cases]


def check(some: list[Variant]) -> dict[Variant, Mathematics]:
    return mathematics.check(some, Options(), lambda case, phase: None)


def test_a_process_for_each_core_checks_its_part_and_the_cache_keeps_the_outcomes(
    process: type[Process],
) -> None:
    first = check(variants())
    fp32, checkpoint, accumulate = [case.id for case in CASES]
    assert process.started == [[fp32, checkpoint], [accumulate]]
    assert check(variants()) == first
    assert len(process.started) == 2


def test_no_process_has_more_cases_than_memory_should_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mathematics, "CASES_OF_A_PROCESS", 2)
    assert mathematics.split(CASES, 1) == [CASES[:2]], "the third follows in another process"


def test_every_batch_and_size_of_a_strategy_has_the_answer_of_the_smallest(
    process: type[Process],
) -> None:
    larger = [
        parse("transformer/torch/train/checkpoint/b8/cpu"),
        parse("transformer/torch/train/checkpoint/b16/full"),
    ]
    outcomes = check(variants(larger))
    assert {outcome.case for outcome in outcomes.values()} == {
        "transformer/torch/train/checkpoint/b4/tiny"
    }
    assert process.started == [["transformer/torch/train/checkpoint/b4/tiny"]]


def test_progress_names_the_requested_case(process: type[Process]) -> None:
    larger, told = parse("transformer/torch/train/checkpoint/b8/cpu"), []
    mathematics.check(variants([larger]), Options(), lambda case, phase: told.append(case))
    assert set(told) == {larger}


def test_changed_code_is_checked_again(
    process: type[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    check(variants(CASES[:1]))
    monkeypatch.setattr(mathematics, "digest_sources", lambda: "other")
    check(variants(CASES[:1]))
    assert len(process.started) == 2


def test_limited_instructions_are_checked_again(
    process: type[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    check(variants(CASES[:1]))
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    check(variants(CASES[:1]))
    assert len(process.started) == 2


def test_a_case_whose_process_dies_is_not_computed_and_the_others_are(
    process: type[Process],
) -> None:
    process.deadly = {CASES[1].id}
    outcomes = {variant.case: outcome for variant, outcome in check(variants()).items()}
    assert [outcomes[case].computed for case in CASES] == [True, False, True]
    assert outcomes[CASES[1]].passed
    assert outcomes[CASES[1]].reason == "the step does not run in float64: ended by SIGSEGV"


def test_dead_process_is_retried_in_the_next_run(process: type[Process]) -> None:
    process.deadly = {CASES[1].id}
    check(variants())
    process.deadly = set()
    assert all(outcome.computed for outcome in check(variants()).values())


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text(json.dumps({"a": to_json(RIGHT)}) + "\n" + '{"b": {"case"')
    assert mathematics.read_lines(file).keys() == {"a"}
    with file.open("a") as lines:  # a process that follows goes on in the same line
        lines.write(
            json.dumps({"c": to_json(RIGHT)}) + "\n" + json.dumps({"d": to_json(RIGHT)}) + "\n"
        )
    assert mathematics.read_lines(file).keys() == {"a", "d"}


def test_wrong_mathematics_is_a_record_without_measurements(tmp_path: Path) -> None:
    """No process measures the case, and an interrupted run does not write the record twice."""
    (variant,) = variants(CASES[:1])
    wrong = replace(RIGHT, passed=False, reason="loss_0 is off by 2.0e-03 in float64", error=2e-3)
    with Run(
        "s",
        Options(rounds=0),
        tmp_path,
        check_mathematics=lambda variants, *_: dict.fromkeys(variants, wrong),
    ) as run:
        for _ in range(2):
            blocks.measure([Group("alone", (variant,))], run)
        (record,) = run.records(variant)
    assert (record.status, record.reason, record.peaks) == (
        "wrong",
        "loss_0 is off by 2.0e-03 in float64",
        {},
    )
    assert record.verification
    assert record.verification.mathematics
    assert record.verification.mathematics.error == 2e-3


def test_what_float64_says_is_in_the_record_of_what_is_right() -> None:
    outcome = CaseOutcome(result=Result(verification=Verification(passed=True)))
    verdict = judge(outcome, RIGHT, "time", CASES[0])
    assert verdict.status == "ok"
    assert verdict.verification == Verification(passed=True, mathematics=RIGHT)


def test_a_case_of_a_size_without_references_is_represented_by_a_smaller_one() -> None:
    full = parse("resnet50/jax/train/fp32/b64/full")
    assert mathematics.find_representative(full) == parse("resnet50/jax/train/fp32/b4/tiny")


def run_script(script: Path, lines: list[str], limit_s: float) -> Outcome:
    """Run a shell script in a worker's place, and return what became of it."""
    script.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    script.chmod(0o755)
    worker = Worker(Environment("torch", "1", script), "worker", {}, {})
    return worker.end(lambda phase: None, limit_s)


def test_the_time_limit_begins_anew_with_each_case(tmp_path: Path) -> None:
    case = ["sleep 0.6", """echo '{"checked": "a case"}'"""]
    outcome = run_script(tmp_path / "python", [*case * 3, """echo '{"result": {}}'"""], limit_s=1.2)
    assert outcome.status == "ok"


def test_a_process_is_killed_when_one_of_its_cases_hangs(tmp_path: Path) -> None:
    began = time.monotonic()
    outcome = run_script(
        tmp_path / "python", ["""echo '{"checked": "a case"}'""", "sleep 60"], limit_s=0.5
    )
    assert outcome.status == "timeout"
    assert time.monotonic() - began < 30
