"""The table of planted bugs fits the source, and a few of them are tried; `make mutants` tries them all."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from framebench.measure.environments import Environment
from framebench.records.provenance import ROOT
from framebench.suite.strategy import FRAMEWORKS
from tests.mutants import run, slot
from tests.mutants.bug import Bug, Edit, TextIsGone
from tests.mutants.planted import BUGS

TRIED = (  # scenarios and precisions of the framework that is quickest to start
    "layer norm with eps 1e-6",
    "branch detached, in bfloat16",
    "accumulation that drops the first micro-batch",
    "biases frozen with the lower half",
    "padding counted in the loss",
    "one prefetched batch in two lost",
    "the same model twice",
    "lean GELU's rule without its second term",
)


def misplaced(bug: Bug) -> str:
    """What is wrong with a row of the table, if anything."""
    try:
        changed = all(content != (ROOT / file).read_text() for file, content in bug.edited(ROOT).items())
    except TextIsGone as error:
        return str(error)
    return "" if changed and bug.case.support.supported and not bug.case.support.gpu else f"{bug.name}: {bug.case_id}"


def test_planted_bugs_change_the_source_and_their_cases_exist() -> None:
    assert [found for bug in BUGS if (found := misplaced(bug))] == []


def test_bugs_have_names_of_their_own_and_cover_every_framework_scenario_and_precision() -> None:
    assert max(Counter((bug.name, bug.case_id) for bug in BUGS).values()) == 1
    assert len(BUGS) >= 80
    found = {(bug.case.framework, bug.case.scenario) for bug in BUGS}
    scenarios = ("train", "eval", "finetune", "varlen", "pair", "pipeline", "custom_op")
    assert found == {(framework, scenario) for framework in FRAMEWORKS for scenario in scenarios}
    assert {(bug.case.framework, bug.case.plan.precision) for bug in BUGS} >= {
        ("torch", "bf16"),
        ("jax", "bf16"),
        ("jax", "fp16"),
    }


def test_text_that_is_gone_or_there_twice_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    for text, places in (("y", 0), ("x = 1", 2)):
        with pytest.raises(TextIsGone, match=rf"'lost'.*a\.py has {places} places.*'{text}'"):
            Bug("lost", "", (Edit("a.py", text, "z"),)).edited(tmp_path)


def test_the_thirds_are_all_bugs_once() -> None:
    assert Counter(bug for third in range(3) for bug in run.chosen([], third)) == Counter(BUGS)
    assert run.chosen([], 4) == run.chosen([], 1)


@pytest.mark.slow
def test_planted_bugs_are_wrong_and_nothing_else_is(environment: dict[str, Environment], tmp_path: Path) -> None:
    bugs = [bug for bug in BUGS if bug.name in TRIED and bug.case.framework == "torch"]
    assert len(bugs) == len(TRIED)
    with slot.Slot(tmp_path) as worker:
        found = [run.line(bug, worker) for bug in run.controls(bugs) + bugs]
    assert [run.in_words(line) for line in found if not run.as_wanted(line)] == []


@pytest.mark.slow
def test_a_bug_that_ends_the_worker_does_not_pass_for_wrong(environment: dict[str, Environment], tmp_path: Path) -> None:
    file = "models/transformer/torch_model.py"
    case = "transformer/torch/eval/no_grad/b4/tiny"
    broken = Bug("", case, (Edit(file, "def build(", "def built("),))
    ended = Bug("", case, (Edit(file, "import torch\n", "import torch, os; os._exit(7)\n"),))
    with slot.Slot(tmp_path) as worker:
        first, second, then = (run.line(bug, worker) for bug in (broken, ended, Bug("", case, ())))
    assert (first["status"], second["status"], then["status"]) == ("crashed", "crashed", "ok")
    assert "has no attribute 'build'" in first["reason"]
    assert "exit code 7" in second["reason"]
    assert not run.as_wanted(first | {"bug": "broken"})
