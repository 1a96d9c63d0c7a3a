"""The table of planted bugs fits the source, and a few of them are tried; `make mutants` tries them
all.
"""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from framebench.engine.environments import Environment
from framebench.records.provenance import ROOT
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.selectors import parse
from tests.mutants import judge, run, slot
from tests.mutants.bug import Bug, Edit, TextIsGone
from tests.mutants.outcomes import Row, read
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


def describe_misfit(bug: Bug) -> str:
    """Return why a planted bug does not fit the source or its case; empty if it does."""
    try:
        edited = bug.edited(ROOT)
    except TextIsGone as error:
        return str(error)
    for file, content in edited.items():
        if content == (ROOT / file).read_text():
            return f"{bug.name} leaves {file} as it is"
    if not bug.case.support.supported or bug.case.support.gpu:
        return f"{bug.name}: {bug.case_id} cannot run on a CPU"
    return ""


def test_planted_bugs_change_the_source_and_their_cases_exist() -> None:
    errors = [describe_misfit(bug) for bug in BUGS]

    assert BUGS
    assert not any(errors), list(filter(None, errors))


def test_bugs_have_names_of_their_own_and_cover_every_framework_scenario_and_precision() -> None:
    assert max(Counter((bug.name, bug.case_id) for bug in BUGS).values()) == 1
    assert len(BUGS) >= 80
    found = {(bug.case.framework, bug.case.scenario) for bug in BUGS}
    scenarios = ("train", "eval", "finetune", "varlen", "pair", "pipeline", "custom_op", "generate")
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


def test_the_thirds_are_all_bugs_once_and_another_number_gives_another_order() -> None:
    assert Counter(bug for third in range(3) for bug in run.chosen([], third)) == Counter(BUGS)
    assert set(run.chosen([], 4)) == set(run.chosen([], 1))
    assert run.chosen([], 4) != run.chosen([], 1)


def test_a_third_that_is_cut_off_has_of_each_framework_its_share() -> None:
    third = run.chosen([], 2)
    share = {f: sum(bug.case.framework == f for bug in third) / len(third) for f in FRAMEWORKS}
    for n in (10, 20, 40):
        found = Counter(bug.case.framework for bug in third[:n])
        assert all(abs(found[f] - share[f] * n) <= 1 for f in FRAMEWORKS), found


def test_each_case_is_tried_without_a_bug_before_the_first_of_its_bugs() -> None:
    found = run.with_controls([*BUGS, BUGS[0]])
    assert Counter(found) == Counter([*BUGS, *{run.control(bug.case_id) for bug in BUGS}])
    places = {bug: i for i, bug in enumerate(found)}
    assert all(places[run.control(bug.case_id)] < places[bug] for bug in BUGS)


def row(bug: Bug, status: str = "wrong") -> Row:
    about = {
        "bug": bug.name,
        "case": bug.case_id,
        "precision": "fp32",
        "equivalent": bug.equivalent,
        "beyond": bug.beyond,
    }
    return Row(
        **about, status=status, by="loss", margin=2.0, reason="", seconds=1.0, key=run.key(bug)
    )


def test_time_that_is_up_begins_nothing_more_and_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 1.0, 59.0, 61.0])
    monkeypatch.setattr(run.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(run, "row", lambda bug, slot: row(bug))
    found = list(run.tried([*BUGS[:5]], slots=1, minutes=1))
    assert [r.bug for r in found] == [bug.name for bug in BUGS[:2]]
    with pytest.raises(SystemExit) as ended:
        run.finish(found, untried=3)
    assert ended.value.code == 0
    assert (
        "2 bugs: 2 wrong, 0 equivalent, 0 beyond verification; 0 cases without a bug; 3 not tried"
    ) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("bug", "status"),
    [
        (BUGS[0], "ok"),
        (BUGS[0], "crashed"),
        (run.control(BUGS[0].case_id), "wrong"),
    ],
    ids=["survivor", "crash", "control that is wrong"],
)
def test_run_fails_on_survivor_crash_or_failing_control(bug: Bug, status: str) -> None:
    with pytest.raises(SystemExit) as ended:
        run.finish([row(bug, status)], untried=0)

    assert ended.value.code == 1


