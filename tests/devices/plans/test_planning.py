"""The parent's part, with planners that are scripts: what is reused, what is tried again, and that
no failure is lost.
"""

from __future__ import annotations

import json
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from framebench.devices.catalog import find
from framebench.devices.fit.fitting import PredictedBatchSearch
from framebench.devices.fit.rounds import run_rounds
from framebench.devices.plans import planning, process, store
from framebench.devices.plans import version as planners
from framebench.devices.plans.planned import Planned
from framebench.devices.plans.version import ANSWERED_SINCE
from framebench.devices.show import find_larger_device
from framebench.devices.simulation import cudnn
from framebench.engine import environments, releases
from framebench.engine.environments import Environment, SetupError
from framebench.records.pins import find_pinned_version
from framebench.suite.case import Case
from tests.callbacks import ignore
from tests.devices.fake_predictions import (
    CASE,
    MIB,
    PARTS,
    make_origin,
    make_planned,
    make_unplanned,
)
from tests.processes import framebench, read_json

H100 = find("h100-80gb")
CONVOLUTIONAL = "resnet50/torch/train/fp32/b1/full"
OTHER = CASE.replace("fp32", "checkpoint")
ANSWER = {"outcome": "planned", "peak_bytes": 12 * MIB, "parts": PARTS, "versions": {"jax": "0"}}
FakePlanner = Callable[[str | dict[str, Any]], Path]


@pytest.fixture
def fake_planner(tmp_path, monkeypatch) -> FakePlanner:
    """Return a function that puts a planner in the place of every framework's.

    It takes what the planner does for each case, or what it answers. It returns the file to which
    the planner adds a letter for each case.
    """

    def write_planner(body: str | dict[str, Any]) -> Path:
        planner_calls = tmp_path / "planner_calls"
        interpreter = tmp_path / "python"  # a script, which is run as the environment's Python
        if isinstance(body, dict):
            body = f"print({json.dumps(body)!r})"
        count_call = f"open({str(planner_calls)!r}, 'a').write('x')"
        lines = ["sys.argv = ['planner', *line.split()]", count_call, body, "sys.stdout.flush()"]
        answer = textwrap.indent("\n".join(lines), "    ")
        count_start = f"open({str(tmp_path / 'planner_starts')!r}, 'a').write('x')"
        interpreter.write_text(
            f"#!{sys.executable}\nimport json, os, sys, time\n{count_start}\n"
            f"for line in sys.stdin:\n{answer}\n"
        )
        interpreter.chmod(0o755)
        environment = Environment("jax", "0.10.2", interpreter)
        monkeypatch.setattr(environments, "ensure", Mock(return_value=environment))
        monkeypatch.setattr(releases, "ensure_release", Mock(return_value=environment))
        return planner_calls

    return write_planner


def plan_cases(
    tmp_path: Path, *cases: str, device: str = H100.name, **options: Any
) -> list[Planned]:
    chosen = [Case.from_id(case) for case in cases or (CASE,)]
    return planning.plan_all(chosen, find(device), tmp_path, ignore, **options)


def test_a_cached_prediction_is_reused(tmp_path, fake_planner):
    planner_calls = fake_planner(ANSWER)
    (first,) = plan_cases(tmp_path)
    assert (first.outcome, first.peak_bytes) == ("planned", 12 * MIB)
    assert first.origin.versions == {"jax": "0"}
    assert plan_cases(tmp_path) == [first]
    assert planner_calls.read_text() == "x"
    plan_cases(tmp_path, again=True)
    assert planner_calls.read_text() == "xx"


def test_a_search_over_several_rounds_starts_a_planner_once(tmp_path, fake_planner):
    planner_calls = fake_planner(ANSWER)
    run_rounds([PredictedBatchSearch(Case.from_id(CASE), H100)], H100, tmp_path)
    assert len(planner_calls.read_text()) > 1
    assert (tmp_path / "planner_starts").read_text() == "x"


def test_the_same_model_is_planned_once_whatever_its_size_is_called(tmp_path, fake_planner):
    planner_calls = fake_planner(ANSWER)
    for size in ("full", "124M", "350M", "124M-s2048"):
        (planned,) = plan_cases(tmp_path, f"transformer/jax/train/fp32/b8/{size}")
        assert planned.case == f"transformer/jax/train/fp32/b8/{size}"
    assert planner_calls.read_text() == "xxx"


