"""`advise` and `max-batch` with --device: which strategies are tried, and what the answer says."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from framebench.cli import shared
from framebench.devices.catalog import Device, find
from framebench.devices.fit import report
from framebench.devices.fit.fitting import MOST_PLANS, FitAssessment
from framebench.devices.found_wrong import WrongResult
from framebench.devices.plans import planning
from framebench.devices.plans.answer import ASKED, CONVOLUTIONS
from framebench.devices.plans.planned import Planned, describe_workspaces
from framebench.devices.show import describe_planned, describe_resumption
from framebench.devices.tables.table import tabulate_cases
from framebench.models.spec import USER_MODEL
from framebench.suite.case import Case
from framebench.suite.selectors import parse
from tests.devices.fake_predictions import (
    allow_error,
    make_origin,
    make_planned,
    make_simulated,
    make_unplanned,
)
from tests.processes import framebench, read_json

GIB = 2**30
GPU = ("--device", "a100-40gb")
FakeNeeds = Callable[[Callable[[Case], int | None]], list[Case]]
FAILURE = "INTERNAL: a bug of the compiler"


@pytest.fixture
def fake_needs(monkeypatch) -> FakeNeeds:
    """Return a function that replaces the planner by a fake, with an error of at most 8 %.

    It takes the bytes that each case needs, None for a failure, and returns a list. Each case that
    is planned later is added to the list.
    """
    allow_error(monkeypatch, 0.08)

    def replace_planner(size: Callable[[Case], int | None]) -> list[Case]:
        planned_cases = []

        def plan_all(
            cases: Sequence[Case],
            device: Device,
            results: Path,
            say: Callable[[str], None],
            listener: planning.PlanListener,
            *_: Any,
            **__: Any,
        ) -> list[Planned]:
            predictions = []
            for case in cases:
                planned_cases.append(case)
                fields = {
                    "case": case.id,
                    "framework": case.framework,
                    "device": GPU[1],
                    "source": "allocator.simulated",
                    "origin": make_origin(planned_at=datetime.now(UTC), wall_s=60.0),
                }
                needs = size(case)
                if needs is None:
                    planned = make_unplanned("failed", **fields | {"reason": FAILURE})
                else:
                    planned = make_planned(**fields, peak_bytes=needs, parts={"allocated": needs})
                listener(planned)
                predictions.append(planned)
            return predictions

        monkeypatch.setattr(planning, "plan_all", plan_all)
        return planned_cases

    return replace_planner


def need_a_gib(case: Case) -> int:
    return GIB


def need_more_than_the_gpu(case: Case) -> int:
    return 90 * GIB


def need_a_gib_per_sample(case: Case) -> int:
    return GIB * case.batch


def need_a_gib_per_sample_until_checkpoint(case: Case) -> int:
    """Return a GiB per sample; the user interrupts when checkpoint is planned."""
    if case.strategy == "checkpoint":
        raise KeyboardInterrupt
    return GIB * case.batch


def need_by_strategy(sizes: dict[str, int], otherwise: int = 0) -> Callable[[Case], int]:
    """Return a function that gives the bytes of a case by its strategy."""

    def need(case: Case) -> int:
        return sizes.get(case.strategy, otherwise)

    return need


def list_offers(*arguments: str) -> list[dict[str, Any]]:
    return read_json(*arguments)["offers"]


def get_strategy(offer: dict[str, Any]) -> str:
    """Return the strategy of an offer."""
    return offer["case"].split("/")[3]


def test_advise_without_a_batch_sorts_by_largest_batch(fake_needs):
    per_sample = {"fp32": 2 * GIB, "checkpoint": GIB // 2}

    def need_by_batch(case):
        return GIB + per_sample.get(case.strategy, GIB) * case.batch

    fake_needs(need_by_batch)
    best = list_offers("advise", "transformer/torch/train/*/full-350m", *GPU)[0]
    assert best["case"].startswith("transformer/torch/train/checkpoint/b")
    assert best["next_batch_was_tried"]


def test_advise_tries_the_usual_strategies_and_combinations_by_default(fake_needs):
    planned_cases = fake_needs(need_a_gib)
    framebench("advise", "transformer/torch/train/*/b1/full-350m", *GPU, code=0)
    strategies = {case.strategy for case in planned_cases}
    assert {"fp32", "amp_bf16", "checkpoint", "amp_bf16+checkpoint"} <= strategies
    assert "tf32" not in strategies, "it is tried only if it is named"


def test_a_gpu_without_bfloat16_is_asked_about_float16_by_default(fake_needs):
    planned_cases = fake_needs(need_a_gib)
    device = ("--device", "t4-16gb")
    framebench("advise", "transformer/torch/train/*/b1/full-350m", *device, code=0)
    strategies = {case.strategy for case in planned_cases}
    assert {"fp32", "amp_fp16", "checkpoint", "amp_fp16+checkpoint"} <= strategies
    assert not any("bf16" in strategy for strategy in strategies)


@pytest.mark.parametrize("command", ["advise", "max-batch"])
def test_an_interrupted_search_prints_the_answers_so_far(fake_needs, command):
    """fp32 fits four samples; checkpoint is interrupted before its first plan has ended."""
    fake_needs(need_a_gib_per_sample_until_checkpoint)
    cases = "transformer/torch/train/{fp32,checkpoint}/*/full-350m"
    done = framebench(command, cases, *GPU, code=130)
    assert re.search(r"fp32 +│ +4 or more ", done.stdout)
    assert "checkpoint" not in done.stdout
    assert "1 of 2 strategies have an answer so far; what was planned is cached" in done.stderr
    (offer,) = list_offers(command, cases, *GPU)
    assert get_strategy(offer) == "fp32"


def test_an_interrupted_advice_at_one_batch_prints_the_answers_so_far(fake_needs):
    def interrupt_at_checkpoint(case):
        if case.strategy == "checkpoint":
            raise KeyboardInterrupt
        return GIB

    fake_needs(interrupt_at_checkpoint)
    cases = "transformer/torch/train/{fp32,checkpoint}/b1/full-350m"
    done = framebench("advise", cases, *GPU, code=130)
    assert re.search(r"│ fp32 ", done.stdout)
    assert "checkpoint" not in done.stdout
    assert "interrupted: 1 of 2 cases predicted so far; what was planned is cached" in done.stderr


@pytest.mark.parametrize(
    ("command", "batch"), [("advise", "*"), ("max-batch", "*"), ("advise", "b2")]
)
def test_no_strategy_is_called_the_best_after_an_interruption(fake_needs, command, batch):
    """What is missing may fit a larger batch, or need less."""
    planned_cases = fake_needs(need_a_gib_per_sample_until_checkpoint)
    cases = f"transformer/torch/train/{{fp32,foreach,checkpoint}}/{batch}/full-350m"
    done = framebench(command, cases, *GPU, code=130)
    assert {case.strategy for case in planned_cases} == {"fp32", "foreach", "checkpoint"}
    headline = done.stdout.splitlines()[0]
    assert headline.startswith("Interrupted; so far 2 of 2 strategies fit ")
    assert "with fp32" not in headline
    assert "with foreach" not in headline
    assert read_json(command, cases, *GPU)["interrupted"]


@pytest.mark.parametrize("batch", ["*", "b2"])
def test_an_answer_that_is_complete_is_not_called_interrupted(fake_needs, batch):
    fake_needs(need_a_gib_per_sample)
    cases = f"transformer/torch/train/{{fp32,foreach}}/{batch}/full-350m"
    done = framebench("advise", cases, *GPU, code=0)
    assert "nterrupted" not in done.stdout
    assert " with fp32 and foreach, equally: " in done.stdout
    assert not read_json("advise", cases, *GPU)["interrupted"]


def test_an_interruption_before_the_first_plan_prints_no_table(fake_needs):
    def interrupt(case):
        raise KeyboardInterrupt

    fake_needs(interrupt)
    done = framebench("max-batch", "transformer/torch/train", *GPU)
    assert (done.returncode, done.stdout) == (130, "")
    assert "0 of 1 strategy have an answer so far" in done.stderr


def test_progress_tells_failed_plans_and_corrects_the_time_left():
    """Two plans took a minute; one was cached."""
    now = datetime.now(UTC)
    origin = make_origin(planned_at=now)
    done = [
        make_planned(origin=make_origin(planned_at=now - timedelta(days=1))),
        make_planned(origin=origin),
        make_unplanned("failed", origin=origin),
    ]
    text = describe_planned(done, 7, begun_at=now - timedelta(seconds=60))
    assert text.startswith("2 of 7 cases planned, 1 failed, about 2 min left, the last ")
    assert "left" not in describe_planned(done, 3, begun_at=now - timedelta(seconds=60))


@pytest.mark.parametrize(("workload", "is_cached"), [("transformer", True), (USER_MODEL, False)])
def test_an_interruption_promises_plans_only_where_they_are_reused(workload, is_cached):
    case = Case(workload, "torch", "train", "fp32", 1, "full")
    assert ("is cached" in describe_resumption([case])) == is_cached


def test_a_search_prints_its_round_and_one_estimate_for_all_cases(fake_needs, monkeypatch):
    """A plan of the fake takes a minute, and the two cases of a round are planned at once."""
    monkeypatch.setattr(shared, "REPORT_S", 0.01)

    def need_slowly(case):
        time.sleep(0.05)
        return GIB * case.batch

    fake_needs(need_slowly)
    cases = "transformer/torch/train/{fp32,checkpoint}/*/full-350m"
    lines = framebench("max-batch", cases, *GPU).stderr.splitlines()
    progress = [line.partition(": ")[2] for line in lines if "round " in line]
    assert progress[0] == f"round 1 of at most {MOST_PLANS}: 0 of 2 planned"
    second_round = f"round 2 of at most {MOST_PLANS}: 0 of 2 planned"
    assert f"{second_round}, up to about {MOST_PLANS - 1} min left" in progress
    assert not any(line.startswith("planning ") for line in lines), "no progress of single cases"


def test_a_described_size_without_a_batch_is_predicted_at_its_usual_batch(fake_needs):
    planned_cases = fake_needs(need_a_gib)
    done = framebench("advise", "transformer/torch/train/fp32", "--parameters", "350M", *GPU)
    (case,) = planned_cases
    assert f"At batch {case.batch}, the usual one of this size. The largest batch:" in done.stderr


def test_advise_defaults_to_the_full_size_at_its_usual_batch(fake_needs):
    planned_cases = fake_needs(need_a_gib)
    framebench("advise", "resnet50/*/train", *GPU, code=0)
    assert {(case.batch, case.size) for case in planned_cases} == {(64, "full")}
    assert {case.framework for case in planned_cases} == {"torch", "jax"}


def test_memory_in_use_is_shown_as_a_share_of_the_baselines(fake_needs):
    sizes = {"fp32": 8 * GIB, "checkpoint": 3 * GIB}
    fake_needs(need_by_strategy(sizes))
    table = framebench("advise", "transformer/torch/train/{fp32,checkpoint}/b8/full", *GPU).stdout
    assert re.search(r"checkpoint +│ +0\.38 ", table)
    assert re.search(r"fp32 +│ +1\.00 ", table)


def test_without_the_baseline_there_is_no_column_of_shares(fake_needs):
    fake_needs(need_a_gib)
    table = framebench("advise", "transformer/torch/train/checkpoint/b8/full", *GPU).stdout
    assert "checkpoint" in table
    assert not re.search(r"checkpoint +│ +- ", table)


def test_accumulation_over_batch_norm_is_not_counted_as_a_saving(fake_needs):
    fake_needs(need_by_strategy({"fp32": 2 * GIB, "accumulate": GIB}))
    offers = list_offers("advise", "resnet50/torch/train/{fp32,accumulate}/b64/full", *GPU)
    assert [get_strategy(offer) for offer in offers] == ["fp32", "accumulate"]


@pytest.fixture
def wrong_amp_bf16(monkeypatch) -> str:
    """Let amp_bf16 be found wrong on a GPU; return a selector of it and of two right strategies."""
    wrong = WrongResult("a-gpu", parse("unet3d/torch/train/amp_bf16/b2/full"))
    monkeypatch.setattr(report, "find_wrong_on_gpus", Mock(return_value=[wrong]))
    return "unet3d/torch/train/{fp32,checkpoint,amp_bf16}/b2/full"


def test_a_strategy_found_wrong_on_a_gpu_comes_last(fake_needs, wrong_amp_bf16):
    sizes = {"fp32": 3 * GIB, "checkpoint": 2 * GIB, "amp_bf16": GIB}
    fake_needs(need_by_strategy(sizes))
    done = framebench("advise", wrong_amp_bf16, *GPU)
    assert "3 of 3 strategies fit " in done.stdout
    assert "1 of them was found wrong on a GPU." in done.stdout
    assert "PyTorch needs least with checkpoint: " in done.stdout
    assert "amp_bf16 (found wrong)" in done.stdout
    first, second, last = list_offers("advise", wrong_amp_bf16, *GPU)
    assert get_strategy(first) == "checkpoint"
    assert get_strategy(second) == "fp32"
    assert get_strategy(last) == "amp_bf16"
    assert last["found_wrong"]


def test_no_strategy_needs_least_if_only_a_wrong_one_fits(fake_needs, wrong_amp_bf16):
    fake_needs(need_by_strategy({"amp_bf16": GIB}, otherwise=90 * GIB))
    assert "needs least" not in framebench("advise", wrong_amp_bf16, *GPU).stdout


def test_a_size_described_by_options_is_the_same_as_one_named_in_the_case(fake_needs):
    planned_cases = fake_needs(need_a_gib)
    by_option = framebench("advise", "transformer/torch/train", "--parameters", "1.3B", *GPU)
    by_name = framebench("advise", "transformer/torch/train/*/b1/1.3B", *GPU)
    assert by_option.stdout == by_name.stdout
    assert {(case.batch, case.size) for case in planned_cases} == {(1, "1.3B")}
    first = planned_cases[0]
    assert first.workload_spec.parameter_count(first.config) == pytest.approx(1.3e9, rel=0.1)
    assert "layers 24" in by_option.stderr


def test_options_describe_sequence_and_layers_of_a_size(fake_needs):
    planned_cases = fake_needs(need_a_gib)
    described = "--parameters", "350M", "--sequence", "2048", "--layers", "24"
    framebench("advise", "transformer/torch/train/fp32/b2", *described, *GPU)
    (case,) = planned_cases
    assert case.size == "350M-s2048-l24"
    assert case.config.length == 2048


def test_every_strategy_is_tried_in_a_scenario_without_usual_ones(fake_needs):
    planned_cases = fake_needs(need_a_gib)
    framebench("advise", "transformer/torch/finetune/*/b1/7B", *GPU, code=0)
    assert {"half", "lora"} <= {case.strategy for case in planned_cases}


def test_in_fine_tuning_other_trained_weights_are_no_other_mathematics(fake_needs):
    fake_needs(need_by_strategy({"lora": 4 * GIB}, otherwise=90 * GIB))
    tight = framebench("advise", "transformer/torch/finetune/*/b1/7B", *GPU)
    assert "PyTorch needs least with lora: " in tight.stdout


def test_fine_tuning_is_sorted_by_what_each_choice_of_weights_needs(fake_needs):
    """The user chooses which weights to train, so the baseline's choice does not come first."""
    fake_needs(need_by_strategy({"half": 8 * GIB, "lora": 4 * GIB}, otherwise=6 * GIB))
    question = "transformer/torch/finetune/*/b1/7B"
    assert get_strategy(list_offers("advise", question, *GPU)[0]) == "lora"
    assert "PyTorch needs least with lora" in framebench("advise", question, *GPU).stdout


