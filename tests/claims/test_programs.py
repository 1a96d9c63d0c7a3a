"""Claims that no case decides are judged by what programs have printed."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

import pytest

from framebench.analysis.results import Results
from framebench.claims import measure as claim_programs
from framebench.claims.ledger import list_names
from framebench.claims.measures import PlannedReport, ProgramMeasure
from framebench.claims.plans import Plan, bound_bytes, divide_plans, find_report
from framebench.claims.probes.names import exists
from framebench.claims.registry import REGISTRY
from framebench.claims.rule import Effect, NoNumber
from framebench.claims.run import find_missing
from framebench.claims.store import MachineResults
from framebench.devices.releases.reported import Reported
from framebench.engine.environments import Environment
from tests.claims.claim_records import judge_claim, put_numbers
from tests.devices.fake_predictions import make_interval
from tests.processes import list_processes, run_inside


@pytest.mark.parametrize("claim", ["B13", "B16", "B20", "B29"])
def test_a_name_that_does_not_exist_is_reported(results, claim):
    """The claims recommend names, which a program looks up."""
    names = list_names(REGISTRY.claims)
    assert judge_claim(results, claim).verdict == "not measured"
    put_numbers(results, "names", names=dict.fromkeys(names, False))
    assert judge_claim(results, claim).verdict == "no such API"
    put_numbers(results, "names", minute=1, names=dict.fromkeys(names, True))
    assert judge_claim(results, claim).verdict != "no such API"


@pytest.mark.parametrize(
    ("whole", "verdict"), [(99.0, "confirmed"), (20.0, "opposite"), (None, "not measured")]
)
def test_reports_are_judged_by_their_programs(results, whole, verdict):
    found = {"plain": [100.0] * 5}
    if whole is not None:  # else an older program's
        found["whole"] = [whole] * 5
    put_numbers(results, "report-jax-19822", found=found)
    assert judge_claim(results, "R1").verdict == verdict


@pytest.mark.parametrize(
    ("found", "error", "verdict"),
    [
        ({"steps": [1.0]}, "", "confirmed"),
        ({}, "AttributeError: no attribute 'backward'", "listing does not run"),
    ],
)
def test_a_listing_is_judged_by_running_it_on_whatever_machine(results, found, error, verdict):
    put_numbers(results, "snippet-jittor_accumulate", machine="another", found=found, error=error)
    entry = judge_claim(results, "B22")
    assert entry.verdict == verdict
    assert error in entry.remark
    assert "The programs of this claim ran on another." in entry.remark


def test_this_machines_result_counts_first_unless_an_older_program_gave_it(results):
    found = {"cleared": [10.0] * 5, "cleared_same": [5.0] * 5}
    newer = found | {"cleared": [7.0] * 5}
    put_numbers(results, "report-jax-19429", minute=1, machine="another", found=newer)
    (claim,) = REGISTRY.select(["R4"])
    assert judge_claim(results, "R4").value == 2
    missing = find_missing([claim], MachineResults(Results(results), "m"), "tiny")
    assert "report-jax-19429" in missing.probes, "it may have its own"
    put_numbers(results, "report-jax-19429", found=found)
    assert judge_claim(results, "R4").value == 5
    put_numbers(results, "report-jax-19429", minute=2, found={"alone_s": [1.0]})
    assert judge_claim(results, "R4").value != 5


def test_a_claim_about_a_processor_is_judged_by_the_results_of_such_processors(results):
    """R13 is about processors with AMX, and the newest of them counts if this one has none."""

    def add(error: float, machine: str, minute: int, bfloat16: Sequence[str]) -> None:
        found = {"relative_error": [error] * 5}
        put_numbers(results, "report-torch-169688", minute, machine, bfloat16, found=found)

    add(0.003, "m", 3, ["avx512_bf16"])
    assert judge_claim(results, "R13").verdict == "not testable here"
    add(1.4, "with-amx", 0, ["amx_bf16"])
    add(1.1, "newer-with-amx", 1, ["amx_bf16", "avx512_bf16"])
    entry = judge_claim(results, "R13")
    assert (entry.verdict, entry.value) == ("confirmed", 1.1)
    assert entry.lines[0].number == "110.0 % on newer-with-amx"
    add(0.8, "m", 4, ["amx_bf16"])
    entry = judge_claim(results, "R13")
    assert (entry.value, entry.lines[0].number) == (0.8, "80.0 %")


def test_amounts_have_students_interval_and_counts_their_range():
    values = [3.0, 8.5, 9.6, 7.0, 8.0]
    half = 2.776 * stdev(values) / 5**0.5
    amount = ProgramMeasure("value", "p", ("a",), exact=False)
    count = ProgramMeasure("value", "p", ("a",), exact=True)
    assert amount.compute(values) == pytest.approx(
        (mean(values), mean(values) - half, mean(values) + half), rel=1e-3
    )
    assert amount.compute([3.0]).high == math.inf, "one process has none"
    assert count.compute([1.0, 2.0, 4.0]) == (2, 1, 4)


@pytest.mark.parametrize(
    ("read", "number"), [("difference", -50), ("ratio", 0.5), ("share saved", 0.5)]
)
def test_two_numbers_that_each_process_printed_are_compared(read, number):
    measure = ProgramMeasure(read, "p", ("a", "b"))
    effect = measure.compute([50.0] * 5, [100.0] * 5)
    assert effect == pytest.approx(Effect(value=number, low=number, high=number))


def test_a_ratio_to_zero_is_refused():
    with pytest.raises(NoNumber, match="b is zero or less"):
        ProgramMeasure("ratio", "p", ("a", "b"), exact=True).compute([1.0], [0.0])


def test_the_error_of_a_ratio_joins_the_errors_of_both_plans():
    small = Plan(Path(), make_interval(-0.05, 0.1), peak=60, in_use=60)
    large = Plan(Path(), make_interval(-0.01, 0.02), peak=100, in_use=100)
    ratio = divide_plans(base=large, candidate=small, quantity="peak")
    # the low end has the smallest numerator over the largest denominator
    assert ratio.low == pytest.approx(60 * 0.95 / (100 * 1.02))
    assert ratio.high == pytest.approx(60 * 1.1 / (100 * 0.99))


def test_a_ratio_of_plans_has_no_interval_if_an_error_is_not_judged():
    judged = Plan(Path(), make_interval(0, 0.01), peak=60, weights=60)
    not_judged = Plan(Path(), make_interval(0, 0.01, rows=4), peak=100, weights=100)
    ratio = divide_plans(base=not_judged, candidate=judged, quantity="peak")
    assert ratio == Effect.without_interval(0.6)


def test_planned_weights_have_no_error():
    base = Plan(Path(), make_interval(-0.05, 0.1), peak=60, weights=60)
    candidate = Plan(Path(), make_interval(0, 0.01, rows=4), peak=100, weights=90)
    ratio = divide_plans(base=base, candidate=candidate, quantity="weights")
    assert ratio == Effect.exact(1.5)


def test_planned_added_memory_has_the_errors_of_both_its_parts():
    plan = Plan(Path(), make_interval(-0.1, 0.2), peak=100, standing=40, in_use=100)
    assert bound_bytes(plan, "added") == pytest.approx(Effect(value=60, low=90 - 48, high=120 - 36))


def test_a_planned_report_is_exact(results):
    plain = {"arguments": 10, "outputs": 5, "temporaries": 85, "aliased": None}
    report = {
        "device": "h100-80gb",
        "framework_version": "0.10.2",
        "programs": {"jax 1": {"plain": plain, "recomputed": plain | {"temporaries": 35}}},
        "code": "1",
        "planned_at": "2026-11-28T00:00:00+00:00",
        "commit": None,
    }
    file = find_report(results, "0.10.2")
    file.parent.mkdir(parents=True)
    file.write_text(Reported.model_validate(report).model_dump_json())
    machine = MachineResults(Results(results), "m")
    planned = PlannedReport("0.10.2", "jax 1", "recomputed", "plain")
    assert planned.compute_effect(machine, "") == (0.5,) * 3
    with pytest.raises(NoNumber, match=r"not planned by JAX 0\.4"):
        PlannedReport("0.4", "jax 1", "recomputed", "plain").compute_effect(machine, "")


def test_attributes_and_modules_exist_whether_imported_or_not():
    paths = ["json.loads", "concurrent.futures", "json.no_such_name.loads"]
    assert list(map(exists, paths)) == [True, True, False]


def test_the_profiler_counts_bytes_that_a_step_holds(environment):
    """The step makes three megabytes, and holds two of them at once."""
    program = Path(__file__).parent / "programs" / "measure_allocated.py"
    assert run_inside(environment["torch"], program) == 2 * 2**20


def test_a_loop_over_steps_needs_a_fraction_of_the_bytes(environment, monkeypatch):
    monkeypatch.setattr(claim_programs, "ROUNDS", 1)
    found = claim_programs.try_report(environment["jax"], "27748")
    steps, bytes_per_step = 1000, 4 * 300 * 100  # where the state of every step is kept
    assert found["plain"][0] == pytest.approx(steps * bytes_per_step, rel=0.01)
    assert found["in_a_loop"][0] < 0.2 * found["plain"][0]


@pytest.mark.parametrize(
    ("program", "ended_by"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("signal.raise_signal(signal.SIGSEGV)", "SIGSEGV"),
        ("os._exit(3)", "exit code 3"),
        ("pass", "exit code 0"),
        ('print("{cut off", flush=True); os._exit(1)', "exit code 1"),
    ],
)
def test_a_program_that_tells_nothing_is_no_result(program, ended_by, tmp_path):
    """It would be taken for one that ran without numbers, and a claim be called wrong."""
    file = tmp_path / "program.py"
    file.write_text(f"import os, signal\n{program}\n")
    here = Environment("torch", "0", Path(sys.executable))
    with pytest.raises(RuntimeError, match=rf"program\.py ended by {ended_by}, without numbers"):
        claim_programs.run_program(here, file)


@pytest.mark.timeout(100)
def test_a_program_without_an_end_is_killed_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr(claim_programs, "TIME_LIMIT_S", 2.5)
    program = tmp_path / "endless.py"
    program.write_text("import os, time\nos.fork()\ntime.sleep(600)\n")
    here = Environment("torch", "0", Path(sys.executable))
    with pytest.raises(RuntimeError, match=r"endless\.py did not finish within 2\.5 s"):
        claim_programs.run_program(here, program)
    assert list_processes(program) == []
