"""As many processes are alive as memory suffices for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from framebench.engine import capacity as room
from framebench.engine.blocks import Run, measure
from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.engine.timed_process import TimedProcess
from framebench.records import store
from framebench.records.record import Record
from tests.engine.fake_blocks import CASES, by_strategy, group, run, written


def test_memory_limits_how_many_processes_are_alive(
    fake_worker: Environment, results: Path, event_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TimedProcess, "read_resident_peak", lambda live: 2**30)
    monkeypatch.setattr(room, "read_free_memory", lambda: int(3.2 * 2**30 / room.HOST_SHARE))
    with run(results) as opened:
        measure([group(fake_worker)], opened)
    found: dict[str, list[Record]] = {}
    for r in store.read_all(results):
        assert r.turns
        found.setdefault(r.turns.block, []).append(r)
    assert [sorted(r.parsed.strategy for r in found[b]) for b in sorted(found)] == [
        ["accumulate", "checkpoint", "fp32"],
        ["amp_bf16", "fp32"],
    ]
    assert written(event_log, "memory").count("fp32") == 1
    monkeypatch.setattr(room, "read_free_memory", lambda: 1)
    with Run("t", Options(rounds=2), results) as opened:
        measure([group(fake_worker)], opened)
    again = [r.turns for r in store.read_all(results) if r.provenance.session == "t" and r.turns]
    assert {len(t.arms) for t in again} == {2}, "the baseline and one more are always tried"


def test_out_of_memory_next_to_others_is_retried_alone(
    fake_worker: Environment, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = TimedProcess.start

    def counted(live: TimedProcess, reference: Any, core: int | None) -> None:
        beside = list(live.scratch.parent.iterdir()) if live.scratch.parent.exists() else []
        monkeypatch.setenv("ALIVE", "1" if live.scratch in beside else str(len(beside) + 1))
        start(live, reference, core)

    monkeypatch.setattr(TimedProcess, "start", counted)
    monkeypatch.setenv("FAKE_FAILURE", "checkpoint: oom beside others")
    with run(results) as opened:
        measure([group(fake_worker, CASES[:3])], opened)
    found = by_strategy(results)
    assert {r.status for r in found.values()} == {"ok"}
    assert found["checkpoint"].turns
    assert found["checkpoint"].turns.arms == [CASES[1].id]


def test_free_memory_respects_the_control_group(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("400\n")
    assert room.read_free_memory(tmp_path) == 600
    (tmp_path / "memory.max").write_text("max\n")
    assert room.read_free_memory(tmp_path) > 600


def test_room_on_a_gpu_is_what_each_variant_has_taken_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = iter((1000, 700, 350))
    monkeypatch.setattr(room, "read_free_gpu_memory", lambda: next(free))
    found = room.Capacity()
    alive: Any = [SimpleNamespace(read_resident_peak=lambda: 1)]
    found.enter()
    assert (found.taken_on_gpu, found.fits_more(alive)) == ([300], True)
    found.enter()
    assert (found.taken_on_gpu, found.fits_more(alive)) == ([300, 350], False)


def test_a_gpu_that_tells_what_a_process_holds_is_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others may have taken more meanwhile."""
    free = iter((1000, 200))
    monkeypatch.setattr(room, "read_free_gpu_memory", lambda: next(free))
    monkeypatch.setattr(room.nvml, "read_used_by", {7: 300}.get)
    found = room.Capacity()
    found.enter(7)
    assert found.taken_on_gpu == [300]
