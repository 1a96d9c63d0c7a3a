"""Real asv on a fresh clone: run, show, compare, publish; one failing case harms no other; an interrupted run resumes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter

import pytest

from framebench.engine.environments import Environment
from framebench.engine.session import alone
from tests.asv.clone import Clone

pytestmark = pytest.mark.slow
# in the framework whose processes start fastest
CASES = {f"transformer/jittor/train/{strategy}/b4/tiny" for strategy in ("fp32", "checkpoint")}
BENCHMARK = "transformer.TransformerJittorTiny.track_peak_memory"
UNSUPPORTED = "transformer/jittor/train/rewrite/b4/tiny"
# enough for a run: each case takes two processes, and each of its metrics one
CHEAPEST = r"TransformerJittorTiny\.track_peak_memory\('train', '(fp32|checkpoint|rewrite)'"
FEW = r"TransformerJittorTiny\.track_(peak_memory|own_counter_peak|step_time)\('train', '(fp32|checkpoint|rewrite)'"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, Environment]) -> Clone:
    return Clone(tmp_path_factory.mktemp("asv"))


def test_the_whole_way(clone: Clone) -> None:
    done = clone.run(FEW)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {r.case: r for r in clone.records()}
    assert len(found) == len(clone.records()), "each case once, not once per metric"
    assert {case: r.status for case, r in found.items()} == dict.fromkeys(CASES, "ok") | {UNSUPPORTED: "unsupported"}
    peaks = clone.values("jittor", "track_peak_memory")
    record = found["transformer/jittor/train/checkpoint/b4/tiny"]
    assert peaks["train", "checkpoint", "4"] == record.peaks["host.rss"] / 2**20, "by what all frameworks share"
    own_peaks = clone.values("jittor", "track_own_counter_peak")
    assert own_peaks["train", "checkpoint", "4"] == record.peaks["allocator.in_use"] / 2**20
    shown = f"{record.peaks['host.rss'] / 2**20:.1f}"
    assert f"{shown} MiB (host.rss)" in done.stdout, "as it comes"
    assert f"{shown}MiB" in done.stdout, "and in asv's table"
    assert peaks["train", "rewrite", "4"] != peaks["train", "rewrite", "4"], "unsupported is NaN, which asv shows as n/a"
    assert clone.values("jittor", "track_step_time")["train", "checkpoint", "4"] == record.step_time_s
    assert (record.provenance.machine, record.provenance.command[:8]) == ("test", "asv run ")


def test_an_interrupted_run_resumes(clone: Clone) -> None:
    """At a commit of its own."""
    clone.commit("another")
    before = len(clone.records())
    process = subprocess.Popen(
        clone.command("run", "--machine", "test", f"--bench={CHEAPEST}"), cwd=clone.root, env=clone.variables,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    while len(clone.records()) == before and process.poll() is None:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode != 0
    kept = clone.records()
    assert before < len(kept) < before + len(CASES) + 1
    assert clone.run(CHEAPEST).returncode == 0
    newest = sorted(clone.records(), key=lambda r: r.provenance.measured_at)[before:]
    assert Counter(r.case for r in newest) == Counter({*CASES, UNSUPPORTED}), "nothing lost, nothing measured twice"
    assert len({r.provenance.session for r in newest}) == 1


def test_show_compare_and_publish(clone: Clone) -> None:
    """Of the two runs above."""
    head = subprocess.run(["git", "rev-parse", "HEAD", "HEAD~"], cwd=clone.root, capture_output=True, text=True).stdout.split()
    shown = clone.asv("show", "--machine", "test", head[0])
    assert shown.returncode == 0
    assert "track_peak_memory" in shown.stdout
    compared = clone.asv("compare", "--machine", "test", *head[::-1])
    assert compared.returncode == 0, compared.stderr
    assert "track_peak_memory('train', 'fp32', 4)" in compared.stdout
    assert set(shown.stdout.replace("|", " ").split()) >= {"train", "checkpoint"}
    assert "n/a" not in shown.stdout, "rows of what is no case are left out"
    published = clone.asv("publish")
    assert published.returncode == 0, published.stdout + published.stderr
    assert "Skipping" not in published.stdout + published.stderr
    assert (clone.root / ".asv/html/index.html").exists()


def test_another_profile_hides_nothing(clone: Clone) -> None:
    listed = clone.asv("run", "--machine", "test", "--bench", "just-discover", FRAMEBENCH_PROFILE="quick")
    assert listed.returncode == 0, listed.stdout + listed.stderr
    shown = clone.asv("show", "--machine", "test", "HEAD", FRAMEBENCH_PROFILE="quick")
    assert "transformer.TransformerJittorTiny.track_peak_memory" in shown.stdout


def test_one_bad_case_harms_no_other(clone: Clone) -> None:
    """A planted error in one strategy of one framework."""
    switches = clone.root / "framebench/adapters/jittor/checkpoint.py"
    good = switches.read_text()
    start = "    chosen: list[Module] = []"
    assert start in good
    switches.write_text(good.replace(start, "    raise ValueError('planted')\n" + start))
    try:
        done = clone.run(CHEAPEST)
    finally:
        switches.write_text(good)
    assert done.returncode != 0
    peaks = clone.values("jittor", "track_peak_memory")
    assert peaks["train", "checkpoint", "4"] is None, "failed"
    assert peaks["train", "fp32", "4"] > 0
    newest = max((r for r in clone.records() if "checkpoint" in r.case), key=lambda r: r.provenance.measured_at)
    assert (newest.status, newest.reason) == ("crashed", "time worker: ValueError during build: planted")


@pytest.mark.parametrize(
    "asked",
    [
        ("run", "HEAD~2..HEAD"),
        ("run", "HEAD~"),
        ("run", "NEW"),
        ("continuous", "HEAD~", "HEAD"),
        ("find", "HEAD~..HEAD", BENCHMARK),
    ],
    ids="".join,
)  # fmt: skip
def test_other_commits_are_refused_in_a_line(clone: Clone, asked: tuple[str, ...]) -> None:
    """What runs is the working tree: nothing of another commit must be stored under its name."""
    clone.commit("yet another")
    before = clone.records()
    done = clone.asv(*asked[:1], "--machine", "test", *asked[1:])
    said = (done.stdout + done.stderr).strip().splitlines()
    assert done.returncode != 0
    assert len(said) == 1
    assert "check each commit out, type asv run there, then asv compare" in said[0]
    assert clone.records() == before


def test_a_machine_that_is_no_name_is_refused_in_a_line(clone: Clone) -> None:
    """asv itself would store results outside the results folder."""
    before = {path for path in clone.home.parent.rglob("*.json") if ".git" not in path.parts}
    assert clone.asv("machine", "--yes", "--machine", "../../../x").returncode == 0
    done = clone.asv("run", "--machine", "../../../x")
    assert done.returncode != 0
    assert "'../../../x' is no name of a machine" in done.stdout + done.stderr
    assert {path for path in clone.home.parent.rglob("*.json") if ".git" not in path.parts} == before


def test_a_range_that_is_head_alone_is_measured(clone: Clone) -> None:
    """Up to the record of a case that takes no process."""
    before = Counter(r.case for r in clone.records())
    done = clone.asv(
        "run", "--machine", "test", "HEAD^!", "--bench", "TransformerJittorTiny.track_first_step.'train', 'rewrite'"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert Counter(r.case for r in clone.records()) - before == Counter([UNSUPPORTED])


def test_a_selection_without_a_case_is_a_line(clone: Clone) -> None:
    done = clone.run("TransformerJittor.*'eval', 'checkpoint'")
    assert done.returncode != 0
    assert "--bench selects no case of the profile tiny, of size tiny; framebench list has them" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_benchmarks_of_another_file_are_passed_over_in_a_line(clone: Clone) -> None:
    own = clone.root / "benchmarks/mine.py"
    own.write_text("def time_sum():\n    sum(range(9))\n")
    try:
        beside = clone.run(r"mine|TransformerJittorTiny\.track_first_step.'train', 'rewrite'")
        alone_asked = clone.run(r"mine\.")
    finally:
        own.unlink()
    assert beside.returncode == 0, beside.stdout + beside.stderr
    assert "passed over: mine.time_sum: " in beside.stdout + beside.stderr
    assert alone_asked.returncode != 0
    assert "selects no case" in alone_asked.stdout + alone_asked.stderr
    assert "passed over: mine.time_sum: " in alone_asked.stdout + alone_asked.stderr
    assert "Traceback" not in beside.stdout + beside.stderr + alone_asked.stdout + alone_asked.stderr


def test_while_another_measures_it_is_refused(clone: Clone) -> None:
    with alone(clone.root / "results"):
        done = clone.run(FEW)
    assert done.returncode != 0
    assert f"process {os.getpid()}" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
