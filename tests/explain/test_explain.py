"""Where the peak comes from: parts sum to the whole, the whole is what is measured, strategies show
where they act.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pydantic import ValidationError

from framebench.engine import environments
from framebench.engine.session import lock_results
from framebench.explain import measure
from framebench.explain.account import Account
from framebench.explain.measure import Unexplained, explain
from framebench.explain.record import Explanation
from framebench.explain.table import summarize_peak
from framebench.instruments.memory_timeline import Value
from framebench.suite.selectors import parse
from tests.explain.explanations import make_explanation
from tests.marks import needs_host_peak, rarely
from tests.processes import framebench, read_json, run_inside

pytestmark = pytest.mark.usefixtures("imported_once")

MIB = 2**20
EXPLAINED = "transformer/torch/train/fp32/b4/tiny"


@cache
def explain_case(case_id: str) -> Explanation:
    """Explain a case once for all tests of this process."""
    case = parse(case_id)
    return explain(case, environments.ensure(case.framework))


def test_the_timeline_and_the_peak_follow_from_births_and_deaths():
    values = [
        Value("x", "a", "forward", "mul", size=10, born=0, died=3),
        Value("x", "b", "forward", "mul", size=5, born=1, died=8),
        Value("y", "a", "forward", "mul", size=7, born=2, died=3),
        Value("x", "a", "forward", "add", size=1, born=2, died=9),
    ]
    account = Account(values, [(0, "forward"), (3, "backward")], events=9).as_dict()
    assert account["timeline"] == [
        (0, 10, "forward"),
        (1, 15, "forward"),
        (2, 23, "forward"),
        (3, 6, "backward"),
        (8, 1, "backward"),
    ]
    assert account["timeline_by_kind"] == {"x": [10, 15, 16, 6, 1], "y": [0, 0, 7, 0, 0]}
    assert account["peak"] == {"event": 2, "bytes": 23, "phase": "forward"}
    columns = ("layer", "kind", "bytes", "tensors", "by")
    holders = [[holder[column] for column in columns] for holder in account["holders"]]
    assert holders == [
        ["a", "x", 11, 2, ["mul", "add"]],
        ["a", "y", 7, 1, ["mul"]],
        ["b", "x", 5, 1, ["mul"]],
    ]


def test_an_account_that_does_not_add_up_is_refused():
    explanation = make_explanation({}, ("blocks.0", "parameter", 3), ("blocks.1", "parameter", 2))
    assert explanation.kinds == {"parameter": 5}
    lacking = explanation.model_copy(update={"holders": explanation.holders[:1]})
    with pytest.raises(ValidationError, match="sum to 3 bytes"):
        Explanation.model_validate(lacking.model_dump())
    by_kind = explanation.model_copy(update={"timeline_by_kind": {"parameter": (4,)}})
    with pytest.raises(ValidationError, match="do not sum to the timeline"):
        Explanation.model_validate(by_kind.model_dump())


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("transformer/torch/train/compile/b4/tiny", "no operators to follow"),
        ("transformer/torch/varlen/padded/b4/tiny", "covers train and eval"),
        ("transformer/jax/train/no_jit/b4/tiny", "compiled plan"),
        ("transformer/jittor/train/amp_bf16/b4/tiny", "bfloat16"),
    ],
)
def test_unsupported_cases_have_a_reason(case, message):
    with pytest.raises(Unexplained, match=message):
        explain(parse(case), environments.describe("torch"))


def test_the_first_sentences_say_what_the_peak_is_and_which_layer_holds_most():
    """`up.3.relu` holds most by the sum over its kinds, though no single holder is the largest."""
    explanation = make_explanation(
        {},
        ("down.0.norm", "saved for backward", 30 * MIB),
        ("up.3.relu", "saved for backward", 25 * MIB),
        ("up.3.relu", "temporary", 10 * MIB),
        ("", "input", 15 * MIB),
        ("(loss)", "temporary", 20 * MIB),
    )
    assert summarize_peak(explanation) == (
        "55.0% of the peak is kept for the backward pass: 55.00 of 100.00 MiB. "
        "Of the layers up.3.relu holds most: 35.00 MiB (35.0%)."
    )


def test_what_is_no_layer_is_named_where_it_holds_more_than_any_layer():
    explanation = make_explanation(
        {}, ("head", "parameter", 40 * MIB), ("(loss)", "temporary", 60 * MIB)
    )
    assert summarize_peak(explanation) == (
        "60.0% of the peak is temporary: 60.00 of 100.00 MiB. "
        "Of the layers head holds most: 40.00 MiB (40.0%). Outside of them the loss holds 60.00 "
        "MiB."
    )


def list_phases(explanation: Explanation) -> list[str]:
    """Return the phases in the order in which they were entered."""
    phases = []
    for moment in explanation.timeline:
        if not phases or moment.phase != phases[-1]:
            phases.append(moment.phase)
    return phases


def test_phases_of_a_pytorch_step_in_order():
    explanation = explain_case("transformer/torch/train/accumulate_2/b4/tiny")
    assert list_phases(explanation) == ["forward", "backward"] * 2 + ["optimizer"]


@pytest.mark.slow
@needs_host_peak
@pytest.mark.parametrize(
    "strategy",
    [
        "train/checkpoint",
        rarely("train/fp32"),
        rarely("eval/no_grad"),
    ],
)
def test_pytorchs_account_agrees_with_the_measured_peak(strategy):
    explanation = explain_case(f"transformer/torch/{strategy}/b4/cpu")
    assert explanation.peak.bytes == pytest.approx(explanation.measured["host.rss"], rel=0.05)


PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.slow
def test_the_account_finds_the_saved_bytes_of_the_record(environment):
    strategies = ("fp32", "checkpoint", "accumulate", "amp_bf16")
    cases = [f"transformer/torch/train/{strategy}/b4/tiny" for strategy in strategies]
    sizes = run_inside(environment["torch"], PROGRAMS / "explain_counted.py", *cases)
    for observed, saved in sizes.values():
        assert observed == saved
        assert saved > 0
    plain, checkpointed, in_four, _ = (sizes[case][0] for case in cases)
    assert checkpointed < plain / 4
    assert in_four == pytest.approx(plain / 4, rel=0.01)


@pytest.mark.slow
def test_checkpointing_saves_block_inputs_only():
    """The activations of one block are there again: those of the last one, whose turn it is."""
    plain = explain_case("transformer/torch/train/fp32/b4/cpu")
    checkpointed = explain_case("transformer/torch/train/checkpoint/b4/cpu")
    assert checkpointed.kinds["saved for backward"] < 0.1 * plain.kinds["saved for backward"]
    recomputed_blocks = set()
    for holder in checkpointed.holders:
        if holder.kind == "recomputed" and holder.layer.startswith("blocks."):
            recomputed_blocks.add(holder.layer.split(".")[1])
    assert len(recomputed_blocks) == 1
    assert "recomputed" not in plain.kinds
    assert list_saved_layers(plain) >= {f"blocks.{block}.fc1" for block in range(8)}


def list_saved_layers(explanation: Explanation) -> set[str]:
    """Return the layers that hold something for the backward pass."""
    return {holder.layer for holder in explanation.holders if holder.kind == "saved for backward"}


def test_a_backward_operator_is_assigned_to_its_layer():
    explanation = explain_case("transformer/torch/train/fp32/b4/tiny")
    made_by = {}
    for holder in explanation.holders:
        if holder.kind == "temporary" and holder.phase == "backward":
            made_by[holder.layer] = holder.by
    assert made_by["(loss)"] == ("nll_loss_backward", "_log_softmax_backward_data")


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
  %loop = (f32[4]{0}, f32[4]{0}) while(%start), condition=%stop, \
body=%body, metadata={op_name="jit(f)/while"}
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


def test_a_program_of_xlas_is_followed_through_its_loop(environment):
    """`a` is used only inside the loop, which carries it to its end; the loop results in `x` if it
    never turns.
    """
    lives, entry, allocations = run_inside(
        environment["jax"], PROGRAMS / "explain_loop.py", TEXT, PLAN
    )
    assert lives == {
        "x.1": [0, 5, ""],
        "a": [1, 4, "a"],
        "next": [2, 5, "b"],
        "copy": [4, 5, "(loss)"],
    }
    assert (entry, allocations) == ("main", 3)


@pytest.mark.parametrize(
    "strategy",
    [
        "train/fp32",
        rarely("train/checkpoint"),
        rarely("eval/no_grad"),
    ],
)
def test_xlas_plan_agrees_with_its_buffers(strategy):
    """What is alive fills the plan, but for results that are reserved and not yet written.

    The names of modules in the program have changed nothing.
    """
    explanation = explain_case(f"transformer/jax/{strategy}/b4/tiny")
    peak, plan = explanation.peak.bytes, explanation.plan
    assert plan["by its allocations"] == plan["in all"] == explanation.measured["compiler.plan"]
    assert plan["in all"] - plan["outputs"] < peak <= plan["in all"]
    assert peak > 0.85 * plan["in all"]


def test_layers_and_kinds_of_a_jax_step():
    explanation = explain_case("transformer/jax/train/fp32/b4/tiny")
    assert list_saved_layers(explanation) >= {"blocks.0.fc1", "blocks.1.fc1", "wte"}
    assert set(list_phases(explanation)) == {"forward", "backward", "optimizer"}


@pytest.mark.all_cases
def test_weights_and_states_of_jax_are_held_whole_unless_donated():
    donated = explain_case("transformer/jax/train/fp32/b4/tiny")
    kept = explain_case("transformer/jax/train/no_donate/b4/tiny")
    # the count of steps is a state too, and has no layer
    moments = [h.bytes for h in kept.holders if h.kind == "optimizer state" and h.layer]
    assert sum(moments) == 2 * kept.kinds["parameter"]
    # what is donated may have been overwritten before the peak
    assert kept.kinds["parameter"] > donated.kinds["parameter"]


@pytest.mark.parametrize(
    "case",
    [
        "transformer/jittor/train/fp32/b4/tiny",
        rarely("transformer/jittor/eval/no_grad/b4/tiny"),
        rarely("resnet50/jittor/train/fp32/b8/cpu"),
    ],
)
def test_jittors_account_is_the_measured_peak(case):
    explanation = explain_case(case)
    assert explanation.peak.bytes == explanation.measured["allocator.in_use"]


def test_layers_and_kinds_of_a_jittor_step():
    explanation = explain_case("transformer/jittor/train/fp32/b4/tiny")
    assert list_saved_layers(explanation) >= {"blocks.0.fc1", "blocks.1.fc1", "ln_f"}
    assert explanation.kinds["optimizer state"] == 2 * explanation.kinds["parameter"]


@pytest.mark.all_cases
def test_strategies_of_a_jittor_step():
    plain = explain_case("transformer/jittor/train/fp32/b4/tiny").kinds
    checkpointed = explain_case("transformer/jittor/train/checkpoint/b4/tiny").kinds
    tenth = 0.1 * plain["saved for backward"]
    assert checkpointed["saved for backward"] < tenth < checkpointed["recomputed"]
    evaluation = explain_case("transformer/jittor/eval/grad/b4/tiny").kinds
    assert evaluation["saved for backward"] > 100_000


def test_explain_writes_json_and_a_figure(tmp_path):
    figure = tmp_path / "step.svg"
    options = ("--json", "--to", figure, "--results", tmp_path)
    done = framebench("explain", "transformer/torch/train/fp32/b4/tiny", *options)
    svg = ElementTree.parse(figure).getroot()
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    explanation = Explanation.model_validate_json(done.stdout)
    assert explanation.peak.bytes > 0
    texts = set(figure.read_text().replace("<", ">").split(">"))
    kinds = {"parameter", "optimizer state", "gradient", "saved for backward", "temporary"}
    assert texts >= kinds | {f"{explanation.peak.bytes / 2**20:.2f} MiB", "blocks.*.fc* (4)"}


def test_explain_does_not_disturb_a_measurement(tmp_path):
    with lock_results(tmp_path):
        done = framebench("explain", EXPLAINED, results=tmp_path, code=2)
    assert "is measuring into" in done.stderr
    assert "framebench explain" not in done.stderr, "the holder is named, not this command"


def test_two_cases_differ_by_the_sum_of_the_rows(tmp_path, monkeypatch):
    """The command compares accounts from `explain_case` instead of measuring again."""
    monkeypatch.setattr(measure, "explain", lambda case, environment: explain_case(case.id))
    plain = "transformer/torch/train/fp32/b4/tiny"
    checkpointed = "transformer/torch/train/checkpoint/b4/tiny"
    printed = read_json("explain", checkpointed, "--against", plain, results=tmp_path)
    by_kind = Counter()
    for row in printed["rows"]:
        by_kind[row["kind"]] += row["difference"]
    assert printed["difference"] == printed["peak"] - printed["against_peak"] == by_kind.total()
    assert by_kind["saved for backward"] < 0 < by_kind["recomputed"]
