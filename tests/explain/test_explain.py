"""Where the peak comes from: the parts sum to the whole, the whole is what is measured, and strategies show where they act."""

from __future__ import annotations

import json
from functools import cache
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pydantic import ValidationError

from framebench.engine import environments
from framebench.engine.environments import Environment
from framebench.explain import command
from framebench.explain.account import Account
from framebench.explain.measure import Unexplained, explain, obstacle
from framebench.explain.record import Explanation
from framebench.instruments.host import HostPeak
from framebench.instruments.memory_timeline import Value
from framebench.suite.selectors import parse
from tests.processes import framebench, run_inside

pytestmark = pytest.mark.usefixtures("imported_once")


@cache
def account(case: str) -> Explanation:
    found = parse(case)
    return explain(found, environments.ensure(found.framework))


def made(layer: str, kind: str, size: int, born: int, died: float, by: str = "mul") -> Value:
    return Value(kind, layer, "forward", by, size, born, died)


def test_the_timeline_and_the_peak_follow_from_births_and_deaths() -> None:
    values = [made("a", "x", 10, 0, 3), made("b", "x", 5, 1, 9), made("a", "y", 7, 2, 3), made("a", "x", 1, 2, 9, "add")]
    found = Account(values, [(0, "forward"), (3, "backward")], events=9).as_dict()
    assert found["timeline"] == [(0, 10, "forward"), (1, 15, "forward"), (2, 23, "forward"), (3, 6, "backward")]
    assert found["peak"] == {"event": 2, "bytes": 23, "phase": "forward"}
    assert [(h["layer"], h["kind"], h["bytes"], h["tensors"], h["by"]) for h in found["holders"]] == [
        ("a", "x", 11, 2, ["mul", "add"]), ("a", "y", 7, 1, ["mul"]), ("b", "x", 5, 1, ["mul"]),
    ]  # fmt: skip


FIELDS = {
    "case": "a", "how": "", "measured": {}, "versions": {}, "device": "cpu", "timeline": [(0, 5, "forward")],
    "peak": {"event": 0, "bytes": 5, "phase": "forward"},
}  # fmt: skip
HOLDER = {"kind": "parameter", "layer": "blocks.0", "phase": "before", "tensors": 1}


def test_an_account_that_does_not_add_up_is_refused() -> None:
    assert Explanation(**FIELDS, holders=[HOLDER | {"bytes": 5}]).kinds == {"parameter": 5}
    with pytest.raises(ValidationError, match="sum to 4 bytes"):
        Explanation(**FIELDS, holders=[HOLDER | {"bytes": 4}])


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("transformer/torch/train/compile/b4/tiny", "no operators to follow"),
        ("transformer/torch/varlen/padded/b4/tiny", "covers train and eval"),
        ("transformer/jax/train/no_jit/b4/tiny", "compiled plan"),
        ("transformer/jittor/train/amp_bf16/b4/tiny", "bfloat16"),
    ],
)
def test_unsupported_cases_have_a_reason(case: str, message: str) -> None:
    assert message in (obstacle(parse(case)) or "")
    with pytest.raises(Unexplained, match=message):
        explain(parse(case), environments.describe("torch"))


def test_a_dead_worker_is_reported() -> None:
    with pytest.raises(Unexplained, match=r"tiny in torch-0: .*explain.worker failed"):
        explain(parse("transformer/torch/train/fp32/b4/tiny"), Environment("torch", "0", Path("/bin/false")))


def phases(found: Explanation) -> list[str]:
    return [phase for phase, _ in groupby(phase for _, _, phase in found.timeline)]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("train/accumulate_2", ["forward", "backward"] * 2 + ["optimizer"]),
        pytest.param("train/fp32", ["forward", "backward", "optimizer"], marks=pytest.mark.all_cells),
        pytest.param("eval/no_grad", ["forward"], marks=pytest.mark.all_cells),
    ],
)
def test_phases_of_a_pytorch_step_in_order(strategy: str, expected: list[str]) -> None:
    assert phases(account(f"transformer/torch/{strategy}/b4/tiny")) == expected


@pytest.mark.slow
@pytest.mark.skipif(not HostPeak.is_available(), reason="needs a writable /proc/self/clear_refs")
@pytest.mark.parametrize(
    "strategy", ["train/checkpoint", *(pytest.param(s, marks=pytest.mark.all_cells) for s in ("train/fp32", "eval/no_grad"))]
)
def test_pytorchs_account_is_what_is_measured(strategy: str) -> None:
    found = account(f"transformer/torch/{strategy}/b4/cpu")
    assert found.peak.bytes == pytest.approx(found.measured["host.rss"], rel=0.05)


