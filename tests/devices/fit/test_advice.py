"""`advise` and `max-batch` with --device: which strategies are tried, how the answer reads, and
what a mistake is told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from framebench.cli.shared import app
from framebench.devices.plans import planning
from framebench.devices.plans.planned import Planned
from framebench.suite.case import Case
from tests.devices.fake_predictions import allow_error, planned
from tests.processes import framebench

GIB = 2**30
Size = Callable[[Case], int | None]


@pytest.fixture(autouse=True)
def eight_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let predictions be off by eight percent on either side."""
    allow_error(monkeypatch, 0.08)


@pytest.fixture
def predicted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Size], list[Case]]:
    """Has each case need what a function says, None for what cannot be told; returns the cases that
    were asked for.
    """

    def by(size: Size) -> list[Case]:
        asked: list[Case] = []

        def plan_all(cases: Sequence[Case], device: Any, *_: Any, **__: Any) -> list[Planned]:
            asked.extend(cases)
            return [make_prediction(case, size(case)) for case in cases]

        monkeypatch.setattr(planning, "plan_all", plan_all)
        return asked

    return by


def make_prediction(case: Case, size: int | None) -> Planned:
    """Return a prediction of so many bytes; with None one that nothing can tell."""
    result: dict[str, Any] = {"peak_bytes": size, "not_held": ("workspaces",)}
    if size is None:
        result = {"outcome": "not planned", "peak_bytes": None, "reason": "a compiler decides"}
    return planned(
        case=case.id,
        device="a100-40gb",
        framework=case.framework,
        source="allocator.simulated",
        parts={},
        **result,
    )


def result(*arguments: str) -> Result:
    import framebench.cli.__main__  # noqa: F401  (all commands)

    return CliRunner().invoke(app, list(arguments))


def offers(*arguments: str) -> list[dict[str, Any]]:
    return json.loads(result(*arguments, "--json").stdout)["offers"]  # type: ignore[no-any-return]


def test_advise_without_a_batch_sorts_by_largest_batch(
    predicted: Callable[[Size], list[Case]],
) -> None:
    per_sample = {"fp32": 2 * GIB, "checkpoint": GIB // 2}
    asked = predicted(lambda case: GIB + per_sample.get(case.strategy, GIB) * case.batch)
    best = offers("advise", "transformer/torch/train/*/full-350m", "--device", "a100-40gb")
    assert best[0]["case"].startswith("transformer/torch/train/checkpoint/b")
    assert best[0]["next_batch_was_tried"]
    assert {case.strategy for case in asked} >= {
        "fp32",
        "amp_bf16",
        "checkpoint",
        "amp_bf16+checkpoint",
    }
    assert "tf32" not in {case.strategy for case in asked}, "unless it is named"


def test_advise_defaults_to_the_full_size_at_its_usual_batch(
    predicted: Callable[[Size], list[Case]],
) -> None:
    """The full size at batch 64, its usual one, and not the size for processors."""
    asked = predicted(lambda case: GIB)
    assert result("advise", "resnet50/*/train", "--device", "a100-40gb").exit_code == 0
    assert {(case.batch, case.size) for case in asked} == {(64, "full")}
    assert {case.framework for case in asked} == {"torch", "jax"}


def test_each_strategy_is_judged_at_the_given_batch(
    predicted: Callable[[Size], list[Case]],
) -> None:
    sizes = {"fp32": 80 * GIB, "amp_bf16": 37 * GIB, "checkpoint": 8 * GIB}
    predicted(lambda case: sizes[case.strategy])
    selector = "transformer/torch/train/{fp32,amp_bf16,checkpoint}/b8/full"
    answers = {
        o["case"].split("/")[3]: o["answer"]
        for o in offers("advise", selector, "--device", "a100-40gb")
    }
    assert answers == {
        "checkpoint": "fits",
        "amp_bf16": "fits if the prediction is at most 3.0% low",
        "fp32": "does not fit",
    }


def test_accumulation_over_batch_norm_is_not_counted_as_a_saving(
    predicted: Callable[[Size], list[Case]],
) -> None:
    predicted(lambda case: GIB if case.strategy == "accumulate" else 2 * GIB)
    answers = offers(
        "advise", "resnet50/torch/train/{fp32,accumulate}/b64/full", "--device", "a100-40gb"
    )
    assert [offer["case"].split("/")[3] for offer in answers] == ["fp32", "accumulate"]


def test_what_needs_least_is_named_if_nothing_fits(
    predicted: Callable[[Size], list[Case]],
) -> None:
    predicted(lambda case: (90 if case.strategy == "checkpoint" else 100) * GIB)
    done = result("advise", "transformer/torch/train/*/b8/full", "--device", "a100-40gb")
    assert done.exit_code == 1
    assert (
        "PyTorch's checkpoint needs least: 100,875.9 MiB; it does not fit"
        in done.stdout.replace("\n", " ")
    )


def test_strategies_over_ranks_are_judged_on_one_of_the_devices(
    predicted: Callable[[Size], list[Case]],
) -> None:
    asked = predicted(lambda case: GIB * case.batch)
    selector = "transformer/torch/train/fsdp*/b8x8/full"
    done = result("advise", selector, "--device", "a100-40gb")
    assert done.exit_code == 0, done.stderr
    assert {case.ranks for case in asked} == {8}
    assert "over 8 devices" in done.stdout.replace("\n", " ")
    by_option = result(
        "advise", selector.replace("x8", ""), "--ranks", "8", "--device", "a100-40gb"
    )
    assert by_option.stdout == done.stdout


def test_max_batch_searches_the_baseline_by_default(
    predicted: Callable[[Size], list[Case]],
) -> None:
    asked = predicted(lambda case: GIB * case.batch)
    asks = ("max-batch", "transformer/torch/train", "--device", "a100-40gb", "--budget", "16GiB")
    assert offers(*asks)[0]["case"].endswith("/fp32/b13/full")
    assert {case.strategy for case in asked} == {"fp32"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["advise", "transformer/torch/train", "--device", "a100"], "the nearest is a100-"),
        (["advise", "transformer/torch/train"], "--budget 16GiB, or --device"),
        (["max-batch", "transformer/torch/train/fp32/b8", "--device", "a100-40gb"], "leave b8 out"),
    ],
)
def test_invalid_arguments_end_with_a_hint(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    done = framebench(*arguments, "--results", str(tmp_path))
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