def test_what_crashed_is_tried_once_more_by_a_process_without_a_past(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Ended:
        def __init__(self) -> None:
            self.frameworks: list[str] = []

        def end(self, framework: str) -> None:
            self.frameworks.append(framework)

    for said, settled, ends in (
        (["crashed", "ok"], "ok", 1),
        (["crashed", "crashed", "ok"], "crashed", 1),
        (["wrong"], "wrong", 0),
    ):
        slot, statuses = Ended(), iter(said)
        monkeypatch.setattr(
            run, "row", lambda bug, slot, statuses=statuses: row(bug, next(statuses))
        )
        assert run.settled(BUGS[0], slot).status == settled  # type: ignore[arg-type]
        assert slot.frameworks == [BUGS[0].case.framework] * ends


def test_a_long_message_keeps_its_end() -> None:
    assert judge.shorten("short") == "short"
    said = judge.shorten("first " + "x" * 2000 + " the cause")
    assert said.startswith("first ")
    assert said.endswith(" the cause")
    assert len(said) < 520


def test_what_was_tried_with_the_same_sources_is_not_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "mutants.json"
    assert run.known(file, [*BUGS]) == []
    rows = [row(bug) for bug in BUGS[2::-1]]
    changed = rows[0].model_copy(update={"key": "other sources"})
    run.write(file, [*rows, changed, row(BUGS[4], "crashed")], wanted=9)
    assert run.known(file, [*BUGS]) == rows[::-1]
    assert run.known(file, [BUGS[1], BUGS[7]]) == [rows[1]]
    assert read(file).cases == 9


def failed(error: float, tolerance: float, worst: str = "fc.bias") -> dict[str, Any]:
    return {
        "count": 2,
        "failed": 1,
        "worst": worst,
        "by": "norm",
        "error": error,
        "tolerance": tolerance,
    }


VALUES = {
    "passed": True,
    "relative_error": {"loss_0": 1e-6, "grad_norm": 3e-6},
    "tolerance": {"loss_0": 4e-6, "grad_norm": 4e-6},
}


@pytest.mark.parametrize(
    ("verification", "by", "margin"),
    [
        (VALUES, "grad_norm", 0.75),
        (VALUES | {"tensors": {"gradient": failed(1e-2, 1e-3)}}, "gradient of fc.bias", 10),
        (
            VALUES | {"again": {"passed": False, "relative_error": {"loss_0": 8e-6}}},
            "loss_0 after the timed steps",
            2,
        ),
        (
            VALUES | {"again": {"tensors": {"weight": failed(6, 2)}}},
            "weight of fc.bias after the timed steps",
            3,
        ),
        (
            VALUES | {"tensors": {"weight": failed(float("nan"), 1), "buffer": failed(9, 1)}},
            "weight of fc.bias",
            None,
        ),
        (VALUES | {"relative_error": {"loss_0": None}}, "loss_0", None),
        (VALUES | {"tensors": {"weight": failed(float("inf"), 1)}}, "weight of fc.bias", None),
        (
            VALUES | {"passed": False, "reason": "the states take 8 bytes instead of 4"},
            "bytes of the optimizer's states",
            None,
        ),
        (
            VALUES
            | {"passed": False, "reason": "gradient of 3 tensors that should have none, such as a"},
            "tensors that should not exist",
            None,
        ),
        (
            VALUES | {"passed": False, "reason": "no gradient of 3 tensors, such as a"},
            "missing tensors",
            None,
        ),
        (
            VALUES | {"again": {"passed": False, "reason": "3 of 8 steps left the loss as it was"}},
            "steps that changed nothing after the timed steps",
            None,
        ),
        (
            VALUES | {"passed": False, "reason": "stray", "tensors": {"weight": failed(6, 2)}},
            "weight of fc.bias",
            3,
        ),
        (
            VALUES | {"passed": False, "reason": "golden.json has no values for x"},
            "golden.json has no values for x",
            None,
        ),
        ({}, "", None),
    ],
)
def test_the_worst_is_looked_for_everywhere(
    verification: dict[str, Any], by: str, margin: float | None
) -> None:
    found = judge.worst(verification)
    assert found[0] == by
    assert found[1] == (None if margin is None else pytest.approx(margin))


@pytest.mark.slow
def test_planted_bugs_are_wrong_and_nothing_else_is(
    environment: dict[str, Environment], tmp_path: Path
) -> None:
    bugs = [bug for bug in BUGS if bug.name in TRIED and bug.case.framework == "torch"]
    assert len(bugs) == len(TRIED)
    with slot.Slot(tmp_path) as worker:
        found = [run.row(bug, worker) for bug in run.with_controls(bugs)]
    assert [run.in_words(each) for each in found if not each.as_wanted] == []


@pytest.mark.slow
def test_a_bug_that_ends_the_worker_does_not_pass_for_wrong(
    environment: dict[str, Environment], tmp_path: Path
) -> None:
    file = "models/transformer/torch_model.py"
    case = "transformer/torch/eval/no_grad/b4/tiny"
    broken = Bug("", case, (Edit(file, "def build(", "def built("),))
    ended = Bug("", case, (Edit(file, "import torch\n", "import torch, os; os._exit(7)\n"),))
    with slot.Slot(tmp_path) as worker:
        first, second, then = (run.row(bug, worker) for bug in (broken, ended, Bug("", case, ())))
    assert (first.status, second.status, then.status) == ("crashed", "crashed", "ok")
    assert "has no attribute 'build'" in first.reason
    assert "exit code 7" in second.reason
    assert not first.model_copy(update={"bug": "broken"}).as_wanted


@pytest.mark.slow
def test_a_process_that_cannot_fork_carries_out_one_case_after_another(
    environment: dict[str, Environment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that takes too long ends with its case; the next gets another process."""
    cases = [
        run.control(f"transformer/jittor/{case}/b4/tiny")
        for case in ("train/fp32", "eval/no_grad", "varlen/raw")
    ]
    with slot.Slot(tmp_path) as worker:
        found = [run.row(case, worker) for case in cases]
        assert worker.carried_out == {"jittor": 6}, "each in float64, and in its own precision"
        first = worker.servers["jittor"]
        worker.end("jittor")
        monkeypatch.setattr(slot, "LIMIT_S", 1)  # Jittor's import takes longer
        found += [run.row(cases[0], worker)]
        monkeypatch.undo()
        found += [run.row(cases[0], worker)]
        assert worker.servers["jittor"] is not first
    assert [each.status for each in found] == ["ok", "ok", "ok", "crashed", "ok"]
    assert f"exit code {-signal.SIGALRM}" in found[3].reason


@pytest.mark.slow
def test_what_an_ended_process_leaves_behind_ends_with_it(
    environment: dict[str, Environment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a compiler that Jittor has forked: it holds the pipe open, and Jittor's lock, for which
    every other process waits.
    """
    monkeypatch.setattr(slot, "LIMIT_S", 1)
    monkeypatch.setattr(slot, "GRACE_S", 1)
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "text": True,
        "start_new_session": True,
    }
    with slot.Slot(tmp_path) as worker:
        worker.servers["jittor"] = left = subprocess.Popen(
            ["sh", "-c", "sleep 1000 & exec sleep 1000"], **pipes
        )
        case = parse("transformer/jittor/train/fp32/b4/tiny")
        module, out, log = "framebench.worker.worker", tmp_path / "out", tmp_path / "log"
        assert worker.served(case, environment["jittor"], module, {}, out, log) == -signal.SIGKILL
    assert left.stdout
    assert left.stdout.read() == "", "nobody holds the pipe"


def test_a_bug_beyond_verification_may_pass_or_be_wrong_but_not_crash() -> None:
    unseen = Bug("unseen", "transformer/torch/train/fp32/b4/tiny", (), beyond="happens once")
    outcomes = {status: row(unseen, status) for status in ("ok", "wrong", "crashed")}
    assert {status: found.as_wanted for status, found in outcomes.items()} == {
        "ok": True,
        "wrong": True,
        "crashed": False,
    }
    assert [status for status, found in outcomes.items() if found.missed] == ["ok"]