PROGRAMS = Path(__file__).parent / "programs"
COUNTED = PROGRAMS / "explain_counted.py"


@pytest.mark.slow
def test_what_a_record_says_was_saved_is_what_the_account_finds(environment: dict[str, Environment]) -> None:
    cases = [f"transformer/torch/train/{s}/b4/tiny" for s in ("fp32", "checkpoint", "accumulate", "amp_bf16")]
    found = run_inside(environment["torch"], COUNTED, *cases)
    assert isinstance(found, dict)
    assert all(counted == saved > 0 for counted, saved in found.values()), found
    plain, checkpointed, in_four, _ = (found[case][0] for case in cases)
    assert checkpointed < plain / 4
    assert in_four == pytest.approx(plain / 4, rel=0.01)


@pytest.mark.slow
def test_checkpointing_saves_block_inputs_only() -> None:
    """Saved are the blocks' inputs alone; one block's activations are there again, the last one's that has its turn."""
    plain, checkpointed = (account(f"transformer/torch/train/{s}/b4/cpu") for s in ("fp32", "checkpoint"))
    assert checkpointed.kinds["saved for backward"] < 0.1 * plain.kinds["saved for backward"]
    again = {h.layer.split(".")[1] for h in checkpointed.holders if h.kind == "recomputed" and "." in h.layer}
    assert len(again) == 1
    assert "recomputed" not in plain.kinds
    layers = {h.layer for h in plain.holders if h.kind == "saved for backward"}
    assert layers >= {f"blocks.{i}.fc1" for i in range(8)}


def test_the_layer_of_a_backward_operator() -> None:
    found = account("transformer/torch/train/fp32/b4/tiny")
    gradients = {(h.layer, h.by) for h in found.holders if h.kind == "temporary" and h.phase == "backward"}
    assert ("(loss)", ("nll_loss_backward", "_log_softmax_backward_data")) in gradients


TEXT = """
%body (p: (f32[4], f32[4])) -> (f32[4], f32[4]) {
  %p = (f32[4]{0}, /*index=1*/f32[4]{0}) parameter(0)
  %in = f32[4]{0} get-tuple-element(%p), index=0
  %by = f32[4]{0} get-tuple-element(%p), index=1
  %next = f32[4]{0} add(%in, %by), metadata={op_name="jit(f)/while/body/layer:b/add"}
  ROOT %out = (f32[4]{0}, f32[4]{0}) tuple(%next, %by)
}
%stop (p: (f32[4], f32[4])) -> pred[] {
  %p.1 = (f32[4]{0}, f32[4]{0}) parameter(0)
  ROOT %yes = pred[] constant(true)
}
ENTRY %main (x.1: f32[4]) -> f32[4] {
  %x.1 = f32[4]{0} parameter(0), metadata={op_name="x"}
  %a = f32[4]{0} add(%x.1, %x.1), metadata={op_name="jit(f)/layer:a/add"}
  %start = (f32[4]{0}, f32[4]{0}) tuple(%x.1, %a)
  %loop = (f32[4]{0}, f32[4]{0}) while(%start), condition=%stop, body=%body, metadata={op_name="jit(f)/while"}
  %end = f32[4]{0} get-tuple-element(%loop), index=0
  ROOT %copy = f32[4]{0} copy(%end)
}
"""
PLAN = """
allocation 0: size 16, parameter 0, shape |f32[4]| at ShapeIndex {}:
 value: <1 x.1 @0> (size=16,offset=0): f32[4]{0}
allocation 1: size 16, maybe-live-out:
 value: <2 a @0> (size=16,offset=0): f32[4]{0}
 value: <4 copy @0> (size=16,offset=0): f32[4]{0}
allocation 2: size 16, preallocated-temp:
 value: <3 next @0> (size=16,offset=0): f32[4]{0}
allocation 3: size 4, thread-local:
 value: <5 next @0> (size=4,offset=0): f32[]
"""


def test_a_program_of_xlas_is_followed_through_its_loop(environment: dict[str, Environment]) -> None:
    """`a` is used only inside the loop, which carries it to its end; what the loop results in may be `x`, if it never turns."""
    lives, entry, allocations = run_inside(environment["jax"], PROGRAMS / "explain_loop.py", TEXT, PLAN)  # type: ignore[misc]
    assert lives == {"x.1": [0, 5, ""], "a": [1, 4, "a"], "next": [2, 5, "b"], "copy": [4, 5, "(loss)"]}
    assert (entry, allocations) == ("main", 3)


