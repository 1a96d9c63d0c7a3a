"""Budgets of memory: the search for the largest batch, and evaluation that survives running out."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framebench.budget.max_batch.measure import (
    BatchSearch,
    conclude,
    search_largest_batch,
    select_cases,
)
from framebench.budget.max_batch.oom_recovery import Evaluation, evaluate_in
from framebench.budget.max_batch.order import Order
from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.records.search import Fit, Probe
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case, UnknownCase
from tests.processes import fake_environment, framebench, run_inside

MIB = 2**20
TRAIN = Case("transformer", "torch", "train", "fp32", 1, "tiny")
OPTIONS = Options(time_limit_s=600)


def probe_of(outcome: Callable[[int], str]) -> Callable[[int], Probe]:
    return lambda batch: Probe(batch=batch, outcome=outcome(batch), reason="planted")  # type: ignore[arg-type]


@given(st.integers(0, 5000), st.integers(1, 8), st.integers(1, 4096))
def test_the_search_finds_any_threshold(threshold: int, unit: int, most: int) -> None:
    search = BatchSearch(
        probe_of(lambda batch: "fits" if batch <= threshold else "memory"), unit, most
    ).run()
    allowed = min(threshold, most) // unit * unit
    assert search.fits == allowed
    assert search.fails == (0 if allowed == most // unit * unit else allowed + unit)
    tried = [p.batch for p in search.probes]
    assert len(tried) == len(set(tried)) <= 2 * math.log2(max(2, most / unit)) + 2
    assert all(batch % unit == 0 and batch <= most for batch in tried)


@given(
    st.dictionaries(st.integers(1, 256), st.sampled_from(["fits", "memory", "failed"])),
    st.sampled_from([1, 2, 4]),
)
def test_the_search_ends_whatever_the_probes_say(outcomes: dict[int, str], unit: int) -> None:
    """Memory may fail at 8 and suffice at 12: what is answered was seen, and what is no question of
    memory ends the search.
    """
    search = BatchSearch(probe_of(lambda batch: outcomes.get(batch, "memory")), unit, 256).run()
    assert len(search.probes) <= 20
    seen = {p.batch: p.outcome for p in search.probes}
    assert seen.get(search.fits, "fits") == "fits"
    assert seen.get(search.fails, "memory") == "memory"
    if search.stopped:
        assert search.stopped == search.probes[-1]
        assert search.stopped.outcome == "failed"
    else:
        assert "failed" not in seen.values()
        assert search.fails - search.fits == unit or (search.fails, search.fits) == (0, 256)


@pytest.mark.parametrize(("threshold", "left_open"), [(64, True), (0, False)])
def test_a_search_that_takes_too_long_says_how_far_it_came(threshold: int, left_open: bool) -> None:
    """One batch is tried in any case; where it decides, nothing was left for want of time."""
    search = BatchSearch(
        probe_of(lambda batch: "fits" if batch <= threshold else "memory"), minutes=0
    ).run()
    assert [probe.batch for probe in search.probes] == [1]
    assert search.ended_early == left_open
    told = conclude(search, None, 2**20)
    assert ("1 fits; --minutes searches longer" in told.answer) == left_open
    assert told.status == ("stopped" if left_open else "none")


PROGRAMS = Path(__file__).parent / "programs"
LIMIT = PROGRAMS / "max_batch_limit.py"


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_an_allocation_above_the_limit_raises(
    library: str, environment: dict[str, Environment]
) -> None:
    malloc = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "131072"}
    assert run_inside(environment["torch"], LIMIT, library, variables=malloc) == [
        True,
        False,
        True,
        False,
        True,
    ]


REFUSED = PROGRAMS / "max_batch_refused.py"


def test_a_kernel_s_failure_is_a_lack_of_memory_under_a_limit_only(
    environment: dict[str, Environment],
) -> None:
    """Its library says the same of shapes that it has no kernel for."""
    free, limited = [False, False, False, True, False], [True, True, True, True, False]
    assert run_inside(environment["torch"], REFUSED) == [free, limited, free]


@pytest.fixture
def unchecked(tmp_path: Path) -> Environment:
    return fake_environment("engine/unchecked.py", tmp_path)


@pytest.mark.parametrize(
    ("beyond", "status", "named"),
    [
        (
            "die",
            "found",
            "largest batch that fits: 11 (12 fails: ended by SIGSEGV during steps under the "
            "limit; it needs 12.00 MiB)",
        ),
        (
            "take it",
            "found",
            "12 fails: finished, but used 12.00 MiB by host.rss: memory beyond "
            "the budget was taken",
        ),
        ("be killed", "stopped", "stopped at batch 16: ended by SIGKILL"),
        (
            "raise",
            "stopped",
            "stopped at batch 16: ValueError during steps under the limit: planted; 8 fits",
        ),
    ],
)
def test_what_a_failing_probe_means(
    beyond: str,
    status: str,
    named: str,
    unchecked: Environment,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BEYOND", beyond)
    fit = search_largest_batch(TRAIN, int(11.5 * MIB), unchecked, results=results)
    assert fit.status == status
    assert named in fit.answer
    (path,) = (results / "fits").rglob("*.jsonl")
    assert Fit.model_validate_json(path.read_text()) == fit
    if status == "found":
        assert (fit.largest, [p.batch for p in fit.probes]) == (11, [1, 2, 4, 8, 16, 12, 10, 11])
        assert fit.confirmation
        assert (fit.confirmation.batch, fit.confirmation.peak) == (12, 12 * MIB)


def test_answers_without_a_bracket(
    unchecked: Environment, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEYOND", "die")
    tight = search_largest_batch(TRAIN, MIB // 2, unchecked, results=results)
    assert (tight.status, tight.largest) == ("none", None)
    assert "none: batch 1 needs 1.00 MiB" in tight.answer
    wide = search_largest_batch(TRAIN, 500 * MIB, unchecked, 20, results=results)
    assert (wide.status, wide.largest) == ("open", 20)
    impossible = search_largest_batch(
        Case("transformer", "torch", "train", "scan", 1, "tiny"), MIB, unchecked, results=results
    )
    assert (impossible.status, impossible.probes) == ("unsupported", [])
    assert "loops in Python" in impossible.answer


def test_batches_are_multiples_of_the_micro_batches(
    unchecked: Environment, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEYOND", "die")
    (case,) = select_cases("transformer", "torch", "train", "accumulate", "tiny")
    fit = search_largest_batch(case, int(11.5 * MIB), unchecked, results=results)
    assert (fit.largest, {p.batch % 4 for p in fit.probes}) == (8, {0})


@pytest.mark.parametrize("beyond", ["die", "die while writing"])
def test_a_new_process_goes_on_where_one_died(
    beyond: str, unchecked: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEYOND", beyond)
    case = Case("transformer", "torch", "eval", "no_grad", 32, "tiny")
    found = evaluate_in(unchecked, case, 50, 9 * MIB, OPTIONS)
    assert (len(found.losses), found.lost, found.twice, found.failure) == (50, 0, 0, "")
    assert found.losses == {i: 0.5 * i for i in range(50)}
    assert [(r.batch, r.how) for r in found.recoveries] == [
        (32, "by a new process"),
        (16, "by a new process"),
    ]
    assert found.batches == {8: 6, 2: 1}


def test_evaluation_ends_with_a_reason(
    unchecked: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case("transformer", "torch", "eval", "no_grad", 2, "tiny")
    for beyond, named in (
        ("die", "batch 1 does not fit"),
        ("raise", "ValueError"),
        ("be killed", "SIGKILL"),
    ):
        monkeypatch.setenv("BEYOND", beyond)
        found = evaluate_in(unchecked, case, 4, MIB // 2, OPTIONS)
        assert named in found.failure
        assert (found.lost, found.as_dict()["loss_mean"]) == (4, None)


def test_what_arrives_twice_is_counted() -> None:
    found = Evaluation(3)
    for first in (0, 1):
        found.add({"first": first, "batch": 2, "losses": [1.0, 2.0], "peaks": {"host.rss": 1}})
    assert (found.twice, found.lost, found.first_undone, found.total) == (1, 0, 3, 4.0)


# one sample of PyTorch's at this size and no second one, in three processes; some three samples, in
# five and more
ONE, SOME = 140 * MIB, 220 * MIB


@pytest.mark.slow
@pytest.mark.parametrize(
    ("framework", "budget"),
    [
        pytest.param("torch", ONE, id="one sample"),
        *(pytest.param(f, SOME, id=f, marks=pytest.mark.all_cases) for f in FRAMEWORKS),
    ],
)
def test_a_real_search(
    framework: str, budget: int, environment: dict[str, Environment], results: Path
) -> None:
    """The bracket holds: one fits by its measured peak, the next does not, and without a limit it
    needs more than before.
    """
    (case,) = select_cases("transformer", framework, "train", None, "cpu")
    fit = search_largest_batch(
        case, budget, environment[framework], options=OPTIONS, results=results
    )
    assert fit.status == "found", fit.answer
    outcomes = {p.batch: p for p in fit.probes}
    assert fit.largest is not None
    fits, fails = outcomes[fit.largest], outcomes[fit.largest + 1]
    assert (fits.outcome, fails.outcome) == ("fits", "memory")
    assert fits.peak is not None
    assert fits.peak <= budget
    assert fits.limited
    assert fit.confirmation
    assert fit.confirmation.needs is not None, fit.confirmation.reason
    assert fit.confirmation.needs > 0.9 * budget
    assert fit.provenance.versions[framework]


EVAL = Case("transformer", "torch", "eval", "no_grad", 512, "tiny")


@pytest.mark.slow
@pytest.mark.parametrize(
    "framework", ["torch", "jittor", pytest.param("jax", marks=pytest.mark.all_cases)]
)
def test_no_sample_is_lost(framework: str, environment: dict[str, Environment]) -> None:
    """Within a budget that the whole batch does not fit, the same losses as without one."""
    case = Case(EVAL.workload, framework, EVAL.scenario, EVAL.strategy, EVAL.batch, EVAL.size)
    free = evaluate_in(environment[framework], case, 600, None, OPTIONS)
    tight = evaluate_in(environment[framework], case, 600, 4 * MIB, OPTIONS)
    assert free.recoveries == []
    assert not free.limited
    assert (tight.failure, tight.lost, tight.twice) == ("", 0, 0)
    assert tight.limited
    assert tight.recoveries
    assert max(tight.batches) < 512
    assert tight.total / 600 == pytest.approx(free.total / 600, rel=1e-5)
    assert list(tight.losses.values()) == pytest.approx(list(free.losses.values()), rel=1e-4)


def test_mean_of_per_sample_losses_equals_batch_loss(environment: dict[str, Environment]) -> None:
    losses, batch_loss = run_inside(environment["torch"], PROGRAMS / "max_batch_samples.py")  # type: ignore[misc]
    assert len(losses) == 5
    assert sum(losses) / 5 == pytest.approx(batch_loss, rel=1e-6)


def test_the_command_for_people_and_programs(
    unchecked: Environment, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEYOND", "die")
    arguments = (
        "max-batch",
        "transformer/torch////tiny",
        "--max-batch",
        "2",
        "--env",
        str(unchecked.python),
    )
    done = framebench(*arguments, "--budget", "64MiB", "--results", str(results), "--json")
    assert done.returncode == 0, done.stderr
    (fit,) = json.loads(done.stdout)
    assert (fit["largest"], fit["status"], [p["outcome"] for p in fit["probes"]]) == (
        2,
        "open",
        ["fits", "fits"],
    )
    tight = framebench(*arguments, "--budget", "0.1MiB", "--results", str(results))
    assert tight.returncode == 0, tight.stderr
    assert "none: batch 1 needs" in tight.stdout


def test_the_evaluation_command(environment: dict[str, Environment], results: Path) -> None:
    where = ("--results", str(results))
    done = framebench(
        "evaluate", "transformer/torch///b512/tiny", *where, "--samples", "600", "--budget", "4MiB"
    )
    assert done.returncode == 0, done.stderr
    assert "samples done 600 of 600, lost 0, done twice 0" in done.stdout
    assert "in the process" in done.stdout
    # one sample's logits take 2 MiB at the size `cpu`
    tight = framebench(
        "evaluate", "transformer/torch", *where, "--samples", "2", "--budget", "1MiB", "--json"
    )
    assert tight.returncode == 1
    assert "batch 1 does not fit" in tight.stderr
    assert json.loads(tight.stdout)["done"] == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["max-batch", "resnet51", "--budget", "1GiB"], "resnet50"),
        (["max-batch", "resnet50/*/infer", "--budget", "1GiB"], "finetune"),
        (["max-batch", "resnet50/tensorflow", "--budget", "1GiB"], "jittor"),
        (["max-batch", "resnet50/*/train/magic", "--budget", "1GiB"], "checkpoint"),
        (["max-batch", "resnet50/////huge", "--budget", "1GiB"], "tiny"),
        (["max-batch", "resnet50", "--budget", "plenty"], "512MiB"),
        (["evaluate", "resnet51/torch", "--budget", "1GiB"], "transformer"),
        (["evaluate", "resnet50/tensorflow", "--budget", "1GiB"], "jax"),
    ],
)
def test_mistakes_are_answered_in_a_sentence(arguments: list[str], named: str) -> None:
    done = framebench(*arguments)
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_an_absent_environment_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty cache, and nothing to build from."""
    arguments = ("max-batch", "transformer/jittor", "--budget", "1GiB", "--results", str(tmp_path))
    monkeypatch.setenv("FRAMEBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    done = framebench(*arguments)
    assert done.returncode == 1
    assert "Debian: apt-get install g++" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_order_survives_its_command_line() -> None:
    order = Order("evaluate", EVAL.id, 5 * MIB, 64, 3)
    assert Order(**json.loads(json.dumps(order.as_dict()))) == order


def test_unknown_strategies_name_the_known() -> None:
    with pytest.raises(UnknownCase, match="no_grad"):
        select_cases("resnet50", "torch", "eval", "no_gard", "tiny")