def test_16_and_4_bits_are_suggested_for_fine_tuning_if_nothing_fits(fake_needs):
    fake_needs(need_more_than_the_gpu)
    done = framebench("advise", "transformer/torch/finetune/*/b1/7B", *GPU)
    example = f"framebench predict examples/llama_lora.py --batch 1 {' '.join(GPU)} --strategies"
    assert example in " ".join(done.stderr.split())
    assert "examples/llama_qlora.py" in done.stderr


def test_strategies_that_save_more_are_suggested_if_nothing_usual_fits(fake_needs):
    def need_less_in_8_bits(case):
        return 20 * GIB if "adamw_8bit" in case.strategy else 90 * GIB

    fake_needs(need_less_in_8_bits)
    question = ("advise", "transformer/torch/train/*/b1/7B", "--device", "a100-40gb")
    tight = framebench(*question, code=1)
    (command,) = re.findall("framebench (advise .*)", tight.stderr)
    suggested = framebench(*shlex.split(command), code=0)
    assert "checkpoint+adamw_8bit" in suggested.stdout
    caption = " ".join(suggested.stdout.split())
    assert "Precision fp32; adamw_8bit 8-bit moments, checkpoint+adamw_8bit 8-bit" in caption


@pytest.mark.parametrize(
    "question",
    [
        # the answer suggests one batch, the largest batch, and strategies that save more
        "transformer/torch/train/*/*/full",
        "transformer/torch/train",
        "transformer/torch/train/*/b8/full",
    ],
)
def test_a_suggested_command_has_the_options_that_were_given(fake_needs, question, tmp_path):
    fake_needs(need_more_than_the_gpu)
    options = ("--budget", "30GiB", "--results", tmp_path)
    done = framebench("advise", question, *GPU, *options)
    suggestions = re.findall(r"framebench (advise .*)", done.stderr)
    assert suggestions
    for suggestion in suggestions:
        assert suggestion.endswith(f"{' '.join(GPU)} --budget 30720MiB --results {tmp_path}")


