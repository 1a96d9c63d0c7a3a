"""`framebench try --save` and `--compare`: which growth of a peak fails, and what is told of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from framebench.suite.user_file import Fault
from framebench.user_model import command, saved
from framebench.user_model.figure import draw_peaks
from framebench.user_model.saved import Change, SavedPeaks, StrategyPeak
from tests.figure_records import frame, made, texts
from tests.processes import framebench
from tests.user_model.small_file import written

MIB = 2**20


def make_saved(layers: dict[str, int] | None = None, **peaks: int) -> SavedPeaks:
    """Return what `--save` writes of these peaks in MiB; `layers` hold so many bytes."""
    explanation: dict[str, Any] | None = None
    if layers:
        size = sum(layers.values())
        holders = []
        for layer, count in layers.items():
            holders.append(
                {"kind": "saved", "layer": layer, "phase": "forward", "bytes": count, "tensors": 1}
            )
        explanation = {
            "case": "own/torch/train/fp32/b8/net",
            "how": "storages",
            "measured": {"host.rss": size},
            "versions": {"torch": "2.13.0"},
            "device": "cpu",
            "timeline": [(0, size, "forward")],
            "peak": {"event": 0, "bytes": size, "phase": "forward"},
            "holders": holders,
        }
    listed = []
    for strategy, peak in peaks.items():
        listed.append(StrategyPeak(strategy=strategy, bytes=peak * MIB, instrument="host.rss"))
    return SavedPeaks.model_validate(
        {
            "file": "net",
            "framework": "torch",
            "scenario": "train",
            "batch": 8,
            "device": "cpu",
            "versions": {"torch": "2.13.0"},
            "peaks": listed,
            "explanation": explanation,
        }
    )


@pytest.mark.parametrize(
    ("before", "after", "grew"),
    [
        (100 * MIB, 103 * MIB, True),
        (100 * MIB, 101 * MIB, False),  # 1 %
        (100 * MIB, 80 * MIB, False),
        (10 * MIB, 10 * MIB + 2**18, False),  # 2.5 %, and no more than two runs differ by
        (10 * MIB, 11 * MIB, True),
    ],
)
def test_growth_beyond_the_threshold_and_noise_is_told(before: int, after: int, grew: bool) -> None:
    assert Change("fp32", before, after).is_beyond(0.02) == grew


def test_a_grown_peak_is_reported_with_the_layer_that_grew(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = make_saved({"head": 10 * MIB, "body.0": 90 * MIB}, fp32=100, checkpoint=50)
    after = make_saved({"body.1": 50 * MIB, "head": 10 * MIB, "body.0": 90 * MIB}, fp32=150)
    after = after.model_copy(update={"peaks": (*after.peaks, before.peaks[1])})
    assert command.report_growth(before, after, 0.02)
    printed = " ".join(capsys.readouterr().err.split())
    assert "1 of 2 peaks grew by more than 2.0%, most that of fp32 by 50.0%" in printed
    assert printed.endswith("more at the baseline's peak: saved of body.1 (+50.00 MiB)")


def test_equal_peaks_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert not command.report_growth(make_saved(fp32=100), make_saved(fp32=100), 0.02)
    assert "no peak grew by more than 2.0%" in capsys.readouterr().err


def test_a_strategy_that_is_gone_fails(capsys: pytest.CaptureFixture[str]) -> None:
    before = make_saved(fp32=100, checkpoint=50)
    assert command.report_growth(before, make_saved(fp32=100), 0.02)
    assert "without a peak to compare now: checkpoint" in capsys.readouterr().err


def test_another_batch_is_not_compared() -> None:
    other = make_saved(fp32=100).model_copy(update={"batch": 16})
    with pytest.raises(Fault, match="batch was 8 and is 16"):
        saved.check_comparable(make_saved(fp32=100), other)


def test_another_release_is_told() -> None:
    other = make_saved(fp32=100).model_copy(update={"versions": {"torch": "2.14.0"}})
    remarks = saved.check_comparable(make_saved(fp32=100), other)
    assert remarks == ["torch was 2.13.0 and is 2.14.0"]


@pytest.mark.parametrize("text", ["2", "two", "-1%", "", "2%%"])
def test_a_threshold_is_a_percentage(text: str) -> None:
    with pytest.raises(Fault, match="is no percentage; write for instance 2%"):
        saved.parse_threshold(text)


@pytest.mark.parametrize(("text", "share"), [("2%", 0.02), ("0.5 %", 0.005), ("0%", 0.0)])
def test_thresholds_are_read(text: str, share: float) -> None:
    assert saved.parse_threshold(text) == pytest.approx(share)


@pytest.mark.parametrize("content", ["", "{}", '{"format": 2}', "[1]"])
def test_a_file_that_is_not_saved_peaks_is_refused(content: str, tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    file.write_text(content)
    with pytest.raises(Fault, match="write it again with --save"):
        saved.read_saved(file)


def test_peaks_are_drawn_without_times() -> None:
    rows = frame(made("fp32", 200), made("checkpoint", 120)).assign(needs_bytes=220 * MIB)
    figure = draw_peaks(rows)
    assert figure is not None
    axes = figure.axes[0]
    assert [bar.get_width() for bar in axes.patches] == [120, 200]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["checkpoint", "fp32"]
    assert "batch 4" in texts(figure)[0]


@pytest.mark.slow
def test_a_change_that_costs_memory_fails_and_names_its_layer(tmp_path: Path) -> None:
    wide = (
        "torch.randn(n, 6), torch.randn(n, 3)",
        "torch.randn(n, 4096, 6), torch.randn(n, 4096, 3)",
    )
    more = ("nn.ReLU()", "nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 8))")
    base = tmp_path / "base.json"
    options = ["--rounds", "0", "--strategies", "fp32", "--results", str(tmp_path / "results")]
    done = framebench("try", str(written(tmp_path, wide)), *options, "--save", str(base))
    assert done.returncode == 0, done.stderr
    assert json.loads(base.read_text())["peaks"][0]["strategy"] == "fp32"
    again = framebench("try", str(written(tmp_path, wide)), *options, "--compare", str(base))
    assert again.returncode == 0, again.stderr
    changed = framebench(
        "try", str(written(tmp_path, wide, more)), *options, "--compare", str(base)
    )
    assert changed.returncode == 1, changed.stderr
    assert "1 of 1 peaks grew by more than 2.0%, most that of fp32" in changed.stderr
    layers = " ".join(changed.stderr.split()).partition("more at the baseline's peak: ")[2]
    assert " of 1." in layers, "the layers that the change has put in"
