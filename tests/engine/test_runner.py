"""Whatever a worker does, a record says what happened, and the suite goes on."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from framebench.engine import blocks, runner, supervisor
from framebench.engine.blocks import Listener
from framebench.engine.runner import Options
from framebench.engine.supervisor import Outcome
from framebench.instruments import nvml
from framebench.records import store
from framebench.suite.case import Case
from framebench.suite.result import Verification
from tests import fake_records
from tests.callbacks import ignore
from tests.engine.fake_blocks import read_cores
from tests.processes import list_processes
from tests.single_case import measure_alone

CASE = Case.from_id("transformer/torch/train/fp32/b4/tiny")


BF16 = replace(CASE, strategy="amp_bf16")


@pytest.mark.parametrize(
    ("case", "status", "instructions", "is_expected"),
    [
        (BF16, "timeout", set(), True),
        (CASE, "timeout", set(), False),
        (BF16, "crashed", set(), False),
        (BF16, "timeout", {"avx512_bf16"}, False),
    ],
    ids=["slow", "not slow", "not a timeout", "has the units"],
)
def test_timeout_of_bfloat16_without_units_is_expected(
    case, status, instructions, is_expected, monkeypatch
):
    monkeypatch.setattr(
        runner.provenance, "list_bfloat16_instructions", Mock(return_value=instructions)
    )
    record = fake_records.record(case, status=status)
    assert runner.is_expected_failure(record) == is_expected


def test_wrong_result_is_expected_of_a_known_fault():
    for is_known in (True, False):
        verification = Verification(passed=False, reason="a kernel", known_fault=is_known)
        record = fake_records.record(BF16, status="wrong", verification=verification)
        assert runner.is_expected_failure(record) == is_known


@pytest.mark.parametrize(
    ("failure", "status", "named"),
    [
        ("exception", "crashed", "ValueError during timing: planted"),
        (
            "refusal",
            "oom",
            "memory ran out during timing, RuntimeError: could not create a primitive",
        ),
        ("segfault", "crashed", "SIGSEGV during timing"),
        ("hang with child", "timeout", "did not end within 8 s, during timing"),
        ("silent exit", "crashed", "exit code 3"),
        ("bad_alloc", "oom", "memory ran out"),
        ("babble", "crashed", "this is not JSON"),
    ],
)
def test_failures_are_classified(failure, status, named, fake_worker, results, monkeypatch):
    monkeypatch.setenv("FAKE_FAILURE", failure)
    monkeypatch.setenv("FAKE_WORKER_RESULTS", str(results))
    options = Options(time_limit_s=8 if "hang" in failure else 600)
    record = measure_alone(CASE, "s", fake_worker, options, results)
    assert (record.status, record.peaks, record.step_s) == (status, {}, [])
    assert named in record.reason
    assert list(store.read_all(results)) == [record]
    assert list_processes(FAKE_WORKER_RESULTS=str(results)) == []


@pytest.mark.parametrize(
    ("failure", "why"),
    [
        ("kill at its proof", "ended by SIGKILL during effect"),
        ("refusal at its proof", "memory ran out during effect"),
    ],
)
def test_measurement_survives_a_process_that_dies_in_its_proof(
    failure, why, fake_worker, results, monkeypatch
):
    monkeypatch.setenv("FAKE_FAILURE", failure)
    record = measure_alone(CASE, "a session", fake_worker, Options(rounds=2), results)
    assert (record.status, len(record.step_s), record.peak_bytes) == ("ok", 2, 2**20)
    assert not record.effect.proven
    assert not record.usable
    assert f"the strategy was not proven: {why}" in record.reason


def test_only_workers_that_may_use_a_gpu_are_not_pinned(
    fake_worker, results, tmp_path, monkeypatch
):
    event_log = tmp_path / "event_log"
    monkeypatch.setenv("EVENT_LOG", str(event_log))
    monkeypatch.setattr(nvml, "list_gpus", Mock(return_value=("a GPU",)))
    core = Options().choose_core()
    pinned = measure_alone(CASE, "s", fake_worker, Options(rounds=2), results)
    installed = replace(fake_worker, version="1", installed=True)
    free = measure_alone(CASE, "s", installed, Options(rounds=2), results)
    assert read_cores(event_log, "start") == [str(core), "None"]
    assert read_cores(event_log, "finish") == [str(core), "None"]
    assert (pinned.provenance.core, free.provenance.core) == (core, None)


def test_kill_by_the_kernel_is_out_of_memory(fake_worker, results, tmp_path, monkeypatch):
    counter = tmp_path / "vmstat"
    counter.write_text("pgfault 7\noom_kill 2\n")
    monkeypatch.setattr(supervisor, "OOM_COUNTERS", (tmp_path / "missing", counter))
    assert supervisor.count_oom_kills() == 2
    # one more whenever it is asked: when a worker starts, and when it is dead
    monkeypatch.setattr(supervisor, "count_oom_kills", Mock(side_effect=count(2)))
    monkeypatch.setattr(blocks, "check_mathematics", ignore)
    monkeypatch.setenv("FAKE_FAILURE", "kill")
    record = measure_alone(CASE, "s", fake_worker, Options(), results)
    assert record.status == "oom"
    assert "memory ran out" in record.reason


def test_an_invalid_result_is_a_crash():
    worker = SimpleNamespace(phase="timing", measured={})
    found = runner.read_case_outcome(worker, Outcome(answer={"peaks": {"host.rss": 1}}))
    assert found.status == "crashed"
    assert found.reason.startswith("Protocol during timing: not a result: ")


class Phases(Listener):
    def __init__(self) -> None:
        self.found: set[str] = set()

    def on_phase(self, case: Case, what: str) -> None:
        self.found.add(what)


def test_a_measured_case_is_verified_proven_and_complete(environment, results):
    phases = Phases()
    record = measure_alone(CASE, "s", environment["torch"], Options(rounds=5), results, phases)
    assert record.status == "ok", record.reason
    assert record.verification.passed
    assert record.effect.proven
    assert len(record.step_s) == 5
    assert record.peak_bytes > record.live_bytes
    assert record.provenance.versions["torch"].startswith(environment["torch"].version)
    assert record.provenance.environment["MALLOC_MMAP_THRESHOLD_"] == "65536"
    named = {"import", "build", "first step", "warm-up", "timing", "effect", "memory"}
    assert named | {"round 1 of 5, 1 in turn"} <= phases.found


def test_running_out_of_memory_is_a_result(environment, results):
    case = Case.from_id("resnet50/torch/train/fp32/b16/cpu")
    record = measure_alone(
        case, "s", environment["torch"], Options(memory_limit=500 * 2**20), results
    )
    assert record.status == "oom", record.reason
    assert "memory ran out during first step, " in record.reason
    assert record.provenance.memory_limit == 500 * 2**20


def test_a_limit_below_the_imports_is_called_too_small(environment, results):
    record = measure_alone(
        CASE, "s", environment["torch"], Options(memory_limit=10 * 2**20), results
    )
    assert record.status == "oom", record.reason
    assert "the limit of 10.0 MiB is too small: the imports alone map" in record.reason
