"""The parent's part, with planners that are scripts: what is taken up, what is tried again, and
that no failure is lost.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from framebench.devices.catalog import find
from framebench.devices.plans import planning, process, store
from framebench.devices.plans import version as planners
from framebench.devices.plans.naming import cases_of
from framebench.devices.plans.planned import Planned
from framebench.engine import environments, releases
from framebench.engine.environments import Environment, SetupError
from framebench.records.pins import find_pinned_version
from framebench.suite.case import Case, UnknownCase
from tests.devices.fake_predictions import CASE, MIB, PARTS
from tests.processes import framebench

H100 = find("h100-80gb")
ANSWER = {"outcome": "planned", "peak_bytes": 12 * MIB, "parts": PARTS, "versions": {"jax": "0"}}
Playing = Callable[[str], Path]


@pytest.fixture
def playing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Playing:
    """A planner whose body is given, in the place of every framework's; returns the file that it
    adds a letter to.
    """

    def play(body: str) -> Path:
        asked = tmp_path / "asked"
        interpreter = tmp_path / "python"
        interpreter.write_text(
            f"#!{sys.executable}\nimport sys, time\nopen({str(asked)!r}, 'a').write('x')\n{body}\n"
        )
        interpreter.chmod(0o755)
        made = Environment("jax", "0.10.2", interpreter)
        monkeypatch.setattr(environments, "ensure", lambda framework, **_: made)
        return asked

    return play


def plan(tmp_path: Path, *cases: str, again: bool = False) -> list[Planned]:
    return planning.plan_all(
        [Case.from_id(c) for c in cases or (CASE,)], H100, tmp_path, lambda _: None, again=again
    )


def test_a_cached_prediction_is_reused(tmp_path: Path, playing: Playing) -> None:
    asked = playing(f"print('noise'); print({json.dumps(ANSWER)!r})")
    (first,) = plan(tmp_path)
    assert (first.outcome, first.peak_bytes, first.origin.versions) == (
        "planned",
        12 * MIB,
        {"jax": "0"},
    )
    assert plan(tmp_path) == [first]
    assert asked.read_text() == "x"
    plan(tmp_path, again=True)
    assert asked.read_text() == "xx"


def test_published_predictions_are_reused_and_never_overwritten(
    tmp_path: Path, playing: Playing, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = playing(f"print({json.dumps(ANSWER)!r})")
    plan(tmp_path)
    (published,) = (tmp_path / "planned").glob("*/*.jsonl")
    before = published.read_bytes()
    monkeypatch.setattr(store, "PUBLISHED", tmp_path)
    other = CASE.replace("b1", "b2")
    assert [p.case for p in plan(tmp_path, CASE, other)] == [CASE, other]
    assert asked.read_text() == "xx", "the published one was taken up"
    plan(tmp_path, CASE, other)
    assert asked.read_text() == "xx", "and now the own one, too"
    plan(tmp_path, CASE, again=True)
    assert published.read_bytes() == before
    assert {p.case for p in store.every(tmp_path / "own")} == {CASE, other}


def test_only_what_is_missing_is_planned(tmp_path: Path, playing: Playing) -> None:
    asked = playing(f"print({json.dumps(ANSWER)!r})")
    other = CASE.replace("fp32", "checkpoint")
    plan(tmp_path)
    assert [one.case for one in plan(tmp_path, other, CASE)] == [other, CASE]
    assert asked.read_text() == "xx"


def test_a_newer_version_of_the_planners_recomputes(
    tmp_path: Path, playing: Playing, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = playing(f"print({json.dumps(ANSWER)!r})")
    plan(tmp_path)
    monkeypatch.setattr(planners, "PLANNER_VERSION", planners.PLANNER_VERSION + 1)
    plan(tmp_path)
    assert asked.read_text() == "xx"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "sys.stderr.write('Traceback\\nRuntimeError: boom\\n'); sys.exit(3)",
            "the planner ended with 3: RuntimeError: boom",
        ),
        ('print(\'{"outcome": "planned"}\')', "the planner returned no valid prediction"),
        ("print('no JSON')", "the planner ended with 0: it said nothing"),
        ("time.sleep(60)", "planning took longer than"),
        (
            "import os; os.kill(os.getpid(), 9)",
            "the planner was killed: this machine ran out of memory",
        ),
    ],
)
def test_a_failed_prediction_is_recorded_and_retried(
    tmp_path: Path, playing: Playing, monkeypatch: pytest.MonkeyPatch, body: str, reason: str
) -> None:
    monkeypatch.setitem(process.BUDGET_S, "gpu", 1.5)
    asked = playing(body)
    (failed,) = plan(tmp_path)
    assert failed.outcome == "failed"
    assert reason in str(failed.reason)
    assert list(store.every(tmp_path)) == [failed]
    plan(tmp_path)
    assert asked.read_text() == "xx"


def test_flags_of_the_user_do_not_reach_the_planner(
    tmp_path: Path, playing: Playing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_enable_triton_gemm=false")
    playing(
        f"import json, os; print(json.dumps({ANSWER} | {{'versions': {{'flags': "
        "os.environ.get('XLA_FLAGS', 'none')}}))"
    )
    assert plan(tmp_path)[0].origin.versions == {"flags": "none"}


def test_a_refusal_is_an_answer(tmp_path: Path, playing: Playing) -> None:
    result = {
        "outcome": "refused",
        "reason": "needs 90.00 GiB at compile time, of 79.11 GiB",
        "needs_bytes": 90 * 2**30,
    }
    asked = playing(f"print({json.dumps(result)!r})")
    (refused,) = plan(tmp_path)
    assert (refused.outcome, refused.needs_bytes) == ("refused", 90 * 2**30)
    plan(tmp_path)
    assert asked.read_text() == "x"


@pytest.mark.parametrize(
    ("case", "device", "why"),
    [
        (
            "transformer/jittor/train/fp32/b4/tiny",
            "h100-80gb",
            "Jittor decides what it allocates while it runs",
        ),
        ("transformer/torch/train/fp32/b4/tiny", "tpu-v5e", "PyTorch is planned for GPUs alone"),
        ("transformer/jax/train/fused_optimizer/b4/tiny", "h100-80gb", ""),
    ],
)
def test_unpredictable_cases_have_a_reason(
    tmp_path: Path, case: str, device: str, why: str
) -> None:
    (result,) = planning.plan_all([Case.from_id(case)], find(device), tmp_path, lambda _: None)
    assert (result.outcome, result.peak_bytes) == ("not planned", None)
    assert result.reason
    assert why in result.reason


def test_selectors_name_many_cases_and_any_batch() -> None:
    ids = [
        case.id
        for case in cases_of(
            ["transformer/jax/train/{fp32,checkpoint}/b12/full", "resnet50/jax/train/fp32/*/tiny"]
        )
    ]
    assert ids[:2] == [
        "transformer/jax/train/fp32/b12/full",
        "transformer/jax/train/checkpoint/b12/full",
    ]
    assert all(name.startswith("resnet50/jax/train/fp32/b") for name in ids[2:])
    assert [
        case.ranks for case in cases_of(["transformer/jax/train/fully_sharded/b64x8/full"])
    ] == [8]
    with pytest.raises(UnknownCase, match="no strategy 'nothing'"):
        cases_of(["transformer/jax/train/nothing/b8/full"])


def test_predict_lists_each_case_and_fails_if_one_failed(tmp_path: Path, playing: Playing) -> None:
    playing(f"print({json.dumps(ANSWER)!r})")
    asked = [
        "predict",
        CASE.replace("fp32", "{fp32,no_donate}"),
        "--device",
        "h100-80gb",
        "--results",
        str(tmp_path),
    ]
    result = framebench(*asked)
    assert result.returncode == 0
    assert "12.0" in result.stdout
    assert "Not measured" in result.stdout
    assert [one["outcome"] for one in json.loads(framebench(*asked, "--json").stdout)] == [
        "planned",
        "planned",
    ]
    playing("sys.exit(1)")
    failing = framebench(
        "predict", CASE.replace("fp32", "scan"), "--device", "h100-80gb", "--results", str(tmp_path)
    )
    assert failing.returncode == 1
    assert "the planner ended with 1" in failing.stdout


def test_two_releases_are_compared_to_the_byte(
    tmp_path: Path, playing: Playing, monkeypatch: pytest.MonkeyPatch
) -> None:
    less = ANSWER | {"peak_bytes": 11 * MIB, "parts": PARTS | {"temporaries": 6 * MIB}}
    playing(f"print({json.dumps(ANSWER)!r})")
    plan(tmp_path)
    playing(f"print({json.dumps(less)!r})")
    monkeypatch.setattr(
        releases, "ensure_release", lambda framework, version, *_: environments.ensure(framework)
    )
    asked = (
        "versions",
        "compare",
        "jax==0.9.2",
        "jax==0.10.2",
        CASE,
        "--device",
        "h100-80gb",
        "--results",
        str(tmp_path),
    )
    result = framebench(*asked, "--json")
    (row,) = json.loads(result.stdout)["rows"]
    assert (row["base"], row["change"], row["verdict"]) == (11 * MIB, 12 * MIB, "regression")
    assert result.returncode == 1
    shown = framebench(*asked)
    assert "+1,048,576" in shown.stdout
    assert "not measured" in shown.stdout


def test_a_release_with_cudnn_is_not_compared_with_one_without(
    tmp_path: Path, playing: Playing, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASE.replace("/jax/", "/torch/")
    asked = (
        f"torch=={find_pinned_version('torch')}",
        case,
        "--device",
        "h100-80gb",
        "--results",
        str(tmp_path),
        "--json",
    )
    for cudnn, verdict in (({}, "no difference"), ({"cudnn": "9.20.0"}, "no plan")):
        answer = {
            "outcome": "planned",
            "peak_bytes": MIB,
            "parts": {"allocated": MIB},
            "versions": {"torch": "2"} | cudnn,
        }
        playing(f"print({json.dumps(answer)!r})")
        monkeypatch.setattr(
            releases,
            "ensure_release",
            lambda framework, version, *_: environments.ensure(framework),
        )
        (row,) = json.loads(
            framebench("versions", "compare", f"torch==2.1{len(cudnn)}", *asked).stdout
        )["rows"]
        assert row["verdict"] == verdict
    assert "cuDNN, which tells the workspaces" in row["why"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (
            ["jittor==1", "jittor==2", CASE, "--device", "h100-80gb"],
            "releases of jax and torch are planned",
        ),
        (
            ["torch==2.12.1", "torch==2.13.0", CASE, "--device", "h100-80gb"],
            "torch==2.12.1 has none of these cases",
        ),
    ],
)
def test_invalid_comparisons_of_releases_are_refused(more: list[str], why: str) -> None:
    result = framebench("versions", "compare", *more)
    assert result.returncode == 2
    assert why in result.stderr


def test_releases_without_a_compiler_for_it_have_no_plan(tmp_path: Path) -> None:
    (result,) = planning.plan_all(
        [Case.from_id(CASE)], find("tpu-v5e"), tmp_path, lambda _: None, version="0.9.2"
    )
    assert result.outcome == "failed"
    assert "releases are planned for GPUs alone: not jax 0.9.2" in str(result.reason)


def test_a_release_of_pytorch_has_an_environment_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []
    monkeypatch.setattr(environments, "built", lambda _: False)
    monkeypatch.setattr(
        releases, "build", lambda environment, where, say, also: made.append(where.name)
    )
    monkeypatch.setattr(
        environments, "build", lambda environment, where, say: made.append(where.name)
    )
    for version in ("2.11.0", "2.12.1", find_pinned_version("torch")):
        assert (
            planning.ensure_environment("torch", H100, version, lambda _: None).version == version
        )
    assert [name.partition("-py")[0] for name in made[:1]] == ["torch-2.11.0"], (
        "nothing is pinned for it"
    )
    assert [name.rpartition("-")[0] for name in made[1:]] == [
        "torch-2.12.1",
        "torch-2.13.0-torch-cudnn",
    ], "by their pinned requirements"


def test_pytorch_is_predicted_without_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    message: list[str] = []

    def ensure(framework: str, say: object, package: str = "") -> Environment:
        if package:
            raise SetupError("pip found no such release")
        return environments.describe(framework)

    monkeypatch.setattr(environments, "ensure", ensure)
    assert (
        planning.ensure_environment(
            "torch", H100, find_pinned_version("torch"), message.append
        ).package
        == ""
    )
    assert message == [
        "cuDNN cannot be had, so convolutions are planned without workspaces: pip "
        "found no such release"
    ]


def test_only_cases_of_the_releases_framework_are_planned(tmp_path: Path, playing: Playing) -> None:
    playing(f"print({json.dumps(ANSWER)!r})")
    both = "transformer/{jax,torch}/train/fp32/b1/tiny"
    result = planning.planned_for(
        [both], "h100-80gb", tmp_path, lambda _: None, f"jax=={find_pinned_version('jax')}"
    )
    assert [one.case for one in result] == [CASE]


def test_one_peak_is_explained(tmp_path: Path, playing: Playing) -> None:
    largest = [
        {
            "bytes": 7 * MIB,
            "line": "models/transformer/flax_model.py:64",
            "shape": "f32[8,12]",
            "count": 2,
        }
    ]
    playing(f"print({json.dumps(ANSWER | {'largest': largest})!r})")
    asked = ("--device", "h100-80gb", "--results", str(tmp_path))
    result = framebench("explain", CASE, *asked)
    assert result.returncode == 0
    assert "flax_model.py:64" in result.stdout
    assert "temporaries" in result.stdout
    assert (
        json.loads(framebench("explain", CASE, *asked, "--json").stdout)["largest"][0]["count"] == 2
    )
    many = framebench("explain", "transformer/jax/train/*/b4/tiny", *asked)
    assert (many.returncode, "explain is about one" in many.stderr) == (2, True)
