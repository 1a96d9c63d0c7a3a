"""The first look: in which order, and that a process of both kinds reads the same peaks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from framebench.engine import runner
from framebench.engine.runner import Options
from framebench.engine.timed_process import CONTROL, Variant
from framebench.records.provenance import read_machine_name
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.user_model import command, look, session
from framebench.user_model.session import NO_TIME, TrialOutcome, TrialPlan, measure_strategies
from tests.callbacks import ignore
from tests.fake_records import provenance, record
from tests.marks import rarely


def make_variants(*strategies: str) -> list[Variant]:
    """Return variants of the Transformer with these strategies."""
    cases = [Case("transformer", "torch", "train", name, 4, "tiny") for name in strategies]
    return [Variant(case, CONTROL) for case in cases]


def list_names(variants: Iterable[Variant]) -> str:
    return ", ".join(variant.case.strategy for variant in variants)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [rarely("fp32"), "checkpoint+accumulate"])
def test_one_process_reads_the_peaks_of_two(strategy, environment, tmp_path):
    """The peaks equal those of the process that reads memory alone, and later steps are right."""
    case = Case.from_id(f"transformer/torch/train/{strategy}/b4/tiny")
    variant = runner.Variant(case, environment["torch"])
    results = []
    for part in ("memory", "look"):
        folder = tmp_path / part
        process = runner.MemoryProcess(variant, runner.DEFAULT_OPTIONS, folder, part)
        outcome = process.end(ignore)
        assert outcome.status == "ok", outcome.reason
        results.append(outcome.result)
    alone, both = results
    peak = alone.memory.peaks["host.rss"]
    assert both.memory.peaks["host.rss"] == pytest.approx(peak, rel=0.01, abs=2**18)
    assert both.memory.live_bytes == alone.memory.live_bytes
    assert both.verification.passed
    assert both.effect.proven


def write_record(variant: Variant, run: Any, **fields: Any) -> None:
    """Write a record of a variant, as its process would."""
    origin = provenance(machine=read_machine_name(), session=run.id)
    run.write(record(variant.case, provenance=origin, **fields), variant)


def try_strategies(
    monkeypatch: pytest.MonkeyPatch,
    results: Path,
    first_look: Callable[..., None],
    *strategies: str,
    sources: str = "",
    limit_s: float | None = None,
    **listeners: Any,
) -> TrialOutcome:
    """Try strategies on a file of these sources by a first look; `offload` is always left out."""
    cases = [variant.case for variant in make_variants(*strategies)]
    left_out = {"offload": "needs a GPU"}
    survey = {"facts": {"sources": sources}, "held": 0}
    monkeypatch.setattr(session, "take_first_look", first_look)
    monkeypatch.setattr(session.trial, "list_cases", Mock(return_value=(cases, left_out)))
    monkeypatch.setattr(session, "survey_baseline", Mock(return_value=survey))
    model = SimpleNamespace(file=Path("mymodel.py"), scenario="train", batch=4)
    plan = TrialPlan(None, Options(rounds=0), blocks=1, seconds=0, limit_s=limit_s)
    return measure_strategies(model, plan, results, CONTROL, **listeners)


class FakeClock:
    """A clock that goes on by 10 ms whenever it is read."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def read(self) -> float:
        self.seconds += 0.01
        return self.seconds


@pytest.fixture
def looks(monkeypatch) -> list[str]:
    """Return a list that gets the strategies that are looked at, each for 100 s of a fake clock."""
    clock = FakeClock()
    looks = []

    def run_side_by_side(variants: list[Variant], run: Any) -> list[Record]:
        for variant in variants:
            clock.seconds += 100
            looks.append(variant.case.strategy)
            write_record(variant, run, spent_s={"total": 100.0})
        return [run.get_records(variant)[-1] for variant in variants]

    monkeypatch.setattr(look, "run_side_by_side", run_side_by_side)
    monkeypatch.setattr(look, "runs_in_one_process", Mock(return_value=True))
    monkeypatch.setattr(Options, "list_cores", Mock(return_value=(1,)))
    monkeypatch.setattr(time, "monotonic", clock.read)
    return looks


