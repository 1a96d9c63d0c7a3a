"""`framebench try`: a model of the user's own is measured like the suite's."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.engine.timed_process import CONTROL, Variant
from framebench.models.spec import load_workload
from framebench.models.user_model import explain_refusal
from framebench.records import store
from framebench.records.provenance import ROOT
from framebench.records.record import Record
from framebench.strategies.registry import find_strategy
from framebench.suite.case import Case
from framebench.suite.user_file import Fault
from framebench.user_file import trial as own
from framebench.user_model import command as cli
from framebench.user_model import measure as blocks_of_own
from tests.processes import framebench, run_inside
from tests.user_model.small_file import TORCH, written

Tried = tuple[list[dict], list[Record], str]


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, Environment]) -> Tried:
    """The convolutional example at 8 px under a few strategies: the rows, the records, and the
    page.
    """
    results, file = tmp_path_factory.mktemp("results"), tmp_path_factory.mktemp("own") / "cnn.py"
    file.write_text(
        (ROOT / "examples/cnn.py").read_text().replace("randn(n, 3, 32, 32)", "randn(n, 3, 8, 8)")
    )
    arguments = [
        "--strategies",
        "checkpoint,checkpoint_linear",
        "--blocks",
        "1",
        "--rounds",
        "3",
        "--batch",
        "4",
    ]
    arguments += [
        "--results",
        str(results),
        "--html",
        str(results / "page"),
        "--budget",
        "1GiB",
        "--json",
    ]
    done = framebench("try", str(file), *arguments)
    assert done.returncode == 0, done.stderr
    assert "2 of 2 strategies fit within 1,024.0 MiB" in done.stderr
    assert (
        "2 of 2 strategies compute the same, up to rounding; 2 of them were seen at work"
        in done.stderr
    )
    assert "left out: checkpoint_linear: no products of matrices in batches" in done.stderr
    return (
        json.loads(done.stdout),
        list(store.read_all(results)),
        (results / "page/index.html").read_text(),
    )


def test_strategies_are_verified_and_proven(tried: Tried) -> None:
    rows, records, _ = tried
    assert [row["strategy"] for row in rows] == ["checkpoint", "fp32"]
    assert all(row["usable"] and row["peak_bytes"] > 0 and row["step_time_s"] > 0 for row in rows)
    for record in records:
        assert record.verification
        assert record.verification.tensors["gradient"].count == 31
        assert record.verification.tensors["second moment"].failed == 0
        assert record.verification.margin < 1  # type: ignore[operator]
        again = record.verification.again
        assert bool(again) == bool(record.step_s) == (not record.peaks), (
            "a first look has the memory, and verifies once"
        )
        assert again is None or again.passed
    assert {bool(record.step_s) for record in records} == {True, False}
    proven = {r.parsed.strategy: r.effect.evidence for r in records if r.effect}
    assert proven["checkpoint"]["block_runs"] == 2 * proven["checkpoint"]["blocks"] == 8
    by = {row["strategy"]: row for row in rows}
    assert by["checkpoint"]["activation_bytes"] < by["fp32"]["activation_bytes"], (
        "peaks of a model so small are noisy"
    )
    assert all(row["peak_bytes"] > row["activation_bytes"] for row in rows)


def test_what_a_file_draws_when_it_is_imported_is_the_same_in_each_process(tmp_path: Path) -> None:
    """A teacher that the loss calls, as users keep it: in a global, without a seed."""
    file = ROOT / "tests/user_model/cases/distillation.py"
    arguments = [
        "--strategies",
        "fp32,checkpoint",
        "--blocks",
        "1",
        "--rounds",
        "0",
        "--batch",
        "8",
    ]

    done = framebench("try", str(file), *arguments, "--results", str(tmp_path))

    assert done.returncode == 0, done.stderr
    assert "2 of 2 strategies compute the same" in done.stderr


def test_a_search_begins_at_the_smallest_batch(
    tried: Tried,
    environment: dict[str, Environment],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    find = lambda case, *_, **__: asked.append(case.id) or SimpleNamespace(answer="")  # noqa: E731
    monkeypatch.setattr(cli, "search_largest_batch", find)
    cli.search_batches(
        [r for r in tried[1] if r.parsed.strategy == "checkpoint"],
        1,
        environment["torch"],
        Options(),
        tmp_path,
    )
    assert asked == ["own/torch/train/checkpoint/b1/cnn"]
    done = framebench("try", str(ROOT / "examples/cnn.py"), "--max-batch")
    assert (done.returncode, "--budget 16GiB" in done.stderr) == (2, True)


def test_which_strategies_are_in_which_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is slow or not right is in the first alone; there are more blocks than the least while a
    ratio is undecided, and fewer where time is over. What takes a compiler is last.
    """
    asked, skipped = list[list[str]](), list[str]()
    variants = [
        Variant(Case("transformer", "torch", "train", name, 4), CONTROL)
        for name in ("fp32", "compile", "amp_bf16", "checkpoint")
    ]
    wrong = {"compile"}
    run = SimpleNamespace(
        records=lambda variant: (
            [SimpleNamespace(usable=variant.case.strategy not in wrong, status="ok")]
            if asked
            else []
        ),
        listener=SimpleNamespace(skipped=lambda case: skipped.append(case.strategy)),
    )
    monkeypatch.setattr(
        blocks_of_own.runner,
        "explain_slowness",
        lambda case: "no units" if case.plan.precision == "bf16" else None,
    )
    monkeypatch.setattr(
        blocks_of_own.blocks,
        "measure_group",
        lambda group, _, number: asked.append(
            [str(number), *(variant.case.strategy for variant in (*group.always, *group.others))]
        ),
    )

    def tried(seconds: float | None, blocks_it_takes: int = 5) -> list[list[str]]:
        asked.clear()
        deadline = None if seconds is None else time.monotonic() + seconds
        blocks_of_own.measure_blocks(
            variants,
            run,
            3,
            deadline,
            lambda left: len(left) == 2 and len(asked) >= blocks_it_takes,
        )  # type: ignore[arg-type]
        return asked

    left = ["fp32", "checkpoint"]
    assert tried(1e9) == [
        ["0", "fp32", "amp_bf16", "checkpoint", "compile"],
        *([str(n), *left] for n in (1, 2, 3, 4)),
    ]
    assert skipped == ["amp_bf16", "compile"]
    assert len(tried(None)) == len(tried(1e9, 1)) == 3, "as many as were asked for, or no need"
    assert len(tried(0)) == 1, "no time for more"
    wrong.add("fp32")
    assert len(tried(1e9)) == 1, "without its baseline nothing is compared"