def test_a_newer_planner_plans_again_only_if_its_sizes_are_others(
    tmp_path, fake_planner, monkeypatch
):
    planner_calls = fake_planner(ANSWER)
    plan_cases(tmp_path)
    monkeypatch.setattr(planners, "PLANNER_VERSION", planners.PLANNER_VERSION + 1)
    plan_cases(tmp_path)
    assert planner_calls.read_text() == "x"
    monkeypatch.setattr(planners, "SAME_SIZES_SINCE", planners.PLANNER_VERSION)
    plan_cases(tmp_path)
    assert planner_calls.read_text() == "xx"


def test_what_is_planned_now_is_said_first(tmp_path, fake_planner):
    fake_planner(ANSWER)
    said = []
    for _ in range(2):  # the second time it is cached
        planning.plan_all([Case.from_id(CASE)], H100, tmp_path, said.append)
    assert said == [f"planning {CASE} for {H100.title}: seconds to minutes"]


def test_new_plans_are_expected_to_take_as_long_as_earlier_ones(tmp_path, fake_planner):
    fake_planner(ANSWER)
    for version, wall_s in (("0.9.0", 20.0), ("0.9.1", 300.0), ("0.9.2", 400.0)):
        earlier = make_planned(framework_version=version, origin=make_origin(wall_s=wall_s))
        store.write(tmp_path, earlier, ignore)
    said = []
    cases = [Case.from_id(CASE), Case.from_id(OTHER)]

    planning.plan_all(cases, H100, tmp_path, said.append)

    (announced,) = said
    assert announced.startswith(f"planning 2 of 2 cases for {H100.title}, 2 at once: about 5 min")


@pytest.mark.parametrize("selector", ["transformer/jax/train/fp32/b8", "transformer/jax"])
def test_a_selector_without_a_size_means_that_of_a_published_model(selector):
    cases = planning.select_cases(selector)
    assert Case.from_id("transformer/jax/train/fp32/b8/full") in cases
    assert {case.size for case in cases} == {"full"}


# the reason of a refusal of version 2 that version 3 bounds
REFUSED_BY_2 = next(reason for reason, since in ANSWERED_SINCE.items() if since == 3)
REFUSED_BEFORE = {"outcome": "not planned", "reason": f"{REFUSED_BY_2}, and more"}


@pytest.mark.parametrize(
    ("refusal", "made_by", "calls"),
    [
        ({"outcome": "refused", "reason": "needs 90.00 GiB", "needs_bytes": 90 * 2**30}, 2, 1),
        ({"outcome": "not planned", "reason": "the driver decides"}, 2, 1),
        (REFUSED_BEFORE, 2, 2),
        (REFUSED_BEFORE, 3, 1),
    ],
    ids=["too large", "refused now too", "refused by an earlier version alone", "bounded now"],
)
def test_a_refusal_is_reused_unless_this_version_says_more(
    refusal, made_by, calls, tmp_path, fake_planner, monkeypatch
):
    planner_calls = fake_planner(refusal)
    with monkeypatch.context() as earlier:
        earlier.setattr(planning, "PLANNER_VERSION", made_by)
        (first,) = plan_cases(tmp_path)
    (second,) = plan_cases(tmp_path)
    for planned in (first, second):
        assert (planned.outcome, planned.reason) == (refusal["outcome"], refusal["reason"])
        assert planned.needs_bytes == refusal.get("needs_bytes")
    assert planner_calls.read_text() == "x" * calls


def test_published_predictions_are_reused_and_never_overwritten(
    tmp_path, fake_planner, monkeypatch
):
    planner_calls = fake_planner(ANSWER)
    plan_cases(tmp_path)
    (published,) = (tmp_path / "planned").glob("*/*.jsonl")
    before = published.read_bytes()
    monkeypatch.setattr(store, "PUBLISHED", tmp_path)
    for _ in range(2):
        planned = plan_cases(tmp_path, OTHER, CASE)
        assert [prediction.case for prediction in planned] == [OTHER, CASE]
    # the planner ran once for CASE, before that was published, and once for OTHER
    assert planner_calls.read_text() == "xx"
    plan_cases(tmp_path, CASE, again=True)
    assert published.read_bytes() == before
    assert {one.case for one in store.read_every(tmp_path / "own")} == {CASE, OTHER}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "sys.stderr.write('Traceback\\nRuntimeError: boom\\n'); sys.exit(3)",
            "the planner ended with 3: RuntimeError: boom",
        ),
        ({"outcome": "planned"}, "the planner returned no valid prediction"),
        ("print('no JSON')", "the planner ended with 0: it said nothing"),
        ("time.sleep(60)", "planning took longer than"),
        (
            "import os; os.kill(os.getpid(), 9)",
            "the planner was killed: this machine ran out of memory",
        ),
    ],
)
def test_a_failed_prediction_is_recorded_and_retried(
    tmp_path, fake_planner, monkeypatch, body, reason
):
    monkeypatch.setitem(process.BUDGET_S, "gpu", 1.5)
    planner_calls = fake_planner(body)
    (failed,) = plan_cases(tmp_path)
    assert failed.outcome == "failed"
    assert reason in str(failed.reason)
    assert list(store.read_every(tmp_path)) == [failed]
    plan_cases(tmp_path)
    assert planner_calls.read_text() == "xx"