@pytest.fixture
def try_four(looks, monkeypatch, tmp_path) -> Callable[..., TrialOutcome]:
    """Return a function that tries four eager strategies, within `limit_s`."""
    four = ("fp32", "checkpoint", "amp_bf16", "keep_grads")
    return partial(try_strategies, monkeypatch, tmp_path, look.take_first_look, *four)


@pytest.mark.parametrize(
    ("limit_s", "looked_at", "left"),
    [
        (None, ["fp32", "checkpoint", "amp_bf16", "keep_grads"], []),
        (6000, ["fp32", "checkpoint", "amp_bf16", "keep_grads"], []),
        (210, ["fp32", "checkpoint"], ["amp_bf16", "keep_grads"]),
        (0, ["fp32"], ["checkpoint", "amp_bf16", "keep_grads"]),  # the baseline in any case
    ],
)
def test_a_try_looks_at_strategies_within_its_time_limit(limit_s, looked_at, left, looks, try_four):
    outcome = try_four(limit_s=limit_s)
    assert looks == looked_at
    assert [name for name, why in outcome.left_out.items() if why == NO_TIME] == left
    assert outcome.is_complete == (not left)


def test_a_try_whose_time_was_over_goes_on_by_the_same_command(looks, try_four):
    first = try_four(limit_s=210)
    assert looks == ["fp32", "checkpoint"]
    try_four(limit_s=0)  # looks at one in any case
    assert looks == ["fp32", "checkpoint", "amp_bf16"]
    last = try_four(limit_s=None)
    assert looks == ["fp32", "checkpoint", "amp_bf16", "keep_grads"]
    assert last.session.id == first.session.id
    assert last.is_complete


def test_what_is_left_is_named_with_the_command_that_goes_on(monkeypatch):
    monkeypatch.setattr(command.sys, "argv", ["/bin/framebench", "try", "my model.py"])
    text = command.describe_rest({"offload": NO_TIME, "autotune": "needs a GPU"}, 2.0)
    assert "--minutes 2 are over" in text
    assert "left: offload. " in text
    assert text.endswith("framebench try 'my model.py'")


@pytest.mark.parametrize(
    ("measured_count", "shown"),
    [(1, [["transformer/torch/train/fp32/b4/tiny", "offload: needs a GPU"]]), (0, [])],
)
def test_an_interrupted_first_look_shows_what_was_measured_if_anything_was(
    measured_count, shown, monkeypatch, tmp_path
):
    tables = []

    def interrupt(variants: list[Variant], run: Any, *_: Any) -> None:
        for variant in variants[:measured_count]:
            write_record(variant, run)
        raise KeyboardInterrupt

    def show(records: list[Any], left_out: dict[str, str]) -> None:
        reasons = [f"{strategy}: {reason}" for strategy, reason in left_out.items()]
        tables.append([*(found.case for found in records), *reasons])

    with pytest.raises(KeyboardInterrupt):
        try_strategies(monkeypatch, tmp_path, interrupt, "fp32", "compile", show_interrupted=show)
    assert tables == shown


@pytest.mark.parametrize(
    ("sources", "looked_at"),
    [
        ("as before", ["compile"]),
        ("changed", ["fp32", "compile"]),
    ],
)
def test_an_interrupted_try_goes_on_unless_the_file_was_changed(
    sources, looked_at, looks, monkeypatch, tmp_path
):
    def interrupt(variants: list[Variant], run: Any, *_: Any) -> None:
        fp32, _ = variants
        write_record(fp32, run)
        raise KeyboardInterrupt

    strategies = ("fp32", "compile")
    with pytest.raises(KeyboardInterrupt):
        try_strategies(monkeypatch, tmp_path, interrupt, *strategies, sources="as before")
    outcome = try_strategies(
        monkeypatch, tmp_path, look.take_first_look, *strategies, sources=sources
    )
    assert looks == looked_at
    assert [found.parsed.strategy for found in outcome.records] == ["fp32", "compile"]
