"""`framebench try --save` and `--compare`: which growth of a peak fails, and what is printed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from framebench.engine.session import Session
from framebench.records import store
from framebench.records.provenance import ROOT
from framebench.suite.user_file import Fault
from framebench.user_file.trial import UserModel
from framebench.user_model import command, saved
from framebench.user_model.figure import draw_peaks
from framebench.user_model.saved import SavedPeaks
from tests.explain.explanations import make_explanation
from tests.figure_records import make_frame, make_record, read_texts
from tests.kills import is_killed_at_call
from tests.processes import COMMAND
from tests.user_model.small_file import try_file, write_variant

MIB = 2**20
THRESHOLD = 0.02


def make_saved(
    peaks: dict[str, float], layers: dict[str, int] | None = None, **changes: Any
) -> SavedPeaks:
    """Return what `--save` writes of these peaks in MiB; `layers` hold so many bytes."""
    explanation = None
    if layers:
        holders = [(layer, "saved", size) for layer, size in layers.items()]
        explanation = make_explanation({}, *holders)
    listed = []
    for strategy, peak in peaks.items():
        listed.append({"strategy": strategy, "bytes": peak * MIB, "instrument": "host.rss"})
    fields = {
        "file": "net",
        "framework": "torch",
        "scenario": "train",
        "batch": 8,
        "device": "cpu",
        "versions": {"torch": "2.13.0"},
        "peaks": listed,
        "explanation": explanation,
    }
    return SavedPeaks.model_validate(fields | changes)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (100, 103, "grew"),
        (100, 101, "ok"),  # 1 %
        (100, 80, "ok"),
        (10, 10.25, "ok"),  # above the threshold, but equal runs differ by as much
        (10, 11, "grew"),
    ],
)
def test_growth_beyond_the_threshold_and_noise_fails(before, after, verdict):
    old, new = make_saved({"fp32": before}), make_saved({"fp32": after})
    assert list(saved.compare_peaks(old, new, THRESHOLD)["verdict"]) == [verdict]
    assert saved.report_growth(old, new, THRESHOLD) == (verdict == "grew")


def test_a_grown_peak_is_reported_with_the_layer_that_grew(capsys):
    layers = {"head": 10 * MIB, "body.0": 90 * MIB}
    before = make_saved({"fp32": 100, "checkpoint": 50}, layers)
    after = make_saved({"fp32": 150, "checkpoint": 50}, {"body.1": 50 * MIB, **layers})
    assert saved.report_growth(before, after, THRESHOLD)
    printed = " ".join(capsys.readouterr().err.split())
    assert "1 of 2 peaks grew by more than 2.0%, most that of fp32 by 50.0%" in printed
    assert printed.endswith("more at the baseline's peak: saved of body.1 (+50.00 MiB)")


def test_a_saved_strategy_without_a_peak_now_fails(capsys):
    before = make_saved({"fp32": 100, "checkpoint": 50})
    assert saved.report_growth(before, make_saved({"fp32": 100}), THRESHOLD)
    printed = " ".join(capsys.readouterr().err.split())
    assert "without a peak to compare now, so that this fails: checkpoint" in printed
    assert printed.endswith("no other peak grew by more than 2.0%")


def test_a_named_strategy_that_does_not_apply_fails(capsys):
    left_out = {"checkpoint": "there are no blocks", "tf32": "needs a GPU"}
    assert saved.report_missing(["fp32", "checkpoint"], left_out)
    printed = " ".join(capsys.readouterr().err.split())
    assert "checkpoint was asked for and has no peak" in printed
    assert "there are no blocks" in printed
    assert "tf32" not in printed


def make_model(batch: int = 8) -> UserModel:
    return UserModel(file=Path("/net.py"), framework="torch", batch=batch, defined=())


@pytest.mark.parametrize(
    ("batch", "strategies", "message"),
    [
        (16, None, "batch was 8 and is 16.*add --batch 8"),
        (8, ["fp32"], "checkpoint was saved and is not in --strategies"),
    ],
)
def test_peaks_of_other_cases_are_refused_before_anything_runs(batch, strategies, message):
    before = make_saved({"fp32": 100, "checkpoint": 50})
    with pytest.raises(Fault, match=message):
        saved.check_request(before, make_model(batch), strategies)


@pytest.mark.parametrize("text", ["2", "-1%", "2%%"])
def test_a_threshold_that_is_no_percentage_is_refused(text):
    with pytest.raises(Fault, match="is no percentage; write for instance 2%"):
        saved.parse_threshold(text)


@pytest.mark.parametrize("content", ["", '{"format": 2}'], ids=["empty", "unknown format"])
def test_a_file_that_is_not_saved_peaks_is_refused(content, tmp_path):
    file = tmp_path / "base.json"
    file.write_text(content)
    with pytest.raises(Fault, match="write it again with --save"):
        saved.read_saved(file)


def test_a_try_that_is_killed_at_its_end_has_a_session_or_a_complete_file(tmp_path):
    """The process is killed at each of its system calls in turn. Whenever the session is gone, so
    that the same command would not go on with it, the file is complete.
    """
    peaks = make_saved({"fp32": 100})
    for number in count(1):
        results = tmp_path / str(number)
        results.mkdir()
        session = Session.open(results, "code", "try")
        file = results / "base.json"
        end_session = partial(command.end_session, session, where=results, peaks=peaks, save=file)
        was_killed = is_killed_at_call(number, results, end_session)
        if Session.find_unfinished(results, "code", "try") is None:
            assert saved.read_saved(file) == peaks
        if not was_killed:
            break
    assert number > 2, "writing the file and removing the session are two calls at least"
    assert Session.find_unfinished(results, "code", "try") is None


def test_peaks_are_drawn_without_times():
    rows = make_frame(make_record("fp32", 200), make_record("checkpoint", 120)).assign(
        needs_bytes=220 * MIB
    )
    figure = draw_peaks(rows)
    axes = figure.axes[0]
    assert [bar.get_width() for bar in axes.patches] == [120, 200]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["checkpoint", "fp32"]
    assert "batch 4" in read_texts(figure)[0]


@pytest.mark.slow
def test_a_change_that_costs_memory_fails_and_names_its_layer(tmp_path):
    """`wide` makes the activations large, and `wider_layers` is the change that costs memory."""
    wide = (
        "torch.randn(n, 6), torch.randn(n, 3)",
        "torch.randn(n, 4096, 6), torch.randn(n, 4096, 3)",
    )
    wider_layers = ("nn.ReLU()", "nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 8))")
    base, results = tmp_path / "base.json", tmp_path / "results"
    options = ("--strategies", "fp32", "--batch", "8")
    done = try_file(write_variant(tmp_path, wide), results, *options, "--save", str(base))
    assert done.returncode == 0, done.stderr
    assert json.loads(base.read_text())["peaks"][0]["strategy"] == "fp32"
    again = try_file(write_variant(tmp_path, wide), results, *options, "--compare", str(base))
    assert again.returncode == 0, again.stderr
    changed = try_file(
        write_variant(tmp_path, wide, wider_layers), results, *options, "--compare", str(base)
    )
    assert changed.returncode == 1, changed.stderr
    layers = " ".join(changed.stderr.split()).partition("more at the baseline's peak: ")[2]
    assert " of 1." in layers, "the change put its layers into layer 1 of the model"


@pytest.mark.slow
def test_a_killed_try_is_finished_by_the_same_command(tmp_path, environment):
    """What was measured is not measured again, and the file has the peaks of both commands."""
    file = write_variant(tmp_path)
    results, base = tmp_path / "results", tmp_path / "base.json"
    options = ("--strategies", "fp32,keep_grads", "--save", str(base))
    usual = ("--rounds", "0", "--blocks", "1", "--batch", "4", "--results", str(results))
    killed = subprocess.Popen(
        [*COMMAND, "try", str(file), *usual, *options],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while not list(store.read_all(results)):
            assert killed.poll() is None, "it ended without a record"
            time.sleep(0.05)
    finally:
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
    assert not base.exists()
    done = try_file(file, results, *options)
    assert done.returncode == 0, done.stderr
    assert "going on after an interruption" in done.stderr
    strategies = sorted(record.parsed.strategy for record in store.read_all(results))
    assert strategies == ["fp32", "keep_grads"]
    assert sorted(peak.strategy for peak in saved.read_saved(base).peaks) == strategies