def test_flags_of_the_user_do_not_reach_the_planner(tmp_path, fake_planner, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_enable_triton_gemm=false")
    fake_planner(
        "import json, os; flags = os.environ.get('XLA_FLAGS', 'none')\n"
        f"print(json.dumps({ANSWER} | {{'versions': {{'flags': flags}}}}))"
    )
    assert plan_cases(tmp_path)[0].origin.versions == {"flags": "none"}


@pytest.mark.parametrize(
    ("case", "device", "outcome", "why"),
    [
        (CASE.replace("/jax/", "/jittor/"), "h100-80gb", "not planned", "Jittor decides"),
        (CASE.replace("/jax/", "/torch/"), "tpu-v5e", "not planned", "GPUs alone"),
        (CASE.replace("fp32", "fused_optimizer"), "h100-80gb", "not planned", ""),
        (CASE, "tpu-v5e", "failed", "releases are planned for GPUs alone: not jax 0.9.2"),
    ],
)
def test_unpredictable_cases_have_a_reason(tmp_path, case, device, outcome, why):
    (planned,) = plan_cases(tmp_path, case, device=device, version="0.9.2")
    assert (planned.outcome, planned.peak_bytes) == (outcome, None)
    assert why in planned.reason


def test_predict_lists_the_other_cases_and_fails_if_one_failed(tmp_path, fake_planner):
    fake_planner(f"sys.exit(1) if {OTHER!r} in sys.argv else print(json.dumps({ANSWER}))")
    options = ("--device", "h100-80gb", "--results", tmp_path)
    framebench("predict", CASE, *options, code=0)
    arguments = ("predict", CASE.replace("fp32", "{fp32,checkpoint}"), *options)
    result = framebench(*arguments, code=1)
    assert f"not predicted: {OTHER}: the planner ended with 1" in result.stdout
    assert "Not measured" in result.stdout
    assert "12.0" in result.stdout, "the peak of ANSWER in MiB"
    predictions = read_json(*arguments)
    assert [prediction["outcome"] for prediction in predictions] == ["planned", "failed"]


def test_predict_shows_the_bounds_of_what_it_cannot_predict(tmp_path, fake_planner):
    reason, bounds = "it needs a kernel's choice", "It takes at least 1,024.0 MiB: its weights."
    fake_planner({"outcome": "not planned", "reason": reason, "notes": [bounds]})
    options = ("--device", "h100-80gb", "--results", str(tmp_path))
    result = framebench("predict", CASE, *options, code=1)
    assert result.stdout == ""
    assert result.stderr.endswith(f"not predicted: {CASE}: {reason}\n{CASE}: {bounds}\n")


def test_one_peak_is_explained(tmp_path, fake_planner):
    buffers = {"bytes": 7 * MIB, "line": "flax_model.py:64", "shape": "f32[8,12]", "count": 2}
    fake_planner(ANSWER | {"largest": [buffers]})
    options = ("--device", "h100-80gb", "--results", tmp_path)
    result = framebench("explain", CASE, *options, code=0)
    assert "flax_model.py:64" in result.stdout
    assert "temporaries" in result.stdout
    explained = read_json("explain", CASE, *options)
    assert explained["largest"] == [buffers]
    many = framebench("explain", "transformer/jax/train/*/b4/tiny", *options, code=2)
    assert "explain is about one" in many.stderr


@pytest.mark.parametrize(
    ("device", "needs_gib", "larger"),
    [
        ("rtx3090-24gb", 27, "a100-40gb"),  # the smallest GPU with as much; no TPU
        ("rtx3090-24gb", 36, "h100-80gb"),  # with the error and a context more than 39.4 GiB
        ("rtx3090-24gb", None, "a100-40gb"),  # the compiler does not tell
        ("b200", 200, None),
    ],
)
def test_a_refused_case_names_a_larger_device(device, needs_gib, larger):
    needs_bytes = needs_gib and needs_gib * 2**30
    refused = make_unplanned("refused", device=device, needs_bytes=needs_bytes)
    found = find_larger_device(find(device), refused)
    assert (found.name if found else None) == larger


def test_two_releases_are_compared_to_the_byte(tmp_path, fake_planner):
    fake_planner(ANSWER)
    plan_cases(tmp_path)
    fake_planner(ANSWER | {"peak_bytes": 11 * MIB})
    options = ("--device", "h100-80gb", "--results", tmp_path)
    arguments = ("versions", "compare", "jax==0.9.2", "jax==0.10.2", CASE, *options)
    result = framebench(*arguments, "--json")
    (row,) = json.loads(result.stdout)["rows"]
    assert (row["base"], row["change"], row["verdict"]) == (11 * MIB, 12 * MIB, "regression")
    assert result.returncode == 1


def test_only_cases_of_the_releases_framework_are_planned_for_it(tmp_path, fake_planner):
    fake_planner({"outcome": "planned", "peak_bytes": MIB, "parts": {"allocated": MIB}})
    both = CASE.replace("/jax/", "/{jax,torch}/")
    release = f"torch=={find_pinned_version('torch')}"
    (planned,) = planning.planned_for([both], "h100-80gb", tmp_path, ignore, release)
    assert planned.case == CASE.replace("/jax/", "/torch/")


@pytest.mark.parametrize(
    ("workload", "versions", "verdict"),
    [
        ("resnet50", {}, "no difference"),
        ("resnet50", {"cudnn": "9.20.0"}, "no plan"),
        ("transformer", {"cudnn": "9.20.0"}, "no difference"),  # it has no convolutions
    ],
)
def test_plans_with_workspaces_of_cudnn_are_not_compared_with_plans_without(
    tmp_path, fake_planner, workload, versions, verdict
):
    plain = {"outcome": "planned", "peak_bytes": MIB, "parts": {"allocated": MIB}}
    pinned = find_pinned_version("torch")
    case = CASE.replace("/jax/", "/torch/").replace("transformer", workload)
    # the pinned release is planned and cached without cuDNN; 2.11 is planned after it, with it
    fake_planner(plain)
    planning.planned_for([case], "h100-80gb", tmp_path, ignore, f"torch=={pinned}")
    fake_planner(plain | {"versions": versions})
    options = ("--device", "h100-80gb", "--results", tmp_path, "--json")
    result = framebench("versions", "compare", "torch==2.11", f"torch=={pinned}", case, *options)
    (row,) = json.loads(result.stdout)["rows"]
    assert row["verdict"] == verdict


@pytest.mark.parametrize(
    ("cases", "is_built", "package"),
    [
        (["transformer/torch/train/fp32/b1/full"], False, ""),
        (["transformer/torch/train/fp32/b1/full"], True, process.WITH_CUDNN),
        (["transformer/torch/train/fp32/b1/full", CONVOLUTIONAL], False, process.WITH_CUDNN),
    ],
    ids=["none", "none, but cuDNN is there", "one of two"],
)
def test_cudnn_is_installed_for_convolutions_alone(cases, is_built, package, monkeypatch):
    def ensure(framework, say, package=""):
        return environments.describe(framework, package=package)

    monkeypatch.setattr(environments, "ensure", ensure)
    monkeypatch.setattr(environments, "is_built", Mock(return_value=is_built))
    monkeypatch.delenv(cudnn.FOLDER_VARIABLE, raising=False)
    ready = planning.ensure_environments(map(Case.from_id, cases), H100, None, ignore)
    assert ready["torch"].package == package


def test_pytorch_is_predicted_without_cudnn(monkeypatch):
    messages = []

    def ensure(framework, say, package=""):
        if package:
            raise SetupError("pip found no such release")
        return environments.describe(framework)

    monkeypatch.setattr(environments, "ensure", ensure)
    pinned = find_pinned_version("torch")
    assert planning.ensure_environment("torch", H100, pinned, messages.append).package == ""
    (message,) = messages
    assert "planned without workspaces: pip found no such release" in message


@pytest.mark.parametrize("case", [CASE, CASE.replace("/jax/", "/torch/")])
@pytest.mark.parametrize("delay_s", [0.0, 1.0], ids=["at work", "about to start"])
def test_an_interrupt_ends_planners_also_those_that_are_about_to_start(
    case, delay_s, tmp_path, fake_planner, monkeypatch
):
    """The process can end no sooner than its threads, which wait for their planners."""
    planner_calls = fake_planner("time.sleep(600)")
    list_variables = process.list_variables

    def list_variables_late(environment: Environment) -> dict[str, str]:
        time.sleep(delay_s)
        return list_variables(environment)

    def interrupt(plans: Iterable[object]) -> Iterator[object]:
        while not delay_s and not planner_calls.exists():
            time.sleep(0.01)
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(process, "list_variables", list_variables_late)
    monkeypatch.setattr(planning, "as_completed", interrupt)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        plan_cases(tmp_path, case)
    assert time.monotonic() - began < 120
