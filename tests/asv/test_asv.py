"""Real asv on a fresh clone: run, show, compare, publish; one failing case harms no other; an
interrupted run resumes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from framebench.engine.session import lock_results
from tests.asv.clone import Clone
from tests.marks import rarely
from tests.repositories import run_git

pytestmark = pytest.mark.slow
# in the framework whose processes start fastest
CASES = {f"transformer/jittor/train/{strategy}/b4/tiny" for strategy in ("fp32", "checkpoint")}
CLASS = "transformer.TransformerJittorTrainTiny"
BENCHMARK = f"{CLASS}.track_peak_memory"
# enough for a run: each case takes two processes, and each of its metrics one
CHEAPEST = r"TransformerJittorTrainTiny\.track_peak_memory\('(fp32|checkpoint)'"
FEW_BENCHMARKS = (
    r"TransformerJittorTrainTiny\.track_(peak_memory|own_counter_peak|step_time)"
    r"\('(fp32|checkpoint)'"
)
# two blocks: the cases of one end at the same moment, so that an interruption hits between blocks
TWO_BLOCKS = r"TransformerJittor(Train|Eval)Tiny\.track_peak_memory\('(fp32|checkpoint|no_grad)'"
OF_TWO_BLOCKS = CASES | {"transformer/jittor/eval/no_grad/b4/tiny"}
USER_FILE = """
def time_sum():
    sum(range(9))

def track_answer():
    return 42
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory, environment) -> Clone:
    return Clone(tmp_path_factory.mktemp("asv"))


def test_a_run_stores_records_and_shows_their_numbers(clone):
    done = clone.run(FEW_BENCHMARKS)
    assert done.returncode == 0, done.stdout + done.stderr
    records = clone.records()
    assert len(records) == len(CASES), "each case once, not once per metric"
    assert {record.case for record in records} == CASES
    assert {record.status for record in records} == {"ok"}

    (record,) = [record for record in records if "checkpoint" in record.case]
    assert record.provenance.machine == "test"
    assert record.provenance.command.startswith("asv run ")

    def read_value(metric):
        return clone.values("jittor", f"{CLASS}.{metric}")["checkpoint", 4]

    peak = read_value("track_peak_memory")
    assert peak == record.peaks["host.rss"] / 2**20, "by the instrument that all frameworks share"
    assert read_value("track_own_counter_peak") == record.peaks["allocator.in_use"] / 2**20
    assert read_value("track_step_time") == record.step_time_s

    assert f"{peak:.1f} MiB (host.rss)" in done.stdout, "when the case is done"
    assert f"{peak:.1f}MiB" in done.stdout, "in asv's table"


def test_skip_existing_with_nothing_to_measure_prints_a_line(clone):
    before = clone.records()
    done = clone.asv("run", "--machine", "test", "--skip-existing", f"--bench={FEW_BENCHMARKS}")
    assert done.returncode == 0, done.stdout + done.stderr
    message = "[100.00%] · Nothing to measure: this commit has results of all that is selected"
    assert message in done.stdout
    assert clone.records() == before


