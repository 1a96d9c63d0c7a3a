"""Budgets of memory: the search for the largest batch, and evaluation that survives running out."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framebench.analysis.searches import load_searches
from framebench.budget.max_batch.figure import draw_largest, read_searches
from framebench.budget.max_batch.measure import (
    BatchSearch,
    Prober,
    conclude,
    find_file,
    find_saved,
    search_largest_batch,
    select_cases,
)
from framebench.budget.max_batch.oom_recovery import EvaluationReport, evaluate_in
from framebench.engine.environments import Environment, describe
from framebench.engine.runner import Options
from framebench.engine.session import lock_results
from framebench.records import store
from framebench.records.provenance import read_machine_name
from framebench.records.search import Fit, Probe
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite import protocol
from framebench.suite.case import Case
from tests.fake_records import provenance
from tests.figure_records import get_panels, read_texts
from tests.marks import rarely
from tests.processes import framebench, make_fake_environment, run_inside

MIB = 2**20
TRAIN = Case.from_id("transformer/torch/train/fp32/b1/tiny")
EVAL = Case.from_id("transformer/torch/eval/no_grad/b32/tiny")
OPTIONS = Options(time_limit_s=600)
PROGRAMS = Path(__file__).parent / "programs"


def probe_up_to(largest: int) -> Callable[[int], Probe]:
    """Return a probe that finds memory enough for so large a batch."""

    def probe(batch: int) -> Probe:
        outcome = "fits" if batch <= largest else "memory"
        return Probe(batch=batch, outcome=outcome)

    return probe


@given(st.integers(0, 5000), st.integers(1, 8), st.integers(1, 4096))
def test_the_search_finds_any_threshold(threshold, unit, most):
    search = BatchSearch(probe_up_to(threshold), unit, largest_allowed=most).run()

    largest = most // unit * unit  # batches are multiples of `unit`
    fitting = min(threshold // unit * unit, largest)
    assert search.largest_fitting == (fitting or None)
    assert search.smallest_failing == (None if fitting == largest else fitting + unit)

    tried = [probe.batch for probe in search.probes]
    assert len(tried) == len(set(tried)), "each batch once"
    # it doubles up to the threshold, then halves the interval
    assert len(tried) <= 2 * math.log2(max(2, most / unit)) + 2
    for batch in tried:
        assert batch % unit == 0
        assert batch <= most


@given(
    st.dictionaries(st.integers(1, 256), st.sampled_from(["fits", "memory", "failed"])),
    st.sampled_from([1, 2, 4]),
)
def test_the_search_ends_whatever_the_probes_say(outcomes, unit):
    """Memory may fail at 8 and suffice at 12: what is answered was seen, and what is no question of
    memory ends the search.
    """

    def probe(batch: int) -> Probe:
        outcome = outcomes.get(batch, "memory")
        return Probe(batch=batch, outcome=outcome, reason="planted")

    search = BatchSearch(probe, unit, largest_allowed=256).run()

    probed = {probe.batch: probe.outcome for probe in search.probes}
    assert len(probed) <= 20
    assert probed.get(search.largest_fitting, "fits") == "fits"
    assert probed.get(search.smallest_failing, "memory") == "memory"
    assert (search.stopped is not None) == ("failed" in probed.values())
    if search.stopped is None:
        if search.smallest_failing is None:
            assert search.largest_fitting == 256
        else:
            assert search.smallest_failing - (search.largest_fitting or 0) == unit


@pytest.mark.parametrize(("threshold", "is_left_open"), [(64, True), (0, False)])
def test_a_search_that_takes_too_long_says_how_far_it_came(threshold, is_left_open):
    """One batch is tried in any case; where it decides, nothing was left for want of time."""
    search = BatchSearch(probe_up_to(threshold), minutes=0).run()
    assert [probe.batch for probe in search.probes] == [1]
    status, answer = conclude(search, None, MIB)
    assert status == ("stopped" if is_left_open else "none")
    assert ("1 fits; --minutes" in answer) == is_left_open


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_an_allocation_above_the_limit_raises(library, environment):
    # with fixed thresholds malloc gives a large array back to the kernel as soon as it is freed
    malloc = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "131072"}
    program = PROGRAMS / "max_batch_limit.py"
    fits = run_inside(environment["torch"], program, library, variables=malloc)
    assert fits == {
        "60 of 64 MiB": True,
        "66 of 64 MiB": False,
        "20 next to 40 of 64 MiB": True,
        "28 next to 40 of 64 MiB": False,
        "256 MiB without a limit": True,
    }


def test_a_failing_kernel_is_out_of_memory_only_under_a_limit(environment):
    """A library gives the same error for shapes that it has no kernel for."""
    called = run_inside(environment["torch"], PROGRAMS / "max_batch_refused.py")
    kernels = ["Jittor on oneDNN", "JAX on oneDNN", "JAX on YNNPACK"]
    assert called["before"] == ["MemoryError"]
    assert called["under"] == [*kernels, "MemoryError"]
    assert called["after"] == ["MemoryError"]


@pytest.fixture
def unchecked(tmp_path) -> Environment:
    return make_fake_environment("engine/unchecked.py", tmp_path)


@pytest.mark.parametrize(
    ("beyond", "status", "named"),
    [
        ("die", "found", "12 fails: ended by SIGSEGV during steps under the limit; it needs 12.00"),
        ("take it", "found", "finished, but used 12.00 MiB by host.rss: memory beyond the budget"),
        ("be killed", "stopped", "stopped at batch 16: ended by SIGKILL"),
        ("raise", "stopped", "ValueError during steps under the limit: planted; 8 fits"),
    ],
)
def test_a_failing_probe_is_an_answer_or_stops_the_search(
    beyond,
    status,
    named,
    unchecked,
    results,
    monkeypatch,
):
    """The fake worker needs 1 MiB for each sample. Above the limit it does what BEYOND says."""
    monkeypatch.setenv("BEYOND", beyond)
    fit = search_largest_batch(TRAIN, int(11.5 * MIB), unchecked, results=results)
    assert fit.status == status
    assert named in fit.answer
    (path,) = (results / "fits").rglob("*.jsonl")
    assert Fit.model_validate_json(path.read_text()) == fit
    if status == "found":
        tried = [probe.batch for probe in fit.probes]
        assert (fit.largest, tried) == (11, [1, 2, 4, 8, 16, 12, 10, 11])
        assert (fit.confirmation.batch, fit.confirmation.peak) == (12, 12 * MIB)


def test_an_interrupted_search_keeps_and_says_how_far_it_came(unchecked, results, monkeypatch):
    monkeypatch.setenv("BEYOND", "die")
    lines = []

    def interrupt_at_16(line: str) -> None:
        lines.append(line)
        if "/b16/" in line and "fits" not in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search_largest_batch(
            TRAIN, int(20.5 * MIB), unchecked, results=results, progress=interrupt_at_16
        )

    (path,) = (results / "fits").rglob("*.jsonl")
    fit = Fit.model_validate_json(path.read_text())
    assert (fit.status, fit.largest) == ("stopped", 8)
    assert [probe.batch for probe in fit.probes] == [1, 2, 4, 8]
    assert lines[-1].endswith("interrupted; 8 fits")
    assert any(line.endswith("/b8/tiny: fits") for line in lines)


@pytest.mark.parametrize(
    ("interrupted_at", "saved", "message"),
    [
        (1, 0, "interrupted; nothing was found yet"),
        (2, 1, "interrupted; what was found for 1 case is kept"),
        (16, 1, "interrupted; what was found for 1 case is kept"),
    ],
)
def test_an_interrupted_max_batch_counts_every_search_that_it_saved(
    interrupted_at, saved, message, unchecked, results, monkeypatch
):
    def probe(prober: Prober, batch: int, limit: int | None) -> Probe:
        if batch == interrupted_at:
            raise KeyboardInterrupt
        return Probe(batch=batch, outcome="fits")

    monkeypatch.setattr(Prober, "probe", probe)
    where = "--env", unchecked.python, "--results", results
    done = framebench("max-batch", "transformer/torch////tiny", "--budget", "64MiB", *where)
    assert done.returncode == 130
    assert message in done.stderr
    assert len(list(load_searches(results))) == saved


@pytest.mark.parametrize(
    ("strategy", "budget", "most", "status", "largest"),
    [
        ("fp32", MIB // 2, 100, "none", None),
        ("fp32", 500 * MIB, 20, "open", 20),
        ("scan", MIB, 100, "unsupported", None),
        ("accumulate", int(11.5 * MIB), 100, "found", 8),  # a multiple of its micro-batches
    ],
)
def test_a_search_without_a_threshold_says_why(
    strategy,
    budget,
    most,
    status,
    largest,
    unchecked,
    results,
    monkeypatch,
):
    monkeypatch.setenv("BEYOND", "die")
    case = replace(TRAIN, strategy=strategy)
    smallest = replace(case, batch=case.strategy_spec.micro_batches)
    fit = search_largest_batch(smallest, budget, unchecked, most, results=results)
    assert (fit.status, fit.largest) == (status, largest)


@pytest.mark.parametrize("beyond", ["die", "die while writing"])
def test_evaluation_continues_where_a_process_died(beyond, unchecked, monkeypatch):
    monkeypatch.setenv("BEYOND", beyond)
    report = evaluate_in(unchecked, EVAL, 50, 9 * MIB, OPTIONS)
    assert (report.lost, report.twice, report.failure) == (0, 0, "")
    assert report.losses == {sample: 0.5 * sample for sample in range(50)}
    recoveries = [(recovery.batch, recovery.how) for recovery in report.recoveries]
    assert recoveries == [(32, "by a new process"), (16, "by a new process")]
    assert report.batches == {8: 6, 2: 1}


@pytest.mark.parametrize(
    ("beyond", "named"),
    [("die", "batch 1 does not fit"), ("raise", "ValueError"), ("be killed", "SIGKILL")],
)
def test_evaluation_ends_with_a_reason(beyond, named, unchecked, monkeypatch):
    monkeypatch.setenv("BEYOND", beyond)
    report = evaluate_in(unchecked, replace(EVAL, batch=2), 4, MIB // 2, OPTIONS)
    assert named in report.failure
    assert report.lost == 4


def test_samples_that_arrive_twice_are_counted():
    found = EvaluationReport(3)
    for first in (0, 1):
        found.add({"first": first, "batch": 2, "losses": [1.0, 2.0], "peaks": {"host.rss": 1}})
    assert (found.twice, found.lost, found.first_undone, found.total) == (1, 0, 3, 4.0)


# one sample of PyTorch's at this size and no second one, in three processes; some three samples, in
# five and more
ONE, SOME = 140 * MIB, 220 * MIB


@pytest.mark.slow
@pytest.mark.parametrize(
    ("framework", "budget"),
    [
        pytest.param("torch", ONE, id="one sample"),
        *(rarely(f, SOME, id=f) for f in FRAMEWORKS),
    ],
)
def test_a_real_search_finds_the_largest_batch(framework, budget, environment, results):
    """The bracket holds: one fits by its measured peak, the next does not, and without a limit it
    needs more than before.
    """
    (case,) = select_cases("transformer", framework, "train", None, "cpu")
    fit = search_largest_batch(
        case, budget, environment[framework], options=OPTIONS, results=results
    )
    assert fit.status == "found", fit.answer
    assert fit.largest
    probes = {probe.batch: probe for probe in fit.probes}
    fits, fails = probes[fit.largest], probes[fit.largest + 1]
    assert (fits.outcome, fails.outcome) == ("fits", "memory")
    assert 0 < (fits.peak or 0) <= budget
    assert fits.limited
    assert (fit.confirmation.needs or 0) > 0.9 * budget, fit.confirmation.reason
    assert fit.provenance.versions[framework]


@pytest.mark.slow
@pytest.mark.parametrize(
    "framework",
    ["jittor", *map(rarely, ("torch", "jax"))],
)
def test_no_sample_is_lost(framework, environment):
    """The losses are the same without a budget and within one that the whole batch does not fit."""
    case = replace(EVAL, framework=framework, batch=512)
    free = evaluate_in(environment[framework], case, 600, None, OPTIONS)
    tight = evaluate_in(environment[framework], case, 600, 4 * MIB, OPTIONS)
    assert not free.limited
    assert free.recoveries == []
    assert tight.limited
    assert tight.failure == ""
    assert (tight.lost, tight.twice) == (0, 0)
    assert tight.recoveries
    assert max(tight.batches) < 512
    losses, losses_without_limit = list(tight.losses.values()), list(free.losses.values())
    assert losses == pytest.approx(losses_without_limit, rel=1e-4)


def test_mean_of_per_sample_losses_equals_batch_loss(environment):
    losses, batch_loss = run_inside(environment["torch"], PROGRAMS / "max_batch_samples.py")
    assert len(losses) == 5
    assert sum(losses) / 5 == pytest.approx(batch_loss, rel=1e-6)


def test_max_batch_prints_text_or_json(unchecked, results, monkeypatch):
    monkeypatch.setenv("BEYOND", "die")
    where = "--env", unchecked.python, "--results", results
    arguments = "max-batch", "transformer/torch////tiny", *where, "--max-batch", "2"
    done = framebench(*arguments, "--budget", "64MiB", "--json", code=0)
    (fit,) = json.loads(done.stdout)
    assert (fit["largest"], fit["status"]) == (2, "open")
    assert "trying larger batches, a process for each, up to 30 min" in done.stderr
    tight = framebench(*arguments, "--budget", "0.1MiB", code=0)
    assert "none: batch 1 fails" in tight.stdout


@pytest.mark.usefixtures("environment")
def test_evaluate_reports_lost_and_repeated_samples(results):
    arguments = "evaluate", "transformer/torch///b512/tiny", "--results", results
    done = framebench(*arguments, "--samples", "600", "--budget", "4MiB", code=0)
    assert "samples done 600 of 600, lost 0, done twice 0" in done.stdout
    assert "in the process" in done.stdout
    assert "evaluating 600 samples" in done.stderr


def save_search(results: Path, case: Case = TRAIN, **changes: Any) -> Fit:
    """Save a search of this machine, as `framebench max-batch` leaves it."""
    version = changes.pop("protocol", protocol.VERSION)
    fields = {
        "status": "found",
        "answer": "",
        "largest": 11,
        "provenance": provenance(machine=read_machine_name(), protocol=version),
    }
    fit = Fit(case=case.id, **({"budget_bytes": 8 * MIB} | fields | changes))
    store.append(fit, find_file(results, describe("torch")))
    return fit


def test_max_batch_reuses_a_saved_answer(results):
    save_search(results)
    arguments = "max-batch", "transformer/torch////tiny", "--budget", "8MiB"
    with lock_results(results):  # it disturbs no measurement
        done = framebench(*arguments, "--results", results, "--json")
    assert json.loads(done.stdout)[0]["largest"] == 11
    assert "measured 2026-01-02" in done.stderr
    assert "--again" in done.stderr


@pytest.mark.parametrize(
    ("changes", "is_answer"),
    [
        ({}, True),
        ({"status": "stopped"}, False),
        ({"status": "none", "largest": None}, True),
        ({"status": "open", "largest": 100}, True),
        ({"status": "open", "largest": 50}, False),
        ({"probes": [{"batch": 128, "outcome": "memory"}]}, False),
        ({"protocol": protocol.VERSION - 1}, False),
        ({"budget_bytes": 9 * MIB}, False),
    ],
)
def test_a_saved_answer_is_reused_if_complete_and_current(changes, is_answer, results):
    fit = save_search(results, **changes)
    found = find_saved(TRAIN, budget=8 * MIB, most=100, results=results)
    assert found == (fit if is_answer else None)


def test_a_damaged_file_of_saved_answers_is_ignored(results):
    save_search(results)
    (path,) = results.rglob("*.jsonl")
    path.write_text("{}")
    assert find_saved(TRAIN, budget=8 * MIB, most=100, results=results) is None


def test_the_figure_shows_the_newest_searches(results):
    machine = read_machine_name()
    earlier = provenance(machine=machine, measured_at="2025-01-01T00:00:00Z")
    save_search(results, TRAIN, largest=4, status="found", provenance=earlier)
    save_search(results, TRAIN, largest=8, status="found")
    save_search(results, replace(TRAIN, strategy="checkpoint"), largest=32, status="open")
    save_search(results, replace(TRAIN, strategy="accumulate"), largest=None, status="none")
    (results / "fits" / machine / "broken.jsonl").write_text("{")
    with pytest.warns(UserWarning, match="broken"):
        figure = draw_largest(read_searches(results, machine))
    labels = [text.get_text() for text in get_panels(figure)[0].texts]
    assert labels == ["32 or more", "8", "not even the smallest"]
    assert "PyTorch checkpoint fits the largest batch, 32 or more" in read_texts(figure)[0]