def test_the_strategy_that_needs_least_is_named_if_nothing_fits(fake_needs):
    fake_needs(need_by_strategy({"checkpoint": 90 * GIB}, otherwise=100 * GIB))
    done = framebench("advise", "transformer/torch/train/*/b8/full", *GPU, code=1)
    assert "PyTorch needs least with checkpoint: 100,875.9 MiB" in done.stdout


def test_ranks_of_a_case_are_part_of_it_or_an_option(fake_needs):
    planned_cases = fake_needs(need_a_gib_per_sample)
    done = framebench("advise", "transformer/torch/train/fsdp*/b8x8/full", *GPU, code=0)
    assert {case.ranks for case in planned_cases} == {8}
    assert "size full on each of 8 x NVIDIA A100" in done.stdout
    assert "on one " not in done.stdout
    by_option = framebench("advise", "transformer/torch/train/fsdp*/b8/full", "--ranks", "8", *GPU)
    assert by_option.stdout == done.stdout


def test_max_batch_searches_the_baseline_by_default(fake_needs):
    planned_cases = fake_needs(need_a_gib_per_sample)
    offers = list_offers("max-batch", "transformer/torch/train", *GPU, "--budget", "16GiB")
    assert offers[0]["case"].endswith("/fp32/b13/full")
    assert {case.strategy for case in planned_cases} == {"fp32"}


