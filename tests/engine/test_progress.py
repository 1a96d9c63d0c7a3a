"""What is said while cases are measured."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from framebench.engine.progress import CaseProgress, format_record
from framebench.records import provenance, store
from framebench.suite.case import Case
from framebench.suite.result import StrategyEffect
from tests.fake_records import RIGHT, record
from tests.fake_records import provenance as origin

CASES = [
    Case.from_id("transformer/torch/train/fp32/b4/tiny"),
    Case.from_id("transformer/torch/train/checkpoint_every_2/b4/tiny"),
]


@pytest.fixture(autouse=True)
def published(tmp_path, monkeypatch) -> Path:
    """Return the folder of the published records, which has none."""
    folder = tmp_path / "published"
    monkeypatch.setattr(provenance, "PUBLISHED", folder)
    return folder


def make_console(width: int) -> Console:
    return Console(width=width, file=StringIO(), force_terminal=True, color_system=None)


@pytest.mark.parametrize(("width", "has_whole_case"), [(80, False), (160, True)])
def test_counts_times_and_the_phase_are_whole_at_any_width(width, has_whole_case, tmp_path):
    console = make_console(width)
    progress = CaseProgress(CASES, tmp_path, console, blocks=50)
    progress.on_phase(CASES[1], "round 4 of 8, 2 in turn")
    with console.capture() as shown:
        console.print(progress.bar.get_renderable())
    (line,) = shown.get().splitlines()
    # two cases in 50 blocks, and 20 s for a case that was never measured
    assert "  0/100 0:00:00 at least 33 min left " in line
    assert line.rstrip().endswith("[round 4 of 8, 2 in turn]")
    assert len(line.rstrip()) <= width
    assert (CASES[1].id in line) == has_whole_case


def test_progress_leaves_out_the_blocks_that_a_session_has(tmp_path):
    """A record of another session is none of its blocks."""
    machine = provenance.read_machine_name()
    for session, version in (("now", "2.12.1"), ("now", "2.13.0"), ("before", "2.13.0")):
        measured = record(CASES[0], provenance=origin(session=session), spent_s={"total": 30.0})
        store.append(measured, store.find_file(tmp_path, machine, f"torch-{version}"))
    text = StringIO()
    with CaseProgress(CASES, tmp_path, Console(width=80, file=text), 5, "now") as progress:
        assert progress.blocks_left == {CASES[0]: 3, CASES[1]: 5}
    # 3 blocks of 30 s as before, and 5 of 20 s for the case that was never measured
    message = "measuring 2 cases, each 5 times; 2 of 10 are done already: at least 3 min"
    assert text.getvalue().strip() == message


def test_remaining_time_is_guessed_and_shared_by_parallel_cases(tmp_path):
    guesses = dict.fromkeys(CASES, 8.0)
    progress = CaseProgress(CASES, tmp_path, make_console(80), guesses=guesses, at_once=2)
    assert progress.format_remaining() == "about 8 s"


def test_remaining_time_is_that_of_the_last_record_here(tmp_path):
    file = store.find_file(tmp_path, provenance.read_machine_name(), "torch-2.13.0")
    for case, seconds in zip(CASES, (30.0, 40.0)):
        store.append(record(case, spent_s={"total": seconds}), file)
    progress = CaseProgress(CASES, tmp_path, make_console(80))
    assert progress.format_remaining() == "about 70 s"


def finish_cases(progress: CaseProgress, seconds: dict[Case, float]) -> None:
    for case, total_s in seconds.items():
        progress.on_done(record(case, spent_s={"total": total_s}, **RIGHT))


TEN_CASES = [replace(CASES[0], batch=batch) for batch in range(1, 11)]


def test_one_slow_first_case_does_not_stretch_the_time_of_the_others(tmp_path):
    """It builds kernels that the others use."""
    guesses = dict.fromkeys(TEN_CASES, 20.0)
    progress = CaseProgress(TEN_CASES, tmp_path, make_console(80), guesses=guesses)
    finish_cases(progress, {TEN_CASES[0]: 400.0})
    assert progress.format_remaining() == "about 3 min"
    finish_cases(progress, {TEN_CASES[1]: 10.0, TEN_CASES[2]: 10.0})
    assert progress.format_remaining() == f"about {7 * 10} s"


@pytest.mark.parametrize(
    ("took_s", "line"),
    [
        (100.0, "about 15 min left, since fp32 took 2 min here"),
        (5.0, "about 45 s left, since fp32 took 5 s here"),
        (22.0, None),  # as expected, or almost
    ],
)
def test_the_first_typical_case_corrects_the_estimate(took_s, line, tmp_path):
    """A guess by a slow first process, as of `try`, is corrected by the first faster one."""
    text = StringIO()
    console = Console(width=120, file=text)
    guesses = dict.fromkeys(TEN_CASES, 20.0)
    progress = CaseProgress(TEN_CASES, tmp_path, console, guesses=guesses, is_first_typical=True)
    with progress:
        finish_cases(progress, {TEN_CASES[0]: took_s})
    lines = [printed.strip() for printed in text.getvalue().splitlines()]
    assert lines[0] == "measuring 10 cases: about 3 min"
    corrections = [printed for printed in lines if "left, since" in printed]
    assert corrections == ([line] if line else [])


def test_later_blocks_of_a_case_take_no_process_for_its_memory(tmp_path):
    progress = CaseProgress(CASES[:1], tmp_path, make_console(80), blocks=3)
    spent_s = {"time_import": 2.0, "time_work": 8.0, "memory_work": 30.0, "total": 45.0}
    progress.on_done(record(CASES[0], spent_s=spent_s, **RIGHT))
    assert progress.format_remaining() == "about 20 s"


def test_a_new_case_takes_at_least_the_published_median_of_its_kind(tmp_path, published):
    """Its kernels are not built yet. Another framework, workload or size says nothing of it."""
    baseline = CASES[0]
    for case, seconds in (
        (baseline, 100.0),
        (replace(baseline, strategy="bf16"), 200.0),
        (replace(baseline, batch=8), 900.0),
        (replace(baseline, size="cpu"), 1.0),
        (replace(baseline, workload="unet3d"), 1.0),
        (replace(baseline, framework="jax"), 1.0),
    ):
        measured = record(case, step_s=[1.0], spent_s={"total": seconds})
        store.append(measured, store.find_file(published, "m", f"{case.framework}-1"))
    progress = CaseProgress([CASES[1]], tmp_path, make_console(80))
    assert progress.format_remaining() == "at least 3 min"


def test_a_measured_case_says_why_its_effect_is_not_proven():
    reason = "graph_nodes: expected 0,\nobserved 16"
    unproven = StrategyEffect(proven=False, evidence={}, reason=reason)
    line = format_record(record(CASES[1], effect=unproven))
    assert line.endswith("effect not proven: graph_nodes: expected 0, observed 16")
    proven = StrategyEffect(proven=True, evidence={})
    assert "proven" not in format_record(record(CASES[1], effect=proven))
