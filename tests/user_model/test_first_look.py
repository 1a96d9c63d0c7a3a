"""The first look: in which order, and that a process of both kinds reads the same peaks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
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
from framebench.user_model.measure import Deadline
from framebench.user_model.session import NO_TIME, TrialOutcome, TrialPlan, measure_strategies
from tests.callbacks import ignore
from tests.fake_records import provenance, record
from tests.record_files import add_records, list_files

VARIANTS = [
    Variant(Case("transformer", "torch", "train", name, 4, "tiny"), CONTROL)
    for name in ("fp32", "compile", "checkpoint", "amp_bf16", "keep_grads")
]


@pytest.mark.parametrize(
    ("without_times", "seconds", "last"),
    [
        (False, None, ["table of 4"]),  # what compiles is in the blocks that follow
        (False, 60, []),
        (True, None, ["table of 4", "block of compile"]),
        (True, 60, []),
    ],
)
def test_eager_strategies_are_shown_before_compiled_ones_if_there_is_time_for_these(
    without_times, seconds, last, monkeypatch
):
    """Two are looked at together, as there are two cores. What compiles takes 100 s."""
    events = []

    def list_names(variants: Any) -> str:
        return ", ".join(variant.case.strategy for variant in variants)

    def run_side_by_side(variants: list[Variant], run: Any) -> list[Variant]:
        events.append(list_names(variants))
        return variants

    def measure_group(group: Any, run: Any) -> None:
        assert not run.options.rounds
        events.append(f"block of {list_names(group.always)}")

    def show(records: list[Any]) -> None:
        events.append(f"table of {len(records)}")

    run = SimpleNamespace(
        options=Options(),
        without_times=without_times,
        get_records=lambda variant: (
            [variant] if f"block of {variant.case.strategy}" in events else []
        ),
    )
    monkeypatch.setattr(look, "run_side_by_side", run_side_by_side)
    monkeypatch.setattr(look.blocks, "measure_group", measure_group)
    monkeypatch.setattr(Options, "list_cores", Mock(return_value=(1, 0)))
    moment = None if seconds is None else time.monotonic() + seconds
    progress = SimpleNamespace(
        estimate_block=lambda cases: 100 * sum(case.strategy_spec.compiles for case in cases)
    )
    look.take_first_look(VARIANTS, run, 2**20, show, Deadline(moment, progress))
    assert events == ["fp32, checkpoint", "amp_bf16, keep_grads", *last]


@pytest.mark.slow
@pytest.mark.parametrize(
    "strategy", [pytest.param("fp32", marks=pytest.mark.all_cases), "checkpoint+accumulate"]
)
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


def measure_some(
    monkeypatch: pytest.MonkeyPatch,
    results: Path,
    first_look: Callable[..., None],
    sources: str = "",
    variants: list[Variant] = VARIANTS[:2],
    limit_s: float | None = None,
    **listeners: Any,
) -> TrialOutcome:
    """Measure strategies of a file by a stand-in of the first look."""
    cases = [variant.case for variant in variants]
    survey = {"facts": {"sources": sources}, "held": 0}
    monkeypatch.setattr(session, "take_first_look", first_look)
    monkeypatch.setattr(session.trial, "list_cases", Mock(return_value=(cases, {"compile": "why"})))
    monkeypatch.setattr(session, "survey_baseline", Mock(return_value=survey))
    model = SimpleNamespace(file=Path("mymodel.py"), scenario="train", batch=4)
    plan = TrialPlan(None, Options(rounds=0), blocks=1, seconds=0, limit_s=limit_s)
    return measure_strategies(model, plan, results, CONTROL, **listeners)


@pytest.mark.parametrize(
    ("minutes", "looked_at", "left"),
    [
        (None, ["fp32", "checkpoint", "amp_bf16", "keep_grads"], []),
        (100, ["fp32", "checkpoint", "amp_bf16", "keep_grads"], []),
        (3.5, ["fp32", "checkpoint"], ["amp_bf16", "keep_grads"]),
        (0, ["fp32"], ["checkpoint", "amp_bf16", "keep_grads"]),  # the baseline in any case
    ],
)
def test_a_try_ends_in_its_minutes_and_goes_on_by_the_same_command(
    minutes, looked_at, left, monkeypatch, tmp_path
):
    """A case takes 100 s by a clock of the test, where its survey took no second."""
    clock = [0.0]
    looks = []

    def read_clock() -> float:
        clock[0] += 0.01
        return clock[0]

    def run_side_by_side(variants: list[Variant], run: Any) -> list[Record]:
        for variant in variants:
            clock[0] += 100.0
            looks.append(variant.case.strategy)
            write_record(variant, run, spent_s={"total": 100.0})
        return [run.get_records(variant)[-1] for variant in variants]

    monkeypatch.setattr(look, "run_side_by_side", run_side_by_side)
    monkeypatch.setattr(look, "runs_in_one_process", Mock(return_value=True))
    monkeypatch.setattr(Options, "list_cores", Mock(return_value=(1,)))
    monkeypatch.setattr(time, "monotonic", read_clock)
    limit_s = None if minutes is None else 60 * minutes
    eager = [variant for variant in VARIANTS if not variant.case.strategy_spec.compiles]
    measure_four = partial(measure_some, monkeypatch, tmp_path, look.take_first_look)
    first = measure_four(variants=eager, limit_s=limit_s)
    assert looks == looked_at
    assert [name for name, why in first.left_out.items() if why == NO_TIME] == left
    assert first.is_complete == (not left)
    if left:
        measure_four(variants=eager, limit_s=0)  # one more in any case
        assert looks == [*looked_at, left[0]]
        rest = measure_four(variants=eager)
        assert looks == [*looked_at, *left]
        assert rest.session.id == first.session.id
        assert rest.is_complete


def test_what_is_left_is_named_with_the_command_that_goes_on(monkeypatch):
    monkeypatch.setattr(command.sys, "argv", ["/bin/framebench", "try", "my model.py"])
    text = command.describe_rest({"offload": NO_TIME, "autotune": "needs a GPU"}, 2.0)
    assert "--minutes 2 are over" in text
    assert "left: offload. " in text
    assert text.endswith("framebench try 'my model.py'")


@pytest.mark.parametrize("measured", [1, 0])
def test_an_interrupted_first_look_is_shown(measured, monkeypatch, tmp_path):
    """Ctrl-C comes after the first of two strategies, or before it, with nothing to show."""
    shown = []

    def interrupt(variants: list[Variant], run: Any, *_: Any) -> None:
        for variant in variants[:measured]:
            write_record(variant, run)
        raise KeyboardInterrupt

    def show(records: list[Any], left_out: dict[str, str]) -> None:
        shown.append([*(found.case for found in records), *left_out])

    with pytest.raises(KeyboardInterrupt):
        measure_some(monkeypatch, tmp_path, interrupt, show_interrupted=show)
    expected = [[VARIANTS[0].case.id, "compile"]] if measured else []
    assert shown == expected


@pytest.mark.parametrize(
    ("sources", "left"),
    [
        ("as before", ["compile"]),
        ("changed", ["fp32", "compile"]),
    ],
)
def test_an_interrupted_try_goes_on_unless_the_file_was_changed(
    sources, left, monkeypatch, tmp_path
):
    looked_at = []

    def interrupt(variants: list[Variant], run: Any, *_: Any) -> None:
        write_record(variants[0], run)
        raise KeyboardInterrupt

    def go_on(variants: list[Variant], run: Any, *_: Any) -> None:
        look.look_at(variants, run, baseline_bytes=0)

    def run_side_by_side(variants: list[Variant], run: Any) -> list[Any]:
        looked_at.extend(variant.case.strategy for variant in variants)
        for variant in variants:
            write_record(variant, run)
        return []

    monkeypatch.setattr(look, "run_side_by_side", run_side_by_side)
    monkeypatch.setattr(look, "runs_in_one_process", Mock(return_value=True))
    with pytest.raises(KeyboardInterrupt):
        measure_some(monkeypatch, tmp_path, interrupt, "as before")
    outcome = measure_some(monkeypatch, tmp_path, go_on, sources)
    assert looked_at == left
    assert [found.parsed.strategy for found in outcome.records] == ["fp32", "compile"]
    outcome.session.close(tmp_path)
    measure_some(monkeypatch, tmp_path, go_on, sources)
    assert looked_at == [*left, "fp32", "compile"], "what came to its end is measured anew"


def test_what_is_kept_is_named_also_if_the_clock_was_set_back(tmp_path):
    add_records(tmp_path, record())
    sizes = command.measure_sizes(tmp_path)
    assert "nothing was measured" in command.describe_kept(tmp_path, sizes)
    add_records(tmp_path, record())
    for file in list_files(tmp_path):
        os.utime(file, (0, 0))
    assert f"is kept in {tmp_path}" in command.describe_kept(tmp_path, sizes)