def need_a_gib_per_sample_of_a_rank(case: Case) -> int:
    return GIB * case.batch // case.ranks


@pytest.mark.parametrize(
    ("command", "strategies"), [("max-batch", "{ddp,fsdp}"), ("advise", "{ddp,fsdp}/*/full")]
)
def test_the_largest_batch_over_ranks_is_one_that_they_share_equally(
    fake_needs, command, strategies
):
    """13 samples fit on one device, and 8 devices have 13 each."""
    planned_cases = fake_needs(need_a_gib_per_sample_of_a_rank)
    selector = f"transformer/torch/train/{strategies}"
    offers = list_offers(command, selector, "--ranks", "8", *GPU, "--budget", "16GiB")
    largest = {offer["case"] for offer in offers}
    assert largest == {f"transformer/torch/train/{name}/b104x8/full" for name in ("ddp", "fsdp")}
    assert all(offer["next_batch_was_tried"] for offer in offers)
    assert {case.batch % 8 for case in planned_cases} == {0}


@pytest.mark.parametrize(
    ("command", "question"),
    [
        ("max-batch", ["transformer/torch/train/fp32/full"]),
        ("max-batch", ["transformer/jax/train/fp32/full"]),
        ("max-batch", ["transformer/torch/train/ddp/full", "--ranks", "2"]),
        ("advise", ["transformer/torch/train/fp32/*/full"]),
    ],
)
def test_a_search_that_ends_with_a_failure_says_so_and_is_no_success(fake_needs, command, question):
    """All batches would fit, and the planner fails from 10 on."""

    def fail_from_10_on(case):
        return GIB if case.batch < 10 else None

    fake_needs(fail_from_10_on)
    done = framebench(command, *question, *GPU, code=1)
    assert "1 search ended with a failure" in done.stdout
    assert FAILURE in done.stdout
    assert "or more" in done.stdout
    (offer,) = list_offers(command, *question, *GPU)
    assert (offer["fits"], offer["failure"]) == (True, FAILURE)
    assert offer["failed_from"] >= 10
    assert offer["not_certain_from"] is None