@pytest.mark.parametrize(
    "strategy", ["train/fp32", *(pytest.param(s, marks=pytest.mark.all_cells) for s in ("train/checkpoint", "eval/no_grad"))]
)
def test_xlas_plan_is_its_buffers(strategy: str) -> None:
    """What is alive fills the plan, but for results that are reserved and not yet written; the names of modules in the program
    have changed nothing."""
    found = account(f"transformer/jax/{strategy}/b4/tiny")
    assert found.plan["by its allocations"] == found.plan["in all"] == found.measured["compiler.plan"]
    assert found.plan["in all"] - found.plan["outputs"] < found.peak.bytes <= found.plan["in all"]
    assert found.peak.bytes > 0.85 * found.plan["in all"]


def test_layers_and_kinds_of_a_jax_step() -> None:
    found = account("transformer/jax/train/fp32/b4/tiny")
    assert {h.layer for h in found.holders if h.kind == "saved for backward"} >= {"blocks.0.fc1", "blocks.1.fc1", "wte"}
    assert {phase for _, _, phase in found.timeline} == {"forward", "backward", "optimizer"}


@pytest.mark.all_cells
def test_states_of_a_jax_optimizer() -> None:
    found = account("transformer/jax/train/fp32/b4/tiny")
    kept = account("transformer/jax/train/no_donate/b4/tiny")  # what is donated may be overwritten before the peak
    state = sum(h.bytes for h in kept.holders if h.kind == "optimizer state" and h.layer)  # but for the count of steps
    assert state == 2 * kept.kinds["parameter"] > 2 * found.kinds["parameter"]


@pytest.mark.parametrize(
    "case",
    [
        "transformer/jittor/train/fp32/b4/tiny",
        pytest.param("transformer/jittor/eval/no_grad/b4/tiny", marks=pytest.mark.all_cells),
        pytest.param("resnet50/jittor/train/fp32/b8/cpu", marks=pytest.mark.all_cells),
    ],
)
def test_jittors_account_is_the_measured_peak(case: str) -> None:
    found = account(case)
    assert found.peak.bytes == found.measured["allocator.in_use"]


def test_layers_and_kinds_of_a_jittor_step() -> None:
    found = account("transformer/jittor/train/fp32/b4/tiny")
    assert {h.layer for h in found.holders if h.kind == "saved for backward"} >= {"blocks.0.fc1", "blocks.1.fc1", "ln_f"}
    assert found.kinds["optimizer state"] == 2 * found.kinds["parameter"]


@pytest.mark.all_cells
def test_strategies_of_a_jittor_step() -> None:
    found = account("transformer/jittor/train/fp32/b4/tiny")
    checkpointed = account("transformer/jittor/train/checkpoint/b4/tiny")
    assert checkpointed.kinds["saved for backward"] < 0.1 * found.kinds["saved for backward"] < checkpointed.kinds["recomputed"]
    assert account("transformer/jittor/eval/grad/b4/tiny").kinds["saved for backward"] > 100_000


def test_explain_writes_json_and_a_figure(tmp_path: Path) -> None:
    drawn = tmp_path / "step.svg"
    wanted = ("--json", "--to", str(drawn), "--results", str(tmp_path))
    done = framebench("explain", "transformer/torch/train/fp32/b4/tiny", *wanted)
    found = json.loads(done.stdout)
    svg = ElementTree.parse(drawn).getroot()
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    assert 0 < len(list(svg.iter())) < 5000
    assert set(found) == set(Explanation.model_fields)
    assert found["peak"]["bytes"] == sum(h["bytes"] for h in found["holders"])
    assert {"kind", "layer", "phase", "bytes", "tensors", "by"} == set(found["holders"][0])


def test_two_cases_differ_by_the_sum_of_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the accounts that other tests have."""
    monkeypatch.setattr(command, "account", lambda case, environment: account(case.id))
    case, other = (f"transformer/torch/train/{strategy}/b4/tiny" for strategy in ("checkpoint", "fp32"))
    done = framebench("explain", case, "--against", other, "--json", "--results", str(tmp_path))
    found = json.loads(done.stdout)
    assert found["difference"] == found["peak"] - found["against_peak"] == sum(row["difference"] for row in found["rows"])
    kinds = {row["kind"]: 0 for row in found["rows"]}
    for row in found["rows"]:
        kinds[row["kind"]] += row["difference"]
    assert kinds["saved for backward"] < 0 < kinds["recomputed"]
    assert list(kinds)[-1] == "unexplained"


@pytest.mark.parametrize(
    ("other", "message"),
    [("@0.1", "there are: 2.12.1, 2.13.0"), ("transformer/torch/train/compile/b4/tiny", "no operators"), ("resnet50", "as in")],
)
def test_an_invalid_other_case_is_refused_at_once(other: str, message: str) -> None:
    done = framebench("explain", "transformer/torch/train/fp32/b4/tiny", "--against", other)
    assert done.returncode == 2
    assert message in done.stderr
