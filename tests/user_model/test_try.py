"""`framebench try`: a model of the user's own is measured like the suite's."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from framebench.engine.timed_process import CONTROL, Variant
from framebench.models.spec import load_workload
from framebench.records import store
from framebench.records.provenance import ROOT
from framebench.records.search import MIB, Fit
from framebench.suite.case import Case
from framebench.suite.user_file import Fault
from framebench.user_file import trial
from framebench.user_model import command, measure
from framebench.user_model.session import TrialOutcome
from tests.callbacks import ignore
from tests.fake_records import RIGHT, provenance, record
from tests.marks import rarely
from tests.processes import framebench
from tests.user_model.small_file import try_file, write_variant

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"


@pytest.mark.usefixtures("environment")
def test_strategies_are_verified_timed_and_proven(tmp_path):
    """The file is the convolutional example at 8 px, under a few strategies."""
    file = tmp_path / "cnn.py"
    code = (ROOT / "examples/cnn.py").read_text()
    file.write_text(code.replace("randn(n, 3, 32, 32)", "randn(n, 3, 8, 8)"))
    results = tmp_path / "results"
    options = ("--strategies", "checkpoint,checkpoint_linear", "--rounds", "3", "--budget", "1GiB")
    done = try_file(file, results, *options, "--html", str(results / "page"), "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("cnn.py: running the baseline first, then up to 2 strategies.")
    for message in (
        "2 of 2 strategies fit within 1,024.0 MiB",
        "2 of 2 strategies compute the same, up to rounding; 2 of them were seen at work",
        "left out: checkpoint_linear: the model has no batched matmuls",
    ):
        assert message in done.stderr
    assert (results / "page/index.html").exists()
    rows = {row["strategy"]: row for row in json.loads(done.stdout)}
    assert rows.keys() == {"checkpoint", "fp32"}
    for row in rows.values():
        assert row["usable"]
        assert row["step_time_s"] > 0
        assert row["peak_bytes"] > row["activation_bytes"]
    assert rows["checkpoint"]["activation_bytes"] < rows["fp32"]["activation_bytes"]
    records = list(store.read_all(results))
    assert {made.parsed.strategy for made in records} == {"checkpoint", "fp32"}
    for made in records:
        assert made.verification.tensors["gradient"].count == 31
        assert made.verification.tensors["second moment"].failed == 0
        # a first look has the memory, and verifies once
        assert bool(made.verification.again) == bool(made.step_s) == (not made.peaks)
        if made.parsed.strategy == "checkpoint":
            evidence = made.effect.evidence
            assert evidence["block_runs"] == 2 * evidence["blocks"] == 8


def replace_measuring(monkeypatch, file: Path, search: Callable[..., list[Fit]]) -> None:
    """Let a trial of the file have the record of its baseline, and search batches by `search`."""
    baseline = trial.inspect_file(file, batch=4).baseline
    measured = [record(baseline, peaks={"host.rss": 100 * MIB}, **RIGHT)]
    outcome = TrialOutcome(measured, {}, SimpleNamespace(close=ignore), is_complete=True)
    monkeypatch.setattr(command, "measure_strategies", lambda *arguments: outcome)
    monkeypatch.setattr(command, "search_batches", search)
    monkeypatch.setattr(trial, "choose_environment", lambda *arguments: CONTROL)


def make_fit(file: Path) -> Fit:
    """Return a search in which eight samples of the file's baseline fit."""
    baseline = trial.inspect_file(file, batch=1).baseline
    found = {"case": baseline.id, "budget_bytes": 200 * MIB, "provenance": provenance()}
    return Fit(status="found", answer="a batch fits", largest=8, **found)


def test_json_has_the_largest_batch_of_each_strategy(monkeypatch, tmp_path):
    file = write_variant(tmp_path)
    replace_measuring(monkeypatch, file, lambda *arguments: [make_fit(file)])
    options = ("--budget", "200MiB", "--max-batch", "--json")

    (row,) = json.loads(try_file(file, tmp_path / "results", *options).stdout)

    assert (row["strategy"], row["batch"]) == ("fp32", 4)
    assert (row["largest_batch"], row["largest_batch_answer"]) == (8, "a batch fits")


