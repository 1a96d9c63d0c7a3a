"""`advise` and `max-batch` with --device: which strategies are tried, how the answer reads, and what a mistake is told."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from framebench.cli.shared import app
from framebench.devices.catalog import find
from framebench.devices.fit import advice
from framebench.devices.plans import planning, store
from framebench.devices.plans.planned import Planned
from framebench.suite.case import Case
from tests.devices.made import origin
from tests.processes import framebench

GIB = 2**30
Size = Callable[[Case], int | None]


@pytest.fixture
def predicted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Size], list[Case]]:
    """Has each case need what a function says, None for what cannot be told; returns the cases that were asked for."""

    def by(size: Size) -> list[Case]:
        asked: list[Case] = []

        def plan_all(cases: Sequence[Case], device: Any, *_: Any, **__: Any) -> list[Planned]:
            asked.extend(cases)
            return [of(case, size(case)) for case in cases]

        monkeypatch.setattr(planning, "plan_all", plan_all)
        return asked

    return by


def of(case: Case, size: int | None) -> Planned:
    told: dict[str, Any] = {"outcome": "planned", "peak_bytes": size, "not_held": ("workspaces",)}
    if size is None:
        told = {"outcome": "not planned", "reason": "a compiler decides"}
    return Planned(
        case=case.id, device="a100-40gb", framework=case.framework, framework_version="0", source="allocator.simulated",
        origin=origin(), **told,
    )  # fmt: skip


def told(*arguments: str) -> Result:
    import framebench.cli.__main__  # noqa: F401  (all commands)

    return CliRunner().invoke(app, list(arguments))


def offers(*arguments: str) -> list[dict[str, Any]]:
    return json.loads(told(*arguments, "--json").stdout)["offers"]  # type: ignore[no-any-return]


def test_without_a_batch_the_largest_comes_first(predicted: Callable[[Size], list[Case]]) -> None:
    per_sample = {"fp32": 2 * GIB, "checkpoint": GIB // 2}
    asked = predicted(lambda case: GIB + per_sample.get(case.strategy, GIB) * case.batch)
    done = told("advise", "transformer/torch/train/*/full-350m", "--device", "a100-40gb")
    assert done.exit_code == 0
    best = offers("advise", "transformer/torch/train/*/full-350m", "--device", "a100-40gb")
    assert best[0]["case"].startswith("transformer/torch/train/checkpoint/b")
    assert best[0]["next_batch_was_tried"]
    assert "fits the largest batch" in done.stdout.splitlines()[0]
    assert {case.strategy for case in asked} >= {"fp32", "amp_bf16", "checkpoint", "amp_bf16+checkpoint"}
    assert "tf32" not in {case.strategy for case in asked}, "unless it is named"


def test_without_size_and_batch_it_is_the_published_model(predicted: Callable[[Size], list[Case]]) -> None:
    """At its usual batch, which is planned already, and not the size for processors."""
    asked = predicted(lambda case: GIB)
    assert told("advise", "resnet50/*/train", "--device", "a100-40gb").exit_code == 0
    assert {(case.batch, case.size) for case in asked} == {(64, "full")}
    assert {case.framework for case in asked} == {"torch", "jax"}
    said = " ".join(told("advise", "resnet50/*/train", "--device", "a100-40gb").output.split())
    assert re.search(r"Least in \w+: \S+, 1,024.0 MiB. Least in \w+: ", said)
    assert "tried are the usual strategies; name others" in said


def test_it_is_said_first_how_much_is_planned(predicted: Callable[[Size], list[Case]], tmp_path: Path) -> None:
    predicted(lambda case: GIB * case.batch)
    asks = ("advise", "transformer/torch/train/{fp32,checkpoint}/*/full", "--device", "a100-40gb", "--results", str(tmp_path))
    said = " ".join(told(*asks).stderr.split())
    assert "Looking for the largest batch of each of 2 strategies" in said
    assert "framebench advise 'transformer/torch/train/{fp32,checkpoint}/b8/full' --device a100-40gb" in said
    once = told("advise", "transformer/torch/train/{fp32,checkpoint}/b8/full", *asks[2:])
    assert "0 of 2 cases are kept; others are planned now, 2 at a time" in " ".join(once.stderr.split())


def test_the_batch_that_is_kept_is_named(predicted: Callable[[Size], list[Case]], monkeypatch: pytest.MonkeyPatch) -> None:
    predicted(lambda case: GIB * case.batch)
    monkeypatch.setattr(planning, "find_cached", lambda cases, *_: {case: None for case in cases if case.batch == 64})
    said = " ".join(told("advise", "resnet50/*/train/{fp32,checkpoint}/b32/full", "--device", "a100-40gb").stderr.split())
    assert "0 of 4 cases are kept" in said
    assert "At b64 all of them are kept" in said
    kept = told("advise", "resnet50/*/train/{fp32,checkpoint}/b64/full", "--device", "a100-40gb")
    assert "are kept" not in kept.stderr


def test_how_long_plans_take_is_what_kept_ones_took(tmp_path: Path) -> None:
    for strategy, seconds in (("fp32", 10.0), ("checkpoint", 20.0), ("accumulate", 90.0)):
        one = of(Case("transformer", "torch", "train", strategy, 8, "full"), GIB)
        store.write(tmp_path, one.model_copy(update={"origin": origin(wall_s=seconds)}))
    assert advice._pace(find("a100-40gb"), tmp_path) == "; half of those kept took at most: PyTorch 20 s"
    assert advice._pace(find("h100-80gb"), tmp_path) == ""


def test_at_a_batch_each_has_its_answer(predicted: Callable[[Size], list[Case]]) -> None:
    sizes = {"fp32": 80 * GIB, "amp_bf16": 37 * GIB, "checkpoint": 8 * GIB}
    predicted(lambda case: sizes[case.strategy])
    selector = "transformer/torch/train/{fp32,amp_bf16,checkpoint}/b8/full"
    answers = {o["case"].split("/")[3]: o["answer"] for o in offers("advise", selector, "--device", "a100-40gb")}
    assert answers == {
        "checkpoint": "fits",
        "amp_bf16": "fits if the prediction is at most 3.0% low",
        "fp32": "does not fit",
    }


def test_what_cannot_be_told_is_a_note_with_its_reason(predicted: Callable[[Size], list[Case]]) -> None:
    predicted(lambda case: None if "compile" in case.strategy else GIB)
    selector = "transformer/torch/train/{fp32,compile,memory_budget}/b8/full"
    done = told("advise", selector, "--device", "a100-40gb")
    assert "not predicted: torch compile: a compiler decides" in done.stdout
    assert "torch: workspaces" in done.stdout
    assert "a few cases of one H200" not in done.stdout
    predicted(lambda case: GIB)
    jax = told("advise", "transformer/jax/train/fp32/b8/full", "--device", "a100-40gb")
    assert "a few cases of one H200" in jax.stdout


def test_the_model_is_described_and_what_batch_norm_makes_of_micro_batches(predicted: Callable[[Size], list[Case]]) -> None:
    predicted(lambda case: GIB if case.strategy == "accumulate" else 2 * GIB)
    said = " ".join(told("advise", "transformer/torch/train/accumulate/b8/full-350m", "--device", "a100-40gb").stdout.split())
    assert "The model has 355 M parameters, 1,024 tokens a sequence." in said
    assert "batch norm" not in said
    assert "Least in PyTorch: accumulate, 1,024.0 MiB." in said
    said = " ".join(told("advise", "resnet50/torch/train/{fp32,accumulate}/b64/full", "--device", "a100-40gb").stdout.split())
    assert "The model has 26 M parameters." in said
    assert "Least in PyTorch: fp32, 2,048.0 MiB." in said, "accumulation is another gradient there"
    assert "- accumulate: batch norm sees one micro-batch, for another gradient, so it is not counted" in said
    answers = offers("advise", "resnet50/torch/train/{fp32,accumulate}/b64/full", "--device", "a100-40gb")
    assert [o["case"].split("/")[3] for o in answers] == ["fp32", "accumulate"], "what is not counted stands below"


def test_where_nothing_fits_the_leanest_is_named(predicted: Callable[[Size], list[Case]]) -> None:
    predicted(lambda case: (90 if case.strategy == "checkpoint" else 100) * GIB)
    done = told("advise", "transformer/torch/train/*/b8/full", "--device", "a100-40gb")
    assert done.exit_code == 1
    assert "PyTorch's checkpoint needs least: 92,160.0 MiB, which does not fit" in done.stdout.replace("\n", " ")


def test_max_batch_asks_for_the_baseline_alone(predicted: Callable[[Size], list[Case]]) -> None:
    asked = predicted(lambda case: GIB * case.batch)
    asks = ("max-batch", "transformer/torch/train", "--device", "a100-40gb", "--budget", "16GiB")
    assert offers(*asks)[0]["case"].endswith("/fp32/b13/full")
    assert {case.strategy for case in asked} == {"fp32"}
    said = " ".join(told(*asks).output.split())
    assert "tried is the baseline, fp32: name others, as in transformer" in said
    assert "the search ended after several plans" not in said


def test_a_search_that_ends_early_says_how_to_go_on(predicted: Callable[[Size], list[Case]]) -> None:
    predicted(lambda case: round(2**28 * case.batch**0.5))  # each line ends too low
    said = " ".join(told("max-batch", "transformer/jax/train/fp32", "--device", "a100-40gb").stdout.split())
    assert " or more " in said
    assert "the search ended after several plans. The first number fits for certain" in said
    predicted(lambda case: min(case.batch * 2**27, 27 * GIB if case.batch < 900 else 2**60))  # as XLA does
    (offer,) = offers("max-batch", "transformer/jax/train/fp32", "--device", "a100-40gb")
    assert not offer["next_batch_was_tried"]
    said = told("max-batch", "transformer/jax/train/fp32", "--device", "a100-40gb").stdout
    assert f" {offer['case'].split('/b')[1].split('/')[0]} to {offer['not_certain_from'] - 1} " in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["advise", "transformer/torch/train", "--device", "a100"], "the nearest is a100-"),
        (["advise", "transformer/torch/train", "--device", "a100-40gb", "--from", "fp32"], "leave --from"),
        (["advise", "transformer/torch/train/fp33", "--device", "a100-40gb"], "fp32"),
        (["advise", "transformer/jittor/train", "--device", "a100-40gb"], "Jittor"),
        (["advise", "transformer/torch/train"], "--budget 16GiB, or --device"),
        (["max-batch", "transformer/torch/train"], "--budget 16GiB, or --device"),
        (["max-batch", "transformer/torch/train/fp32/b8", "--device", "a100-40gb"], "leave b8 out"),
    ],
)
def test_a_mistake_is_told_in_a_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = framebench(*arguments, "--results", str(tmp_path))
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
