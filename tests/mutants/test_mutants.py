"""The table of planted bugs fits the source, and a few are tried; `make mutants` tries them all."""

from __future__ import annotations

import ast
import math
from itertools import product
from typing import Any

import pytest

from framebench.engine.recording import CaseVerdict
from framebench.records.provenance import ROOT
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.result import Mathematics, RepeatedVerification, Verification
from tests.mutants import run
from tests.mutants.bug import Bug, Edit, TextIsGone, read_bugs
from tests.mutants.outcomes import Row
from tests.mutants.trial import find_largest_error, make_key

BUGS = read_bugs()
EVALUATION = "transformer/torch/eval/no_grad/b4/tiny"
TRIED = (  # scenarios and precisions of the framework that is quickest to start
    "layer norm with eps 1e-6",
    "branch detached, in bfloat16",
    "accumulation that drops the first micro-batch",
    "biases frozen with the lower half",
    "padding counted in the loss",
    "one prefetched batch in two lost",
    "the same model twice",
    "lean GELU's rule without its second term",
    "learning rate halved once verified",
)


def is_python(text: str) -> bool:
    """Return whether a text can be compiled: a replacement may not fit the indentation."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_planted_bugs_change_the_source_and_their_cases_exist(framework):
    bugs = [bug for bug in BUGS if bug.parsed.framework == framework]
    assert len(bugs) > 30
    for bug in bugs:
        for file, content in bug.edit(ROOT).items():
            assert content != (ROOT / file).read_text(), bug.name
            assert is_python(content), f"{bug.name}: {file}"
        assert bug.parsed.support.supported, bug.name
        assert not bug.parsed.support.gpu, bug.name


def test_no_bug_stands_twice():
    names = {(bug.name, bug.case) for bug in BUGS}
    assert len(names) == len(BUGS)


def test_bugs_cover_every_framework_scenario_and_precision():
    scenarios = ("train", "eval", "finetune", "varlen", "pair", "pipeline", "custom_op", "generate")
    covered = set()
    precisions = set()
    for bug in BUGS:
        case = bug.parsed
        covered.add((case.framework, case.scenario))
        precisions.add((case.framework, case.strategy_spec.precision))
    assert covered == set(product(FRAMEWORKS, scenarios))
    assert precisions >= {("torch", "bf16"), ("jax", "bf16"), ("jax", "fp16")}


@pytest.mark.parametrize(("text", "count"), [("y", 0), ("x = 1", 2)])
def test_text_that_is_gone_or_there_twice_is_named(text, count, tmp_path):
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    bug = Bug(name="lost", case="", edits=(Edit(file="a.py", text=text, replacement="z"),))
    with pytest.raises(TextIsGone, match=rf"'lost'.*a\.py has {count} places.*'{text}'"):
        bug.edit(tmp_path)


def test_each_case_is_tried_without_a_bug_first():
    first, other = BUGS[0], BUGS[-1]
    in_order = run.add_controls([first, other, first])
    controls = run.make_control(first.case), run.make_control(other.case)
    assert in_order == [controls[0], first, controls[1], other, first]


def make_row(bug: Bug, status: str = "wrong") -> Row:
    return Row(
        bug=bug.name,
        case=bug.case,
        precision="fp32",
        equivalent=bug.equivalent,
        beyond=bug.beyond,
        status=status,
        by="loss",
        margin=2.0,
        reason="",
        seconds=1.0,
        key=make_key(bug),
    )


BUG = Bug(name="a bug", case=EVALUATION)
EQUIVALENT = Bug(name="cancels", case=EVALUATION, equivalent="it cancels")
BEYOND = Bug(name="unseen", case=EVALUATION, beyond="happens once")
CONTROL = run.make_control(EVALUATION)


@pytest.mark.parametrize(
    ("bug", "statuses"),
    [
        (BUG, {"wrong"}),
        (EQUIVALENT, {"ok", "not proven"}),
        (BEYOND, {"ok", "not proven", "wrong"}),
        (CONTROL, {"ok", "not proven"}),
    ],
    ids=["bug", "equivalent", "beyond", "control"],
)
@pytest.mark.parametrize("status", ["ok", "not proven", "wrong", "crashed"])
def test_run_fails_on_survivor_crash_or_wrong_control(bug, statuses, status):
    assert run.summarize([make_row(bug, status)], untried=0) == int(status not in statuses)


def test_rows_of_the_same_sources_are_reused(tmp_path):
    first, second = make_row(BUGS[0]), make_row(BUGS[1])
    outdated = first.model_copy(update={"key": "other sources"})
    crashed = make_row(BUGS[2], "crashed")
    file = tmp_path / "mutants.json"
    run.write(file, [second, first, outdated, crashed], cases=9)
    assert run.read_known(file, BUGS) == [first, second]
    assert run.read_known(file, BUGS[1:2]) == [second]


def make_wrong(**fields: Any) -> Mathematics:
    """Return an outcome in float64 that is wrong."""
    return Mathematics("a case", computed=True, passed=False, **fields)


OFF = make_wrong(reason="off", worst="loss", error=6e-7, tolerance=1e-7)
MISSING = make_wrong(reason="no gradient of 3 tensors")


@pytest.mark.parametrize(
    ("verification", "mathematics", "expected"),
    [
        (None, OFF, ("loss in float64", 6)),  # 6e-7 / 1e-7
        (None, MISSING, ("reason", None)),
        (Verification(passed=False, margin=3.0), None, ("reason", 3)),
        (
            Verification(
                passed=True, margin=0.5, again=RepeatedVerification(passed=False, margin=2.0)
            ),
            None,
            ("reason", 2),
        ),
        (Verification(passed=False, margin=math.nan), None, ("reason", None)),
        (Verification(passed=False, margin=0.5), None, ("reason", None)),
    ],
    ids=["float64", "missing", "measured", "after the timed steps", "not a number", "no error"],
)
def test_the_largest_error_is_given_in_tolerances(verification, mathematics, expected):
    verdict = CaseVerdict("wrong", reason="reason", verification=verification)
    assert find_largest_error(verdict, mathematics) == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_planted_bugs_are_wrong_and_nothing_else_is():
    bugs = [bug for bug in BUGS if bug.name in TRIED and bug.parsed.framework == "torch"]
    assert {bug.name for bug in bugs} == set(TRIED)
    # cases without a bug: one for each case of a bug, and one in another framework
    controls = [bug for bug in run.add_controls(bugs) if bug not in bugs]
    controls.append(run.make_control("transformer/jittor/train/fp32/b4/tiny"))

    rows = list(run.try_bugs([*bugs, *controls], 2, math.inf))

    assert len(controls) > 1
    assert len(rows) == len(bugs) + len(controls)
    unexpected = [run.describe(row) for row in rows if not row.as_wanted]
    assert unexpected == []


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_a_bug_that_ends_the_worker_does_not_pass_for_wrong():
    file = "models/transformer/torch_model.py"
    end = Edit(
        file=file, text="import torch\n", replacement="import torch\nimport os\nos._exit(7)\n"
    )
    no_build = Edit(file=file, text="def build(", replacement="def built(")
    ends = Bug(name="it ends", case=EVALUATION, edits=(end,))
    breaks = Bug(name="it has no build", case=EVALUATION, edits=(no_build,))
    rows = {row.bug: row for row in run.try_bugs([ends, breaks, CONTROL], 1, math.inf)}
    assert rows[ends.name].status == rows[breaks.name].status == "crashed"
    assert "exit code 7" in rows[ends.name].reason
    assert "has no attribute 'build'" in rows[breaks.name].reason
    assert rows[CONTROL.name].status == "ok"


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_no_bug_is_begun_after_the_time_limit():
    assert len(list(run.try_bugs([CONTROL] * 20, 1, minutes=0))) == 1