@pytest.mark.parametrize(
    ("command", "question"),
    [
        ("advise", "transformer/torch/train/*/b8/full"),
        ("max-batch", "transformer/torch/train/fp32"),
    ],
)
def test_nothing_is_said_to_fit_or_not_where_no_prediction_was_made(fake_needs, command, question):
    fake_needs(lambda case: None)
    done = framebench(command, question, *GPU, code=3)
    assert "is not known" in done.stderr
    assert FAILURE in done.stderr
    assert "strategies fit" not in done.stdout + done.stderr
    assert "These save more" not in done.stderr


@pytest.mark.parametrize(
    ("question", "example"),
    [
        ("torch/train", "torch/train/amp_bf16+checkpoint+fsdp"),
        ("jax/train", "jax/train/amp_bf16+checkpoint+fully_sharded"),
        ("torch/eval", "torch/eval/amp_bf16+ddp"),
        ("torch/train/ddp", None),
    ],
)
def test_a_search_over_all_rank_strategies_names_a_combination_that_can_be_asked_about(
    fake_needs, tmp_path, question, example
):
    fake_needs(need_a_gib_per_sample_of_a_rank)
    options = ("--ranks", "8", *GPU, "--results", tmp_path)
    done = framebench("max-batch", f"transformer/{question}", *options)
    assert ("name other combinations" in done.stderr) == (example is not None)
    if example:
        assert f"such as 'transformer/{example}'" in done.stderr
        framebench("max-batch", f"transformer/{example}", *options, code=0)


