"""As many processes are alive as memory suffices for."""

from collections import defaultdict
from unittest.mock import Mock

import pytest

from framebench.engine import capacity
from framebench.engine.blocks import measure
from framebench.engine.capacity import Capacity
from framebench.engine.runner import Options
from framebench.engine.timed_process import TimedProcess
from framebench.records import store
from tests.engine.fake_blocks import CASES, make_group, map_by_strategy, open_run, read_strategies


def test_memory_limits_how_many_processes_are_alive(fake_worker, results, event_log, monkeypatch):
    process_bytes = 2**24
    monkeypatch.setattr(TimedProcess, "read_resident_peak", Mock(return_value=process_bytes))
    # three of the four variants may be alive, and the fourth has a block of its own
    free_bytes = int(3.2 * process_bytes / capacity.HOST_SHARE)
    monkeypatch.setattr(capacity, "read_free_memory", Mock(return_value=free_bytes))
    with open_run(results) as opened:
        measure([make_group(fake_worker)], opened)
    strategies_by_block = defaultdict(list)
    for record in store.read_all(results):
        strategies_by_block[record.turns_taken.block].append(record.parsed.strategy)
    first, second = sorted(strategies_by_block)
    assert sorted(strategies_by_block[first]) == ["accumulate", "checkpoint", "fp32"]
    assert sorted(strategies_by_block[second]) == ["amp_bf16", "fp32"]
    assert read_strategies(event_log, "memory").count("fp32") == 1


def test_baseline_and_one_more_are_measured_whatever_memory_is_free(
    fake_worker, results, monkeypatch
):
    monkeypatch.setattr(capacity, "read_free_memory", Mock(return_value=1))
    with open_run(results, Options(rounds=2)) as opened:
        measure([make_group(fake_worker)], opened)
    records = list(store.read_all(results))
    assert records
    for record in records:
        assert len(record.turns_taken.arms) == 2


@pytest.mark.usefixtures("event_log")
def test_out_of_memory_next_to_others_is_retried_alone(fake_worker, results, monkeypatch):
    monkeypatch.setenv("FAKE_FAILURE", "checkpoint: refusal at first")
    with open_run(results) as opened:
        measure([make_group(fake_worker, CASES[:3])], opened)
    records = map_by_strategy(results)
    assert {record.status for record in records.values()} == {"ok"}
    assert records["checkpoint"].turns_taken.arms == [CASES[1].id]


@pytest.mark.parametrize(
    ("limit", "least", "most"), [("1000", 600, 600), ("300", 0, 0), ("max", 601, 2**60)]
)
def test_free_memory_is_limited_by_the_control_group(limit, least, most, tmp_path):
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text("400\n")
    assert least <= capacity.read_free_memory(tmp_path) <= most


@pytest.mark.parametrize(
    ("reported", "taken"),
    [({}, 300), ({7: 250}, 250)],
    ids=["the fall of free memory", "reported by the GPU"],
)
def test_gpu_memory_of_a_process_is_reported_or_measured(reported, taken, monkeypatch):
    # before the process of id 7, with it, and when a second one is to start
    free_bytes = (1000, 700, 350)
    monkeypatch.setattr(capacity, "read_free_gpu_memory", Mock(side_effect=free_bytes))
    monkeypatch.setattr(capacity.nvml, "read_used_by", reported.get)
    measured = Capacity()
    measured.count_process(7)
    assert measured.gpu_bytes_by_process == [taken]
    assert measured.fits_more([])
    measured.count_process()
    assert not measured.fits_more([])