def test_what_was_measured_is_shown_before_the_largest_batch_is_searched(monkeypatch, tmp_path):
    """A search takes minutes for each strategy."""
    file = write_variant(tmp_path)
    figure = tmp_path / "peaks.svg"
    printed_before = []

    def search(*arguments):
        printed_before.append(sys.stdout.getvalue())
        assert figure.exists()
        return [make_fit(file)]

    replace_measuring(monkeypatch, file, search)
    options = ("--budget", "200MiB", "--max-batch", "--figure", str(figure))

    done = try_file(file, tmp_path / "results", *options)

    (table,) = printed_before
    assert "fp32" in table
    assert done.stdout.startswith(table)
    assert "a batch fits" in done.stdout.removeprefix(table)
    assert "fp32" not in done.stdout.removeprefix(table).split("a batch fits")[1]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--max-batch", (), "--budget 16GiB"),
        ("--rounds", ("2",), "--rounds 2: times of fewer than 3 rounds do not count"),
    ],
)
def test_options_that_give_no_answer_are_refused(option, value, message, tmp_path):
    done = framebench("try", str(write_variant(tmp_path)), option, *value, code=2)
    assert message in done.stderr


@dataclass(frozen=True)
class Given:
    """What a trial that asks for at least three blocks meets."""

    seconds: float | None = 1e9  # until its deadline
    decided_after: int = 5  # blocks
    wrong: frozenset[str] = frozenset({"compile"})  # strategies that compute something else


@pytest.mark.parametrize(
    ("given", "measured"),
    [
        pytest.param(Given(), 5, id="until all are decided"),
        pytest.param(Given(seconds=None), 3, id="no deadline: as many as were asked for"),
        pytest.param(Given(decided_after=1), 3, id="decided early: as many as were asked for"),
        pytest.param(Given(seconds=0), 1, id="no time for more"),
        pytest.param(
            Given(wrong=frozenset({"compile", "fp32"})), 1, id="no baseline to compare with"
        ),
    ],
)
def test_blocks_follow_while_ratios_are_undecided(given, measured, monkeypatch):
    """A strategy that is slow (amp_bf16 here) or wrong is in the first block alone.

    Within it, what has to be compiled comes last.
    """
    least_blocks = 3
    blocks = []
    strategies = ("fp32", "compile", "amp_bf16", "checkpoint")
    variants = []
    for name in strategies:
        variants.append(Variant(Case("transformer", "torch", "train", name, 4), CONTROL))

    def list_records(variant):
        usable = variant.case.strategy not in given.wrong
        return [SimpleNamespace(usable=usable, status="ok")] if blocks else []

    def measure_group(group, run, number):
        blocks.append([variant.case.strategy for variant in (*group.always, *group.others)])

    def explain_slowness(case):
        return "no units" if case.strategy_spec.precision == "bf16" else None

    def are_decided(left):
        return len(blocks) >= given.decided_after

    run = SimpleNamespace(get_records=list_records, listener=SimpleNamespace(on_skipped=ignore))
    monkeypatch.setattr(measure.runner, "explain_slowness", explain_slowness)
    monkeypatch.setattr(measure.blocks, "measure_group", measure_group)
    deadline = None if given.seconds is None else time.monotonic() + given.seconds
    measure.measure_blocks(variants, run, least_blocks, deadline, are_decided)
    assert blocks[0] == ["fp32", "amp_bf16", "checkpoint", "compile"]
    assert blocks[1:] == [["fp32", "checkpoint"]] * (measured - 1)


EXAMPLES = ROOT / "examples"
RARE = (pytest.mark.slow, pytest.mark.all_cases)
TRIED = [
    # a teacher in a global, without a seed: it is the same in each process
    pytest.param(
        HERE / "cases/distillation.py",
        "checkpoint",
        None,
        "2 of 2 strategies compute the same, up to rounding",
        id="distillation",
        marks=RARE,
    ),
    # XLA:CPU widens what is bfloat16
    pytest.param(
        EXAMPLES / "flax_mixer.py",
        "amp_bf16",
        "amp_bf16",
        "2 of 2 strategies compute the same, up to rounding",
        id="Flax",
        marks=RARE,
    ),
    pytest.param(
        PROGRAMS / "jittor_model.py",
        "checkpoint,accumulate",
        None,
        "4 blocks (Block)",
        id="Jittor",
        marks=RARE,
    ),
    # the head has the embedding's weights
    pytest.param(
        EXAMPLES / "hf_gpt2.py",
        "checkpoint,checkpoint_linear",
        None,
        "4 blocks (GPT2Block, which save most",
        id="transformers",
        marks=RARE,
    ),
    # with its dropout, and without the schedule's steps, at the rate that it warms up to
    pytest.param(
        PROGRAMS / "hf_trainer.py",
        "amp_bf16,checkpoint,accumulate,optimizer_in_backward",
        "amp_bf16",
        "optimizer AdamW at its full rate of 5e-05, without its schedule",
        id="Trainer",
        marks=RARE,
    ),
]