@pytest.mark.parametrize(
    ("framework", "first"),
    [("torch", "checkpoint+fsdp"), ("jax", "checkpoint+fully_sharded")],
)
@pytest.mark.parametrize("batch", ["", "/*/b4/full"])
def test_over_ranks_checkpointing_with_all_divided_is_tried_first_unless_strategies_are_named(
    fake_needs, framework, first, batch
):
    planned_cases = fake_needs(need_a_gib_per_sample_of_a_rank)
    selector = f"transformer/{framework}/train"
    list_offers("advise", f"{selector}{batch}", "--ranks", "4", *GPU)
    assert planned_cases[0].id == f"{selector}/{first}/b4x4/full"
    assert {case.strategy for case in planned_cases} > {first, first.partition("+")[2]}
    named = first.partition("+")[2]
    planned_cases.clear()
    list_offers("advise", f"{selector}/{named}{batch.removeprefix('/*')}", "--ranks", "4", *GPU)
    assert {case.strategy for case in planned_cases} == {named}


def test_the_first_batch_that_fits_over_ranks_is_printed_before_the_search_goes_on(fake_needs):
    """All else takes too much, and an interruption at the second batch loses nothing."""

    def need(case):
        if case.batch > 4:
            raise KeyboardInterrupt
        return GIB if case.strategy == "checkpoint+fsdp" else 1000 * GIB

    fake_needs(need)
    done = framebench("advise", "transformer/torch/train", "--ranks", "4", *GPU, code=130)
    fits = "transformer/torch/train/checkpoint+fsdp/b4x4/full fits; looking for larger batches"
    assert done.stderr.count(fits) == 1
    assert done.stderr.index(fits) < done.stderr.index("interrupted")
    assert re.search(r"│ checkpoint\+fsdp ", done.stdout)


