"""Mathematics are checked once, by processes that may die, before anything is measured."""

from __future__ import annotations

import errno
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import Mock

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
from tests.processes import write_script
from tests.record_files import DAMAGED_LINES

FP32 = parse("transformer/torch/train/fp32/b4/tiny")
CHECKPOINT = parse("transformer/torch/train/checkpoint/b4/tiny")
ACCUMULATE = parse("transformer/torch/train/accumulate/b4/tiny")
CASES = [FP32, CHECKPOINT, ACCUMULATE]
RIGHT = Mathematics(
    "", computed=True, passed=True, tensors=1, worst="loss_0", error=0.0, tolerance=1e-9
)


class FakeWorker:
    """Writes a line for each case, and dies at those that are deadly."""

    started: ClassVar[list[list[str]]] = []
    deadly: ClassVar[set[str]] = set()
    errno: ClassVar[int | None] = None  # why it cannot write

    def __init__(self, environment: Environment, module: str, orders: Any, variables: Any) -> None:
        self.orders = orders
        self.started.append(orders["cases"])

    def end(self, on_phase: Any, limit_s: float) -> Outcome:
        on_phase("mathematics in float64")
        for name in self.orders["cases"]:
            if name in self.deadly:
                return Outcome("crashed", "ended by SIGSEGV")
            if self.errno is not None:
                return Outcome(answer={"errno": self.errno})
            with open(self.orders["file"], "a") as file:
                file.write(json.dumps({name: to_json(replace(RIGHT, case=name))}) + "\n")
        return Outcome()

    def kill(self) -> None:
        """Do nothing: no process was started."""


@pytest.fixture
def fake_worker(tmp_path, monkeypatch) -> type[FakeWorker]:
    monkeypatch.setenv("FRAMEBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(mathematics, "Worker", FakeWorker)
    monkeypatch.setattr(Options, "list_cores", Mock(return_value=(0, 1)))
    FakeWorker.started = []
    FakeWorker.deadly = set()
    FakeWorker.errno = None
    return FakeWorker


def make_variants(cases: list[Case] = CASES) -> list[Variant]:
    return [Variant(case, Environment("torch", "1", Path("python"))) for case in cases]


def check_cases(cases: list[Case] = CASES) -> dict[Case, Mathematics]:
    """Check the cases' mathematics, and return the outcomes by case."""
    outcomes = mathematics.check(make_variants(cases), Options(), ignore_phase)
    return {variant.case: outcome for variant, outcome in outcomes.items()}


def ignore_phase(case: Case, phase: str) -> None:
    """Take no notice of progress."""


def test_each_core_has_a_process_that_checks_a_part(fake_worker):
    check_cases()
    assert fake_worker.started == [[FP32.id, CHECKPOINT.id], [ACCUMULATE.id]]


def test_cached_outcomes_are_not_computed_again(fake_worker):
    first = check_cases()
    assert check_cases() == first
    assert len(fake_worker.started) == 2


def test_a_strategy_is_checked_once_at_its_smallest_batch_and_size(fake_worker):
    larger = [
        parse("transformer/torch/train/checkpoint/b8/cpu"),
        parse("transformer/torch/train/checkpoint/b16/full"),
    ]
    outcomes = check_cases(larger)
    assert {outcome.case for outcome in outcomes.values()} == {CHECKPOINT.id}
    assert fake_worker.started == [[CHECKPOINT.id]]


@pytest.mark.parametrize("changed", ["code", "instructions"])
def test_changed_code_or_instructions_are_checked_again(changed, fake_worker, monkeypatch):
    check_cases([FP32])
    if changed == "code":
        monkeypatch.setattr(mathematics, "digest_sources", Mock(return_value="other"))
    else:
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    check_cases([FP32])
    assert len(fake_worker.started) == 2


def test_case_whose_process_dies_is_not_computed_and_the_others_are(fake_worker):
    fake_worker.deadly = {CHECKPOINT.id}
    outcomes = check_cases()
    assert outcomes[FP32].computed
    assert outcomes[ACCUMULATE].computed
    assert not outcomes[CHECKPOINT].computed
    assert outcomes[CHECKPOINT].passed, "only the measured step is compared then"
    assert outcomes[CHECKPOINT].reason == "the step does not run in float64: ended by SIGSEGV"
    fake_worker.deadly = set()
    assert check_cases()[CHECKPOINT].computed, "it is tried again in the next run"


def test_an_outcome_that_cannot_be_written_is_not_passed_over(fake_worker):
    """Otherwise a wrong strategy would be measured on a machine whose disk is full."""
    fake_worker.errno = errno.ENOSPC
    with pytest.raises(OSError, match=r"No space left on device: '.*/mathematics/torch-1-"):
        check_cases()


def make_line(case: str, **changes: Any) -> bytes:
    """Return the line of a case, whose outcome has these changes."""
    return json.dumps({case: to_json(RIGHT) | changes}).encode() + b"\n"


@pytest.mark.parametrize(
    "unreadable",
    [
        b"\n".join([*DAMAGED_LINES, b""]),
        # the next process appends to a line that was cut off
        b'{"x": {"case"' + make_line("y"),
        make_line("x", passed="perhaps"),
        make_line("x", computed=None),
        make_line("x", error="small"),
        make_line("x", reason=[]),
    ],
)
def test_lines_that_are_no_outcome_are_left_out(unreadable, tmp_path):
    file = tmp_path / "lines"
    file.write_bytes(make_line("a") + unreadable + make_line("b"))
    assert mathematics.read_lines(file).keys() == {"a", "b"}


def test_wrong_mathematics_is_a_record_without_measurements(tmp_path):
    """Measuring the case again writes no second record.

    No process measures it: the interpreter of `make_variants` does not exist.
    """
    (variant,) = make_variants([FP32])
    reason = "loss_0 is off by 2.0e-03 in float64"
    wrong = replace(RIGHT, passed=False, reason=reason, error=2e-3)

    def call_all_wrong(variants, *_):
        return dict.fromkeys(variants, wrong)

    with Run("s", Options(rounds=0), tmp_path, check_mathematics=call_all_wrong) as run:
        for _ in range(2):
            blocks.measure([Group("alone", (variant,))], run)
        (record,) = run.get_records(variant)
    assert (record.status, record.reason, record.peaks) == ("wrong", reason, {})
    assert record.verification.mathematics.error == 2e-3


@pytest.mark.parametrize(
    ("checked", "says_right"),
    [
        (RIGHT, True),
        (Mathematics("", computed=False, passed=True, reason="it does not run"), False),
        (Mathematics("", computed=True, passed=False, reason="off"), False),
        (None, False),
    ],
    ids=["right", "not computed", "wrong", "not checked"],
)
def test_a_wrong_case_says_whether_it_is_right_in_float64(checked, says_right):
    measured = Verification(passed=False, reason="grad_norm is off")
    verdict = judge(CaseOutcome(result=Result(verification=measured)), checked, "time", CASES[0])
    assert verdict.status == "wrong"
    assert ("in float64 the strategy's first steps are right" in verdict.reason) == says_right


def test_time_limit_is_for_each_case(tmp_path):
    """The third case hangs."""
    case = """sleep 1.5\necho '{"checked": "a case"}'\n"""
    script = write_script(tmp_path / "python", f"{case}{case}sleep 600")
    began = time.monotonic()
    worker = Worker(Environment("torch", "1", script), "worker", {}, {})
    assert worker.end(print, limit_s=2.5).status == "timeout"
    # both cases take longer than the limit, and the third is ended
    assert 3 < time.monotonic() - began < 300