@pytest.mark.parametrize(("file", "strategies", "unproven", "message"), TRIED)
@pytest.mark.usefixtures("environment")
def test_files_in_each_framework_are_measured(file, strategies, unproven, message, tmp_path):
    done = try_file(file, tmp_path / "results", "--strategies", strategies, "--json")
    assert done.returncode == 0, done.stderr
    assert message in done.stderr
    rows = {row["strategy"]: row for row in json.loads(done.stdout)}
    assert rows.keys() == {"fp32", *strategies.split(",")}
    for name, row in rows.items():
        assert row["verified"]
        assert row["effect_proven"] == (name != unproven)
    if "checkpoint" in rows and file.stem != "distillation":
        assert rows["checkpoint"]["peak_bytes"] < rows["fp32"]["peak_bytes"]


@pytest.mark.all_cases
@pytest.mark.usefixtures("environment")
def test_evaluation_is_measured(tmp_path):
    """The model has dropout, which is off in evaluation."""
    file = write_variant(tmp_path, ("nn.Linear(8, 3)", "nn.Dropout(0.5), nn.Linear(8, 3)"))
    options = ("--strategies", "amp_bf16", "--scenario", "eval", "--json")
    done = try_file(file, tmp_path / "results", *options)
    assert done.returncode == 0, done.stderr
    errors = {row["strategy"]: row["worst_error"] for row in json.loads(done.stdout)}
    assert errors["amp_bf16"] > errors["no_grad"]


ODD = """
class Odd(nn.Linear):
    def forward(self, x):
        return super().forward(x) * (1.25 if torch.is_autocast_enabled("cpu") else 1.0)

def model"""


@pytest.mark.all_cases
@pytest.mark.parametrize("framework", ["torch", "jax"])
@pytest.mark.usefixtures("environment")
def test_a_strategy_that_computes_something_else_is_wrong(framework, tmp_path):
    """One layer is off in bfloat16 alone, and micro-batches would divide the loss twice."""
    file = PROGRAMS / "flax_model.py"
    if framework == "torch":
        odd = ("return nn.Sequential(nn.Linear(6, 8)", "return nn.Sequential(Odd(6, 8)")
        file = write_variant(tmp_path, ("mean()", "sum()"), odd, ("def model", ODD))
    options = ("--strategies", "accumulate,amp_bf16", "--json")
    done = try_file(file, tmp_path / "results", *options)
    assert done.returncode == 1, done.stderr
    statuses = {row["strategy"]: row["status"] for row in json.loads(done.stdout)}
    assert statuses["amp_bf16"] == "wrong"
    assert statuses["fp32"] == "ok"
    assert "; wrong: amp_bf16" in done.stderr
    if framework == "torch":
        assert "left out: accumulate: micro-batches do not add up" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "right", "wrong", "reason"),
    [
        rarely(
            "masked",
            "compile",
            "memory_budget",
            "dropout has another mask in the backward pass (pytorch issue 190758)",
        ),
        rarely(
            "interpolated",
            "compile",
            "amp_bf16+checkpoint+compile",
            "loses gradients below `interpolate` in a compiled step",
        ),
        (
            "gated",
            "checkpoint",
            "checkpoint_dots",
            "changes a product of its GRU in place, which selective checkpointing has",
        ),
    ],
)
def test_known_faults_of_pytorch_are_named(case, right, wrong, reason, tmp_path):
    """docs/try.md lists them. Once a release repairs one, that page has to be changed."""
    options = ("--strategies", f"fp32,{right},{wrong}", "--batch", "8")
    done = try_file(HERE / "cases" / f"{case}.py", tmp_path, *options)
    assert done.returncode, done.stderr
    assert "2 of 3 strategies compute the same" in done.stderr
    assert f"; wrong: {wrong}" in done.stderr
    assert reason in " ".join(done.stdout.split())


@pytest.fixture
def model(tmp_path) -> Iterator[trial.UserModel]:
    inspected = trial.inspect_file(write_variant(tmp_path), 4)
    with trial.use_model(inspected):
        yield inspected


def test_inapplicable_strategies_are_left_out_and_unknown_ones_refused(model):
    workload = load_workload("own")
    workload.facts["blocks"] = []
    cases, reasons = trial.list_cases(model, ["checkpoint", "amp_bf16"])
    assert [case.strategy for case in cases] == ["fp32", "amp_bf16"]
    assert reasons.keys() == {"checkpoint"}
    with pytest.raises(Fault, match=r"no strategy 'magic'.*choose from: fp32, "):
        trial.list_cases(model, ["magic"])