@pytest.mark.parametrize(
    ("case", "is_noted"),
    [
        ("transformer/torch/train/amp_bf16+checkpoint+fsdp/b8x8/full", True),
        ("transformer/torch/train/amp_fp16+fsdp_keep/b8x8/full", True),
        ("transformer/torch/train/amp_bf16+ddp/b8x8/full", False),
        ("transformer/torch/train/checkpoint+fsdp/b8x8/full", False),
        ("transformer/torch/train/fsdp/b8x8/full", False),
        ("transformer/jax/train/amp_bf16+fully_sharded/b8x8/full", False),
    ],
)
def test_predictions_of_fsdp_under_autocast_say_that_weights_are_copied_whole(
    case, is_noted, fake_needs
):
    fake_needs(need_a_gib)
    advised = framebench("advise", case, *GPU, code=0).stdout
    predicted = framebench("predict", case, *GPU, code=0).stdout
    for answer in (advised, predicted):
        words = " ".join(answer.split())
        assert words.count("autocast keeps a copy of all weights") == is_noted


def test_a_gap_over_ranks_ends_at_a_batch_that_they_share():
    case = Case.from_id("transformer/torch/train/fsdp/b16x8/full")
    prediction = make_planned(case=case.id, framework="torch", device=GPU[1])
    assessment = FitAssessment(
        case, prediction, find(GPU[1]), is_exact=False, smallest_not_fitting=40
    )
    assert report.describe_batch(assessment) == "16 to 32"


@pytest.mark.parametrize(
    ("changes", "is_noted"),
    [
        ({"case": "transformer/torch/train/fp32/b8/full"}, False),
        ({"case": "resnet50/torch/train/fp32/b64/full"}, True),
        ({"case": "transformer/torch/train/fp32/b8/full", "flags": {CONVOLUTIONS: ASKED}}, True),
        ({"flags": {"attention": "_scaled_dot_product_flash_attention"}}, False),
        ({"flags": {"attention": "_scaled_dot_product_cudnn_attention"}}, True),
    ],
)
def test_the_note_on_cudnns_workspaces_is_shown_only_where_cudnn_computes(changes, is_noted):
    """cuDNN computes convolutions, and attention if its kernel was chosen."""
    notes = "workspaces of convolutions are what cuDNN answers", "handles of libraries"
    prediction = make_simulated("fp32", 1000).model_copy(update={"not_held": notes, **changes})
    assessment = FitAssessment(parse(prediction.case), prediction, find(GPU[1]))
    table_of_report = report.make_table([assessment], batch=8, left_out={}, wrong={})
    table_of_cases = tabulate_cases([prediction], find(GPU[1]))
    for table in (table_of_report, table_of_cases):
        shown = "\n".join(table.notes)
        assert ("workspaces of convolutions" in shown) == is_noted
        assert "handles of libraries" in shown
    # the sentence of the caption is on convolutions alone
    has_convolutions = is_noted and "attention" not in prediction.flags
    assert bool(describe_workspaces([prediction])) == has_convolutions


def test_a_caption_names_the_newest_cudnn_that_was_asked():
    predictions = []
    for cudnn in ("9.9.0", "9.20.0"):
        origin = make_origin(versions={"cudnn": cudnn})
        changes = {"flags": {CONVOLUTIONS: ASKED}, "origin": origin}
        predictions.append(make_simulated("fp32", 1000).model_copy(update=changes))
    assert "as cuDNN 9.20.0 answers" in describe_workspaces(predictions)


@pytest.mark.parametrize(("gib", "is_tight"), [(34.5, True), (25, False)])  # of 40 GB
def test_an_answer_with_little_to_spare_says_what_is_not_predicted(
    gib, is_tight, fake_needs, tmp_path
):
    fake_needs(lambda case: int(gib * GIB))
    done = framebench("advise", "transformer/torch/train/fp32/b8/full", *GPU, results=tmp_path)
    (sentence,) = [line for line in done.stdout.splitlines() if "1 of 1 strategies fit" in line]
    assert ("Little memory is left" in sentence) is is_tight
    assert ("speed" in sentence) is is_tight


def test_strategies_that_could_not_be_predicted_are_counted(monkeypatch):
    allow_error(monkeypatch, 0.5)
    compiled = "transformer/torch/train/compile/b8/full"
    predictions = [
        make_simulated("fp32", 1000),
        make_simulated("checkpoint", 39 * 1024),  # may fit into 39.4 GiB: it has a prediction
        make_unplanned("not planned", case=compiled, framework="torch", source=None),
    ]
    assessments = []
    for prediction in predictions:
        assessments.append(FitAssessment(parse(prediction.case), prediction, find(GPU[1])))
    assert assessments[1].fits is None
    sentence = report.write_sentence(assessments, batch=8, wrong=())
    assert sentence.startswith("1 of 3 strategies fit ")
    assert "1 strategy could not be predicted." in sentence