PROGRAMS = Path(__file__).parent / "programs"
JITTOR = PROGRAMS / "jittor_model.py"
FLAX = PROGRAMS / "flax_model.py"
EVALUATED = PROGRAMS / "flax_small.py"


def rows_of(
    file: Path,
    results: Path,
    *strategies: str,
    scenario: str = "train",
    unproven: tuple[str, ...] = (),
) -> tuple[dict[str, dict], str]:
    """By strategy, and what was said. All are right, and these have no effect on a CPU."""
    arguments = [
        "--strategies",
        ",".join(strategies),
        "--blocks",
        "1",
        "--rounds",
        "0",
        "--batch",
        "4",
    ]
    arguments += ["--scenario", scenario]
    done = framebench("try", str(file), *arguments, "--results", str(results), "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["strategy"]: row for row in json.loads(done.stdout)}
    assert all(
        row["verified"] and row["effect_proven"] == (name not in unproven)
        for name, row in rows.items()
    )
    return rows, done.stderr


@pytest.mark.slow
@pytest.mark.all_cases
def test_a_flax_file_is_measured(tmp_path: Path, environment: dict[str, Environment]) -> None:
    """XLA:CPU widens what is bfloat16, which costs memory; the rounding stays."""
    strategies = ("checkpoint_linear", "amp_bf16")
    rows, message = rows_of(
        ROOT / "examples/flax_mixer.py", tmp_path / "results", *strategies, unproven=("amp_bf16",)
    )
    assert rows.keys() == {"fp32", "amp_bf16"}
    assert rows["amp_bf16"]["worst_error"] > 100 * rows["fp32"]["worst_error"]
    assert "left out: checkpoint_linear: no products of matrices in batches" in message


@pytest.mark.all_cases
def test_an_error_beyond_the_precision_is_wrong(
    tmp_path: Path, environment: dict[str, Environment]
) -> None:
    """A layer that is off by a tenth in bfloat16 alone."""
    file = tmp_path / "odd.py"
    shutil.copy(FLAX, file)
    arguments = [
        "--strategies",
        "amp_bf16",
        "--blocks",
        "1",
        "--rounds",
        "0",
        "--batch",
        "4",
        "--json",
    ]
    done = framebench("try", str(file), *arguments, "--results", str(tmp_path / "results"))
    assert done.returncode == 1, done.stderr
    assert {row["strategy"]: row["status"] for row in json.loads(done.stdout)} == {
        "fp32": "ok",
        "amp_bf16": "wrong",
    }


def with_dropout(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(
        JITTOR.read_text().replace("nn.Linear(6, 32),", "nn.Linear(6, 32), nn.Dropout(0.2),")
    )
    return file


@pytest.mark.slow
@pytest.mark.all_cases
def test_a_jittor_file_is_measured(tmp_path: Path, environment: dict[str, Environment]) -> None:
    file = with_dropout(tmp_path)
    rows, message = rows_of(file, tmp_path / "results", "checkpoint", "accumulate")
    assert rows.keys() == {"fp32", "checkpoint", "accumulate"}
    assert rows["checkpoint"]["peak_bytes"] < rows["fp32"]["peak_bytes"]
    assert "4 blocks (Block)" in message


@pytest.mark.all_cases
def test_evaluation_is_measured(tmp_path: Path, environment: dict[str, Environment]) -> None:
    """Of a model with dropout, which is off then."""
    file = written(tmp_path, ("nn.Linear(8, 3)", "nn.Dropout(0.5), nn.Linear(8, 3)"))
    rows, _ = rows_of(file, tmp_path / "results", "amp_bf16", scenario="eval")
    assert rows.keys() == {"no_grad", "amp_bf16"}
    assert rows["amp_bf16"]["worst_error"] > rows["no_grad"]["worst_error"]


@pytest.mark.slow
@pytest.mark.all_cases
def test_a_hugging_face_model_is_measured(
    tmp_path: Path, environment: dict[str, Environment]
) -> None:
    """In the environment that has what the file imports. The head has the embedding's weights."""
    rows, message = rows_of(
        ROOT / "examples/hf_gpt2.py", tmp_path / "results", "checkpoint", "checkpoint_linear"
    )
    assert rows.keys() == {"fp32", "checkpoint", "checkpoint_linear"}
    assert rows["checkpoint"]["peak_bytes"] < rows["fp32"]["peak_bytes"]
    assert "4 blocks (GPT2Block)" in message


@pytest.mark.slow
@pytest.mark.all_cases
def test_a_trainer_model_is_measured(tmp_path: Path, environment: dict[str, Environment]) -> None:
    """With its dropout, which stays on; without the schedule's steps, at the rate that it warms up
    to.
    """
    asked = ("amp_bf16", "checkpoint", "accumulate", "optimizer_in_backward")
    rows, message = rows_of(
        PROGRAMS / "hf_trainer.py", tmp_path / "results", *asked, unproven=("amp_bf16",)
    )
    assert rows.keys() == {"fp32", *asked}
    assert "amp_bf16: effect not proven: 18 of 78 products are still computed in float32" in message
    assert rows["checkpoint"]["peak_bytes"] < rows["fp32"]["peak_bytes"]
    assert (
        "3 blocks (BertLayer), input 4 x 32, optimizer AdamW at its full rate of 5e-05, "
        "without its schedule"
    ) in message


REPEATED = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(6, 12), nn.Linear(12, 6)

    def forward(self, x):
        return x + self.down(self.up(x).tanh())

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = nn.ModuleList([Block() for _ in range(3)]), nn.Linear(6, 3)

    def forward(self, x):
        for block in (*self.blocks, *self.blocks):
            x = block(x)
        return self.head(x)

def model():
    return Net()
"""


def test_blocks_that_run_twice_prove_nothing_by_themselves(
    tmp_path: Path, environment: dict[str, Environment]
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(TORCH.replace("def model():", "def before():") + REPEATED)
    assert run_inside(environment["torch"], PROGRAMS / "try_repeated.py", str(file)) == [
        True,
        False,
    ]


@pytest.mark.all_cases
def test_a_strategy_that_computes_something_else_is_wrong(
    tmp_path: Path, environment: dict[str, Environment]
) -> None:
    """A loss that is a sum, which micro-batches divide once too often; and a model that does
    otherwise under autocast.
    """
    file = written(
        tmp_path,
        ("mean()", "sum()"),
        ("return nn.Sequential(nn.Linear(6, 8)", "return nn.Sequential(Odd(6, 8)"),
        (
            "def model",
            """class Odd(nn.Linear):
    def forward(self, x):
        return super().forward(x) * (1.25 if torch.is_autocast_enabled("cpu") else 1.0)

def model""",
        ),
    )
    arguments = [
        "--strategies",
        "accumulate,amp_bf16",
        "--blocks",
        "1",
        "--rounds",
        "0",
        "--batch",
        "4",
    ]
    done = framebench(
        "try", str(file), *arguments, "--results", str(tmp_path / "results"), "--json"
    )
    assert done.returncode == 1, done.stderr
    found = {row["strategy"]: row["status"] for row in json.loads(done.stdout)}
    assert found == {"fp32": "ok", "amp_bf16": "wrong"}
    assert (
        "1 of 2 strategies compute the same, up to rounding; 1 of them were seen at work; "
        "wrong: amp_bf16"
    ) in done.stderr
    assert "left out: accumulate: the loss is a sum over the batch" in done.stderr


@pytest.fixture
def model(tmp_path: Path) -> Iterator[own.UserModel]:
    found = own.inspect_file(written(tmp_path), 4)
    with own.use_model(found):
        yield found


def test_inapplicable_strategies_have_a_reason(model: own.UserModel) -> None:
    facts = {"blocks": [], "couples": ["layer1.bn1"], "images": False, "attention": False}
    load_workload("own").facts.update(facts)  # type: ignore[attr-defined]
    assert "several modules" in str(
        explain_refusal(find_strategy("train", "amp_bf16+checkpoint"), load_workload("own"))
    )
    assert "layer1.bn1 normalises over the batch" in str(
        explain_refusal(find_strategy("train", "accumulate"), load_workload("own"))
    )
    assert "convolutions" in str(
        explain_refusal(find_strategy("train", "channels_last"), load_workload("own"))
    )
    assert explain_refusal(find_strategy("train", "amp_bf16"), load_workload("own")) is None
    cases, reasons = own.list_cases(model, ["checkpoint", "amp_bf16"])
    assert [case.strategy for case in cases] == ["fp32", "amp_bf16"]
    assert reasons.keys() == {"checkpoint"}
    load_workload("own").facts["blocks"] = ["one", "another"]  # type: ignore[attr-defined]
    assert "as attention has" in str(
        explain_refusal(find_strategy("train", "checkpoint_linear"), load_workload("own"))
    )
    assert explain_refusal(find_strategy("train", "checkpoint_dots"), load_workload("own")) is None
    with pytest.raises(Fault, match=r"no strategy 'magic'.*choose from: fp32, "):
        own.list_cases(model, ["magic"])