def test_an_interrupted_run_resumes(clone):
    """The run is at a commit of its own, for which the other tests have measured nothing."""
    clone.commit("another")
    old = clone.records()

    def list_new():
        return [record for record in clone.records() if record not in old]

    process = subprocess.Popen(
        clone.command("run", "--machine", "test", f"--bench={TWO_BLOCKS}"),
        cwd=clone.root,
        env=clone.variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while len(clone.records()) == len(old) and process.poll() is None:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode != 0
    assert 0 < len(list_new()) < len(OF_TWO_BLOCKS)

    assert clone.run(TWO_BLOCKS).returncode == 0
    # nothing is lost, and nothing is measured twice
    assert sorted(record.case for record in list_new()) == sorted(OF_TWO_BLOCKS)
    assert len({record.provenance.session for record in list_new()}) == 1


def test_show_compare_and_publish(clone):
    """What is shown are the two runs above, whose commits are the newest two."""
    newest, older = run_git(clone.root, "rev-parse", "HEAD", "HEAD~").split()

    shown = clone.asv("show", "--machine", "test", newest)
    assert shown.returncode == 0
    assert "track_peak_memory" in shown.stdout
    assert set(shown.stdout.replace("|", " ").split()) >= {"fp32", "checkpoint"}
    assert "n/a" not in shown.stdout, "rows of what is no case are left out"

    compared = clone.asv("compare", "--machine", "test", older, newest)
    assert compared.returncode == 0, compared.stderr
    assert "track_peak_memory('fp32', 4)" in compared.stdout

    published = clone.asv("publish")
    assert published.returncode == 0, published.stdout + published.stderr
    assert "Skipping" not in published.stdout + published.stderr
    assert (clone.root / ".asv/html/index.html").exists()


def test_one_bad_case_harms_no_other(clone):
    """An error is planted in one strategy of one framework."""
    switches = clone.root / "framebench/adapters/jittor/checkpoint.py"
    good = switches.read_text()
    start = "    recomputed_blocks: list[Module] = []"
    assert start in good
    switches.write_text(good.replace(start, "    raise ValueError('planted')\n" + start))
    try:
        done = clone.run(CHEAPEST)
    finally:
        switches.write_text(good)
    assert done.returncode != 0
    peaks = clone.values("jittor", BENCHMARK)
    assert peaks["checkpoint", 4] is None, "failed"
    assert peaks["fp32", 4] > 0
    (crashed,) = [record for record in clone.records() if record.status == "crashed"]
    assert "checkpoint" in crashed.case
    assert crashed.reason == "time worker: ValueError during build: planted"


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "HEAD~"),
        rarely(("continuous", "HEAD~", "HEAD")),
    ],
)
def test_other_commits_are_refused_in_a_line(clone, arguments):
    """What runs is the working tree: nothing of another commit must be stored under its name."""
    before = clone.stored()
    done = clone.asv(arguments[0], "--machine", "test", *arguments[1:])
    lines = (done.stdout + done.stderr).strip().splitlines()
    assert done.returncode != 0
    assert len(lines) == 1
    assert "check each commit out, type asv run there, then asv compare" in lines[0]
    assert clone.stored() == before


@pytest.mark.all_cases
def test_asv_find_is_refused_before_it_measures(clone):
    """asv itself would take a commit that cannot be installed for a slow one, and name it."""
    for _ in range(3):
        clone.commit("one more")
    before = clone.stored()
    done = clone.asv("find", "--machine", "test", "HEAD~3..HEAD", BENCHMARK)
    assert done.returncode == 1
    assert "cannot measure" in done.stderr
    assert "check each commit out" in done.stderr
    assert "Greatest regression" not in done.stdout
    assert clone.stored() == before


@pytest.mark.all_cases
def test_another_python_is_refused_with_a_hint(clone):
    done = clone.asv("run", "--machine", "test", "--python=same", f"--bench={CHEAPEST}")
    assert done.returncode == 1
    assert "leave out --python and -E existing" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_an_invalid_machine_name_is_refused_in_a_line(clone):
    """asv itself would store results outside the results folder."""
    before = list_json_files(clone.home.parent)
    assert clone.asv("machine", "--yes", "--machine", "../../../x").returncode == 0
    done = clone.asv("run", "--machine", "../../../x")
    assert done.returncode != 0
    assert "'../../../x' is no name of a machine" in done.stdout + done.stderr
    assert list_json_files(clone.home.parent) == before


def list_json_files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*.json") if ".git" not in path.parts}


def test_benchmarks_of_a_users_file_run(clone):
    """The file lies in benchmarks/, and imports nothing of framebench."""
    own = clone.root / "benchmarks/mine.py"
    own.write_text(USER_FILE)
    try:
        done = clone.run(r"mine\.")
    finally:
        own.unlink()
    assert done.returncode == 0, done.stdout + done.stderr
    for framework in ("torch", "jax", "jittor"):
        results = clone.results(framework)
        assert results["mine.time_sum"] > 0
        assert results["mine.track_answer"] == 42


def test_a_run_is_refused_while_another_process_measures(clone):
    with lock_results(clone.root / "results"):
        done = clone.run(FEW_BENCHMARKS)
    assert done.returncode != 0
    assert f"process {os.getpid()}" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
