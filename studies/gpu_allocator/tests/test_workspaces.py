"""cuDNN's answers without a GPU next to the GPU's own workspaces."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest

from framebench.engine import environments
from framebench.engine.environments import Environment
from framebench.records.provenance import ROOT
from studies.gpu_allocator.replay import History
from studies.gpu_allocator.workspaces import (
    Answers,
    Choice,
    OtherRelease,
    answered,
    choices,
    last_step,
    number,
    paired,
    tables,
)

KEPT = list(answered())
FOUND = {history.case: choices(history, answers) for history, answers in KEPT}
UNET, FP32, BF16 = (
    "unet3d/torch/train/fp32/b2/full",
    "resnet50/torch/train/fp32/b64/full",
    "resnet50/torch/train/amp_bf16/b64/full",
)
FLOAT = 4  # bytes
MODULE, CASE = "studies.gpu_allocator.torch_asked", "unet3d/torch/train/fp32/b4/tiny"
WITH_CUDNN = environments.describe("torch", "2.12.1")  # a build for cards


def history(*requests: tuple[int, bool]) -> History:
    """One step after another that asks for nothing.

    Bytes, and whether they are given back at once.
    """
    events = []
    for address, (size, passing) in enumerate(requests):
        events += [("alloc", size, address)] + passing * [("free_requested", size, address)]
    return History(
        "w/torch/train/fp32/b1/tiny",
        "a card",
        "2.11.0",
        91900,
        [(0, 0, 0), (0, 0, len(events) + 1)],
        [*events, END],
    )


END = ("free_requested", 0, -1)
ANSWERS = Answers(
    "w/torch/train/fp32/b1/tiny",
    "a-card",
    "2.11.0",
    "9.19.0",
    0,
    [70, 50, 30],
    [
        (1, "forward", [1, 2, 3, 3], [4, 2, 1, 1], [1, 1], 20),
        (2, "filter", [1, 2, 3, 3], [4, 2, 1, 1], [1, 1], 0),
    ],
)


def test_a_workspace_belongs_to_the_request_before_it() -> None:
    asked = history((70, False), (50, False), (20, True), (8, True), (30, False))
    assert last_step(asked) == ([70, 50, 30], [0, 20, 0])
    assert [one.recorded for one in choices(asked, ANSWERS)] == [20, 0]
    assert all(one.same for one in choices(asked, ANSWERS))
    other = choices(history((70, False), (50, False), (24, True), (30, False), (8, True)), ANSWERS)
    assert [(one.recorded, one.same) for one in other] == [(24, False), (8, False)]


def test_requests_that_only_the_card_has_shift_nothing() -> None:
    asked = history(
        (9, False),
        (20, True),
        (70, False),
        (50, False),
        (20, True),
        (9, False),
        (30, False),
        (8, True),
    )
    assert [one.recorded for one in choices(asked, ANSWERS)] == [20, 8]


def test_a_result_that_the_card_did_not_ask_for_is_not_compared() -> None:
    (first, second) = choices(history((70, False), (50, False), (20, True)), ANSWERS)
    assert first.same
    assert second.recorded is None
    assert not second.same, "an answer of no workspace is no agreement with an unknown one"


def test_answers_of_another_release_are_refused() -> None:
    assert number("9.19.0") == 91900
    with pytest.raises(OtherRelease, match="91900"):
        paired(history(), replace(ANSWERS, cudnn="9.20.0"))
    with pytest.raises(OtherRelease, match=r"2\.12\.1"):
        paired(history(), replace(ANSWERS, torch="2.12.1"))


def test_all_convolutions_are_found() -> None:
    assert set(FOUND) == {UNET, FP32, BF16}
    assert {case: len(found) for case, found in FOUND.items()} == {UNET: 83, FP32: 158, BF16: 158}
    assert all(one.recorded is not None for found in FOUND.values() for one in found)


def test_each_workspace_of_unet_is_the_card_s() -> None:
    assert all(one.same for one in FOUND[UNET])
    assert sum(bool(one.recorded) for one in FOUND[UNET]) >= 20, "of which some are there"


def test_in_float32_only_3x3_convolutions_of_stride_1_differ() -> None:
    differ = [one for one in FOUND[FP32] if not one.same]
    assert differ
    assert all(one.weight[2:] == (3, 3) and one.stride == (1, 1) for one in differ)


def test_their_gradients_of_weights_are_of_winograd_s_size() -> None:
    """Input, result and weight in transforms of 6x6 numbers, of which a tile has 4x4 results."""
    some = [one for one in FOUND[FP32] if not one.same and one.kind == "filter"]
    assert some
    assert all(one.recorded == winograd(one) for one in some)


def winograd(one: Choice) -> int:
    tiles = prod(-(-size // 4) for size in one.x[2:])
    out, into = one.weight[:2]
    return 36 * FLOAT * (one.x[0] * tiles * (into + out) + into * out)


def test_in_bfloat16_1x1_convolutions_are_products_that_no_answer_offers() -> None:
    """At 56x56 and 28x28 pixels.

    The card lays nothing out anew, and sums a gradient of weights over images.
    """
    some = list(aligned(FOUND[BF16]))
    assert len(some) > 40
    assert not any(one.same for one in some)
    for one in some:
        partial = one.x[0] * prod(one.weight) * FLOAT if one.kind == "filter" else 0
        assert one.recorded is not None
        assert 0 <= one.recorded - partial <= 272 < one.asked - partial


def test_elsewhere_in_bfloat16_the_layout_or_little_differs() -> None:
    """But for 1x1 convolutions at 14x14 pixels, where the card lays nothing out, by 131 bytes;
    gradients of weights by more.
    """
    products = set(aligned(FOUND[BF16]))
    for one in FOUND[BF16]:
        apart = abs(one.asked - (one.recorded or 0))
        if one.same or one in products or (one.x[2:] == (14, 14) and not one.recorded):
            continue
        assert apart == 131 or (one.kind == "filter" and 1.5 * 2**20 < apart < 2.3 * 2**20)


@pytest.mark.parametrize(
    "answers", [answers for _, answers in KEPT], ids=[answers.case for _, answers in KEPT]
)
def test_the_kept_answers_belong_to_the_results_of_convolutions(answers: Answers) -> None:
    results_fit(answers, 2 if "bf16" in answers.case else 4)


def results_fit(answers: Answers, item: int) -> None:
    """The request at each place is as large as the convolution's result."""
    for place, kind, x, weight, stride, _ in answers.convolutions:
        size = answers.requests[place]
        if kind == "forward":
            least = (
                x[0] * weight[0] * prod(n // s for n, s in zip(x[2:], stride, strict=True)) * item
            )
            assert size == least
        else:
            assert size == prod(x if kind == "data" else weight) * item


asks_cudnn = pytest.mark.skipif(
    not environments.is_built(WITH_CUDNN),
    reason="no environment here has cuDNN: framebench setup torch==2.12.1",
)


@pytest.mark.slow
@asks_cudnn
def test_each_convolution_of_a_step_is_asked_for(tmp_path: Path) -> None:
    kept = tmp_path / "answers.json.gz"
    done = run(WITH_CUDNN, "-m", MODULE, CASE, "h200-141gb", str(kept))
    assert done.returncode == 0, done.stderr
    answers = Answers(**json.loads(gzip.decompress(kept.read_bytes())))
    assert {kind for _, kind, *_ in answers.convolutions} == {"forward", "data", "filter"}
    assert len({place for place, *_ in answers.convolutions}) == len(answers.convolutions) > 20
    results_fit(answers, FLOAT)


def test_without_cudnn_it_is_said_what_is_missing(tmp_path: Path) -> None:
    done = run(
        environments.ensure("torch"), "-m", MODULE, CASE, "h200-141gb", str(tmp_path / "kept")
    )
    assert done.returncode == 1
    assert "use a build of PyTorch for cards" in done.stderr


def run(environment: Environment, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = (
        os.environ
        | environment.list_variables()
        | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    )
    command = [str(environment.python), "-P", *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=600)


def aligned(found: list[Choice]) -> Iterator[Choice]:
    yield from (
        o
        for o in found
        if o.weight[2:] == (1, 1) and o.stride == (1, 1) and prod(o.x[2:]) % 16 == 0
    )


def test_the_tables_count_what_agrees() -> None:
    shares, layers = tables()
    told = {row[0]: dict(zip(shares.head, row, strict=True)) for row in shares.rows}
    assert told[UNET]["same to the byte"] == "83 of 83 (100%)"
    assert told[FP32]["same to the byte"] == "131 of 158 (83%)"
    listed = [dict(zip(layers.head, row, strict=True)) for row in layers.rows]
    for case, found in FOUND.items():
        mine = [row for row in listed if row["case"] == case]
        assert sum(int(row["convolutions"]) for row in mine) == sum(
            bool(one.asked or one.recorded) for one in found
        )
        assert {row["same"] for row in mine} == ({"yes"} if case == UNET else {"yes", "no"})