@pytest.mark.parametrize(
    ("activations", "used", "is_explained"),
    [
        pytest.param(0, 1000, True, id="as much, and no activations at the peak"),
        pytest.param(300, 1000, False, id="activations at the peak"),
        pytest.param(0, 900, False, id="less"),
    ],
)
def test_a_strategy_that_saves_nothing_says_why(activations, used, is_explained):
    """Mixed precision saves activations. The update of a large model has none at a small batch."""
    assessments = []
    for strategy, allocated in (("fp32", 1000), ("amp_bf16", used)):
        prediction = make_simulated(strategy, allocated)
        parts = prediction.parts | {"allocated": allocated, "activations": activations}
        prediction = prediction.model_copy(update={"parts": parts})
        assessments.append(FitAssessment(parse(prediction.case), prediction, find(GPU[1])))
    notes = report.make_table(assessments, batch=8, left_out={}, wrong={}).notes
    explained = [note for note in notes if note.startswith("amp_bf16: as much in use as fp32")]
    assert bool(explained) == is_explained


@pytest.mark.parametrize(
    ("cases", "answer"),
    [
        ("{fp32,foreach}/b8/full", "needs least with fp32 and foreach, equally: "),
        ("{fp32,foreach}/*/full", "fits the largest batch with fp32 and foreach, equally: "),
    ],
)
def test_strategies_that_are_as_good_are_all_named(cases, answer, fake_needs, tmp_path):
    fake_needs(lambda case: GIB * case.batch)
    done = framebench("advise", f"transformer/torch/train/{cases}", *GPU, results=tmp_path)
    assert answer in done.stdout


@pytest.mark.parametrize(("framework", "is_named"), [("*", True), ("torch", False)])
def test_a_framework_that_cannot_be_predicted_is_named_once(
    framework, is_named, fake_needs, tmp_path
):
    fake_needs(need_a_gib)
    case = f"transformer/{framework}/train/*/b8/full"
    printed = " ".join(framebench("advise", case, *GPU, results=tmp_path).stdout.split())
    assert printed.count("not predicted: Jittor: ") == is_named
    assert "transformer/jittor" not in printed


@pytest.mark.parametrize(
    ("jax_strategies", "words"),
    [
        (("amp_bf16", "checkpoint"), ["JAX needs least in bf16 with amp_bf16: 1,", "in fp32 with"]),
        (("checkpoint",), ["JAX needs least with checkpoint: "]),
    ],
)
def test_frameworks_are_named_in_one_precision_too(jax_strategies, words, monkeypatch):
    """PyTorch's best is in float32."""
    allow_error(monkeypatch, 0.0)
    predictions = [make_simulated("checkpoint", 900)]
    for mib, strategy in zip((500, 700), jax_strategies, strict=False):
        case = f"transformer/jax/train/{strategy}/b8/full"
        predictions.append(make_planned(case=case, peak_bytes=mib * 2**20))
    assessments = []
    for prediction in predictions:
        assessments.append(FitAssessment(parse(prediction.case), prediction, find(GPU[1])))
    sentence = report.write_sentence(assessments, batch=8, wrong=())
    for word in words:
        assert word in sentence
    is_mixed = len(jax_strategies) > 1
    assert ("PyTorch needs least in fp32 with checkpoint: " in sentence) == is_mixed
    assert ("in fp32" in sentence) == is_mixed


@pytest.mark.parametrize(
    ("budget", "place"),
    [([], " on one NVIDIA"), (["--budget", "24GiB"], " within 24.00 GiB of one NVIDIA")],
)
def test_the_answer_names_the_budget(budget, place, fake_needs, tmp_path):
    fake_needs(need_a_gib)
    case = "transformer/torch/train/fp32/b8/full"
    done = framebench("advise", case, *GPU, *budget, results=tmp_path)
    assert f"1 of 1 strategies fit transformer train, size full{place}" in done.stdout
