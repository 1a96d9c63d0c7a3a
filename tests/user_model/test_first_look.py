"""The first look: in which order, and that a process of both kinds reads the same peaks."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from framebench.engine import runner
from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.engine.timed_process import CONTROL, Variant
from framebench.records.provenance import read_machine_name
from framebench.suite.case import Case
from framebench.user_model import command
from framebench.user_model import look as looks
from framebench.user_model.look import SHOWN_S, FirstLook
from tests.fake_records import provenance, record

NAMES = ["fp32", "compile", "checkpoint", "amp_bf16", "keep_grads"]


class Told:
    """A look whose processes end at once, each in the same time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float = 0.0) -> None:
        self.written, self.shown, self.asked, self.now = [], [], [], 0.0  # type: ignore[var-annotated]
        self.seconds = seconds
        run: Any = SimpleNamespace(
            options=Options(),
            without_times=False,
            write=lambda record, variant: self.written.append(record),
        )
        self.look = FirstLook(run, 0.0, 2**20, self.table)
        monkeypatch.setattr(looks, "run_side_by_side", self.run_side_by_side)
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(Options, "list_cores", lambda options: (1, 0))

    def run_side_by_side(self, variants: list[Variant], run: Any) -> list[Any]:
        self.now += self.seconds
        self.asked += [variant.case.strategy for variant in variants]
        return [SimpleNamespace(case=variant.case.strategy, status="ok") for variant in variants]

    def table(self, records: list[Any]) -> None:
        self.shown.append([record.case for record in records])

    def take(self) -> list[tuple[str, str]]:
        self.look.look_at(
            [Variant(Case("transformer", "torch", "train", name, 4), CONTROL) for name in NAMES]
        )
        return [(record.case, record.status) for record in self.written]


def test_the_table_is_shown_in_time_and_without_what_compiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What takes a minute to compile is not in it; a slow strategy does not keep the others
    back.
    """
    result = Told(monkeypatch, SHOWN_S + 1)
    assert [name for name, _ in result.take()] == ["fp32", "checkpoint", "amp_bf16", "keep_grads"]
    assert result.shown == [["fp32", "checkpoint"]]


def test_compiled_strategies_are_measured_as_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    result, groups = Told(monkeypatch), list[tuple[int, list[str]]]()

    def measured(group: Any, run: Any) -> None:
        groups.append((run.options.rounds, [variant.case.strategy for variant in group.always]))

    monkeypatch.setattr(
        looks, "runs_in_one_process", lambda variant: variant.case.strategy == "fp32"
    )
    monkeypatch.setattr(looks.blocks, "measure_group", measured)
    result.look.run.records = lambda variant: [SimpleNamespace(case=variant.case.strategy)]  # type: ignore[method-assign,assignment,return-value]
    result.take()
    assert result.asked == ["fp32"]
    assert groups == [(0, ["checkpoint", "amp_bf16"]), (0, ["keep_grads"])]


@pytest.mark.slow
@pytest.mark.parametrize(
    "strategy", [pytest.param("fp32", marks=pytest.mark.all_cases), "checkpoint+accumulate"]
)
def test_one_process_reads_the_peaks_of_two(
    strategy: str, environment: dict[str, Environment], tmp_path: Path
) -> None:
    """Those of the process that reads memory alone; and the steps that follow are right."""
    case, found = Case.from_id(f"transformer/torch/train/{strategy}/b4/tiny"), {}
    for part in ("memory", "look"):
        found[part] = runner.MemoryProcess(
            case, environment["torch"], runner.DEFAULT_OPTIONS, tmp_path / part, part=part
        ).end(lambda phase: None)
        assert found[part].status == "ok", found[part].reason
    memory, look = (found[part].result for part in ("memory", "look"))
    assert look.memory.peaks["host.rss"] == pytest.approx(
        memory.memory.peaks["host.rss"], rel=0.01, abs=2**18
    )
    assert look.memory.live_bytes == memory.memory.live_bytes
    assert look.verification.passed
    assert look.effect.proven


def test_an_interrupted_first_look_is_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ctrl-C after the first of two strategies; and at once, when there is nothing to show."""
    cases, shown = (
        [Case("transformer", "torch", "train", name, 4, "tiny") for name in NAMES[:2]],
        list[list[str]](),
    )
    counts = [1, 0]

    def interrupted(look: FirstLook, variants: list[Variant]) -> None:
        for variant in variants[: counts.pop(0)]:
            look.run.write(
                record(
                    variant.case,
                    provenance=provenance(machine=read_machine_name(), session=look.run.id),
                ),
                variant,
            )
        raise KeyboardInterrupt

    monkeypatch.setattr(FirstLook, "look_at", interrupted)
    monkeypatch.setattr(command.trial, "choose_environment", lambda *_: CONTROL)
    monkeypatch.setattr(command.trial, "list_cases", lambda *_: (cases, {"compile": "why"}))
    monkeypatch.setattr(command.trial, "describe_facts", lambda *_: "")
    monkeypatch.setattr(command, "run_survey", lambda *_, **__: {"facts": {}, "held": 0})
    while counts:
        with pytest.raises(KeyboardInterrupt):
            command.measure(
                SimpleNamespace(),
                None,
                Options(rounds=0),
                1,
                0,
                tmp_path,
                None,  # type: ignore[arg-type]
                show_interrupted=lambda records, left_out: shown.append(
                    [*(r.case for r in records), *left_out]
                ),
            )
    assert shown == [[cases[0].id, "compile"]]
