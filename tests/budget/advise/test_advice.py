"""Advice: what is offered fits, nothing faster that fits is left out, and the answer says how sure
it is.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from framebench.analysis.blocks import Blocks
from framebench.analysis.frames import Row
from framebench.analysis.lower_bound import compute_lower_bound
from framebench.analysis.needs import MARGIN, NOT_IN_BUDGET
from framebench.analysis.peaks import read_evidence
from framebench.analysis.rendering import choose_columns
from framebench.analysis.searches import Searches
from framebench.budget.advise import show
from framebench.budget.advise.advice import BudgetAdvice, Candidate, Question, advise, find_change
from framebench.models import spec
from framebench.records.record import Record
from framebench.records.search import Probe
from framebench.strategies.registry import find_strategy
from framebench.suite.case import Case
from framebench.suite.protocol import VERSION
from framebench.suite.result import StrategyEffect, Verification
from tests.advice_records import (
    FITS_A_MIB,
    MIB,
    PASSED,
    QUESTION,
    STRATEGIES,
    any_records,
    ask_advice,
    make_record,
    make_rows,
    measure_batches,
)
from tests.fake_records import make_blocks, repeat_in_blocks
from tests.sample_records import MACHINE, RESULTS
from tests.search_records import make_search

BUDGETS = st.integers(0, 12 * MIB)


def list_fitting_strategies(advice: BudgetAdvice) -> list[str]:
    return [candidate.case.strategy for candidate in advice.fitting]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_records, BUDGETS, st.sampled_from([None, 4, 8, 12]))
def test_offers_fit_fastest_first_and_no_row_that_fits_is_left_out(records, budget, batch):
    advice = ask_advice(records, budget=budget, batch=batch)

    for candidate in advice.candidates:
        assert candidate.fits == (candidate.peak.needs <= budget)
        assert not find_strategy("train", candidate.case.strategy).only_for_claims

    speeds = [candidate.throughput for candidate in advice.fitting]
    assert speeds == sorted(speeds, reverse=True)

    for candidate in advice.candidates:
        assert candidate.speed is None or candidate.speed.batch <= candidate.case.batch

    for candidate in advice.fitting:
        assert candidate.case.same_mathematics
    for candidate in advice.different_result:
        assert not candidate.case.same_mathematics

    offered = set()
    for candidate in advice.fitting + advice.different_result:
        offered.add((candidate.case.id, candidate.peak.value, candidate.throughput))
    for row in make_rows(records):
        needs = math.ceil((row.step_bytes or 0) * MARGIN)
        if row.batch == batch and needs <= budget and not row.only_for_claims:
            assert (row.case, row.step_bytes, row.throughput) in offered


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_records, BUDGETS, BUDGETS, st.sampled_from([None, 4, 8, 16]))
def test_a_larger_budget_never_has_smaller_batches_or_a_slower_best(records, budget, more, batch):
    small_budget = ask_advice(records, budget=budget, batch=batch).fitting
    large_budget = ask_advice(records, budget=budget + more, batch=batch).fitting

    batches = {candidate.name: candidate.case.batch for candidate in large_budget}
    for candidate in small_budget:
        assert batches[candidate.name] >= candidate.case.batch
    if small_budget:
        assert large_budget[0].throughput >= small_budget[0].throughput


WRONG = Verification(passed=False, reason="loss_0 is off", relative_error={"loss_0": 0.5})
IDLE = StrategyEffect(proven=False, evidence={"executions": 2})
GPU = {"device": "NVIDIA H100"}
OOM = {"status": "oom", "reason": "memory ran out", "peaks": {}, "step_s": []}
UNCALIBRATED = {"calibration": None}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (OOM, "oom: memory ran out"),
        ({"verification": WRONG}, "not verified"),
        ({"effect": IDLE}, "effect was not confirmed"),
        ({"peaks": {}}, "no peak"),
    ],
)
def test_cases_without_a_verified_and_proven_peak_are_not_offered(changes, why):
    advice = ask_advice(
        [
            make_record("torch", "fp32"),
            make_record("torch", "checkpoint", peak=50, step=0.1, **changes),
        ]
    )

    assert [candidate.case.strategy for candidate in advice.candidates] == ["fp32"]
    case = "transformer/torch/train/checkpoint/b4/tiny"
    notes = show.list_notes(advice, changes=[], show_all=True)
    (note,) = [note for note in notes if note.startswith("no advice")]
    assert note.startswith(f"no advice: {case}: ")
    assert why in note


@pytest.mark.parametrize("older", [{"versions": {"torch": "0"}}, {"protocol": VERSION - 1}])
def test_records_of_an_older_version_or_protocol_are_not_ranked_with_newer_ones(older):
    origin = {"measured_at": "2025-01-01T00:00:00Z"} | older
    records = [
        make_record("torch", "fp32"),
        make_record("torch", "accumulate", peak=50, step=0.1, origin=origin),
    ]
    assert list_fitting_strategies(ask_advice(records)) == ["fp32"]


def make_choice_of_changes() -> list[Record]:
    """Return records of PyTorch's baseline, which does not fit 1 MiB, and of three cases that do.

    Within PyTorch checkpoint costs least time. JAX's baseline is faster.
    """
    cases = [
        make_record("torch", "fp32", peak=3 * MIB),
        make_record("torch", "checkpoint", peak=FITS_A_MIB, step=1.25),
        make_record("torch", "accumulate", peak=FITS_A_MIB, step=2.0),
        make_record("jax", "fp32", peak=MIB // 4, step=0.1),
    ]
    return list(repeat_in_blocks(cases))


def test_the_cheapest_change_is_that_of_the_same_framework_that_costs_least_speed():
    records = make_choice_of_changes()
    change = find_change(ask_advice(records), "torch", "fp32", Blocks(records))
    assert change
    text = show.describe_change(change, MIB)
    assert "does not fit 1.0 MiB: the cheapest change is to torch checkpoint" in text
    assert "1.25 (1.25 to 1.25) x its step time (in the same blocks)" in text


def test_there_is_no_change_of_a_strategy_without_records():
    records = make_choice_of_changes()
    assert find_change(ask_advice(records), "jittor", "fp32", Blocks(records)) is None


def test_the_cheapest_change_is_to_another_framework_if_nothing_fits_in_the_same():
    records = make_choice_of_changes()
    budget = MIB // 2  # only JAX's baseline fits it
    advice = ask_advice(records, budget=budget)
    change = find_change(advice, "torch", "fp32", Blocks(records))
    assert change.to.case.framework == "jax"
    assert "in its own framework nothing fits" in show.describe_change(change, budget)


def test_the_cheapest_change_says_if_no_block_has_both_cases():
    no_blocks = Blocks([])
    change = find_change(ask_advice(make_choice_of_changes()), "torch", "fp32", no_blocks)
    assert change
    assert "at a speed that shares no block with it" in show.describe_change(change, MIB)


def test_strategies_are_ranked_by_times_of_shared_blocks():
    """Throughputs would rank wrongly: at night the machine is half as fast as at noon."""
    base = Case.from_id("transformer/torch/train/fp32/b4/tiny")
    accumulate = replace(base, strategy="accumulate")
    checkpoint = replace(base, strategy="checkpoint")
    # seconds of a step in three blocks: 1.2 times the baseline's at noon, 1.1 times at night
    noon = [(base, [[1.0], [1.01], [1.0]]), (accumulate, [[1.2], [1.212], [1.2]])]
    night = [(base, [[2.0], [2.01], [2.0]]), (checkpoint, [[2.2], [2.21], [2.2]])]
    peaks = [MIB // 2, MIB // 4]
    records = make_blocks(noon, peaks=peaks, calibration=PASSED)
    records += make_blocks(night, peaks=peaks, calibration=PASSED, name="night")

    advice = ask_advice(records)

    assert list_fitting_strategies(advice) == ["fp32", "checkpoint", "accumulate"]
    (table,) = show.make_tables(advice)
    ratios = [text.split()[0] for text in table.texts["torch_ratio"]]
    assert ratios == ["1.00", "1.10", "1.20"]
    _, at_night, at_noon = advice.fitting
    assert at_night.throughput < at_noon.throughput
    assert show.BY_RATIO in table.caption, "the caption says why throughputs do not fall"


@pytest.mark.parametrize(("batch", "is_of_another_batch"), [(4, False), (None, True)])
def test_a_speed_of_another_batch_names_that_batch_in_its_cell(batch, is_of_another_batch):
    """Without a batch, the largest that fits is predicted, and only measured batches are timed."""
    records = measure_batches(2, 4, 8)
    advice = ask_advice(records, budget=18 * MIB, batch=batch)
    (candidate,) = advice.fitting
    assert (candidate.case.batch != candidate.speed.batch) == is_of_another_batch
    (table,) = show.make_tables(advice)
    for name in ("rate", "torch_ratio"):
        (cell,) = table.texts[name]
        assert cell.endswith(f" at b{candidate.speed.batch}") == is_of_another_batch
    assert {"rate", "torch_ratio"} <= set(choose_columns(table, 100))


def make_fast_baseline_that_fits_below_its_timed_batch() -> list[Record]:
    """Return a baseline that needs 1 MiB per sample, and a slower strategy that needs half.

    Batch 4 is the smallest of both that was timed.
    """
    records = []
    for batch in (4, 8, 16):
        records.append(make_record("torch", "fp32", batch=batch, peak=batch * MIB))
        slow = make_record("torch", "checkpoint", batch=batch, peak=batch * MIB // 2, step=1.5)
        records.append(slow)
    return records


@pytest.mark.parametrize("batch", [None, 2])
def test_the_speed_of_a_larger_batch_is_not_used_for_a_smaller_one(batch):
    """With fewer samples a kernel may take another path, which is several times slower. In this
    budget the baseline fits at batch 3.
    """
    records = make_fast_baseline_that_fits_below_its_timed_batch()
    advice = ask_advice(records, budget=int(3.2 * MIB), batch=batch)
    throughputs = {candidate.case.strategy: candidate.throughput for candidate in advice.fitting}
    assert throughputs["fp32"] == 0, "it counts as not timed"
    (table,) = show.make_tables(advice)
    cells = dict(zip(table.texts["strategy"], table.texts["rate"], strict=True))
    assert cells["fp32"] == f"not timed at b{batch or 3}"
    assert any("smallest batch that was timed is b4" in note for note in table.notes)

    answer = show.describe_answer(advice)
    if batch is None:
        assert "torch checkpoint is the only one that fits and was timed" in answer
    else:
        assert "fastest" not in answer
        assert "its speed is not known below batch 4" in answer


def make_unet_records(*batches: int) -> list[Record]:
    """Return records of a U-Net that needs 1 MiB and 1 MiB more for each sample."""
    records = []
    for record in measure_batches(*batches):
        case = f"unet3d/torch/train/fp32/b{record.parsed.batch}/tiny"
        records.append(record.model_copy(update={"case": case}))
    return records


def ask_about_unet(records: list[Record], batch: int | None) -> BudgetAdvice:
    return ask_advice(records, workload="unet3d", budget=2 * MIB, batch=batch)


def test_a_batch_of_one_sample_is_not_predicted_from_larger_batches_of_convolutions():
    """Convolutions may take another path for a single sample."""
    advice = ask_about_unet(make_unet_records(2, 4), batch=1)
    assert advice.candidates == []
    (why,) = advice.left_out.values()
    assert "--max-batch 1 runs it" in why
    answer = show.describe_answer(advice)
    assert answer.count("unet3d/torch/train/fp32/b1/tiny") == 1
    assert answer.endswith("--max-batch 1 runs it")


def test_one_sample_may_fit_if_no_measured_batch_of_convolutions_does():
    advice = ask_about_unet(make_unet_records(2, 4), batch=None)
    (candidate,) = advice.unsearched
    assert candidate.case.batch == 2
    assert candidate.unknown_batch == 1
    assert "torch fp32 may at batch 1" in show.describe_answer(advice)


def test_one_sample_does_not_fit_if_two_take_more_than_twice_the_budget():
    """Weights are in both, so that one sample takes more than half of what two take."""
    records = [
        record.model_copy(update={"peaks": {name: 5 * size for name, size in record.peaks.items()}})
        for record in make_unet_records(2, 4)
    ]
    advice = ask_about_unet(records, batch=None)
    assert advice.unsearched == []
    (candidate,) = advice.too_large
    assert candidate.unknown_batch == 0


def test_those_that_may_fit_are_counted_by_framework():
    records = make_unet_records(2, 4)
    fits = records[0].model_copy(update={"case": "unet3d/jax/train/fp32/b2/tiny"})
    others = []
    for record in records:
        case = f"unet3d/torch/train/checkpoint/b{record.parsed.batch}/tiny"
        others.append(record.model_copy(update={"case": case}))
    small = fits.model_copy(update={"peaks": dict.fromkeys(fits.peaks, MIB)})
    advice = ask_about_unet([*records, *others, small], batch=None)
    assert "2 others may fit: no search has tried them (2 torch)" in show.describe_answer(advice)


def test_a_measured_batch_of_one_sample_is_known():
    advice = ask_about_unet(make_unet_records(1, 2, 4), batch=None)
    (candidate,) = advice.fitting + advice.too_large
    assert candidate.case.batch == 1
    assert candidate.unknown_batch == 0  # none


def make_searches_of_the_baseline(kept: int) -> Searches:
    """Return searches that only tell how many bytes the baseline's process keeps.

    They are of another version, so their limits do not count.
    """
    case = Case.from_id("transformer/torch/train/fp32/b4/tiny")
    return Searches([make_search(case=case, kept=kept, versions={"torch": "0"})])


def test_a_strategy_may_fit_if_only_what_the_baseline_keeps_makes_it_too_large():
    """The peak of checkpoint fits. What it keeps was not measured, and with what the baseline keeps
    it would not fit: so it may fit, and a search can tell.
    """
    records = [
        make_record("torch", "fp32", peak=MIB),
        make_record("torch", "checkpoint", peak=MIB // 2),
        make_record("torch", "accumulate", peak=5 * MIB),
    ]
    searches = make_searches_of_the_baseline(kept=3 * MIB)

    advice = advise([make_rows(records)], replace(QUESTION, budget=2 * MIB), searches)

    (candidate,) = advice.unsearched
    assert candidate.case.strategy == "checkpoint"
    too_large = [candidate.case.strategy for candidate in advice.too_large]
    assert too_large == ["fp32", "accumulate"]
    assert advice.fitting == []
    answer = show.describe_answer(advice, " --budget 2MiB")
    assert "nothing is known to fit 2.0 MiB. torch checkpoint may at batch 4" in answer
    command = "framebench max-batch 'transformer/torch/train/checkpoint/tiny' --budget 2MiB"
    assert f"`{command} --max-batch 4` tells" in answer
    (table,) = show.make_tables(advice)
    assert table.texts["needs_bytes"] == ["up to 3.7"]
    assert "up to: no search" in table.caption


@pytest.fixture
def searched_baseline() -> BudgetAdvice:
    """Return advice on fp32, of which a search knows that 1 MiB is kept, and checkpoint.

    Both have a peak of 1 MiB, so that with a margin of 5 % they need 1.05 x 2 MiB: 2.2 rounded up.
    """
    records = [make_record("torch", name, peak=MIB) for name in ("fp32", "checkpoint")]
    searches = make_searches_of_the_baseline(kept=MIB)
    return advise([make_rows(records)], replace(QUESTION, budget=4 * MIB), searches)


def test_needs_by_what_the_baseline_keeps_are_shown_as_an_upper_bound(searched_baseline):
    (table,) = show.make_tables(searched_baseline)
    needs = dict(zip(table.texts["strategy"], table.texts["needs_bytes"], strict=True))
    assert needs == {"fp32": "2.2", "checkpoint": "up to 2.2"}


def test_json_has_the_least_that_an_unsearched_strategy_may_need(searched_baseline):
    """Checkpoint may keep nothing next to its peak."""
    offers = {}
    for offer in show.make_json(searched_baseline, changes=[])["fitting"]:
        offers[offer["strategy"]] = offer
    assert offers["fp32"]["least_needs_bytes"] == offers["fp32"]["needs_bytes"]
    assert offers["checkpoint"]["least_needs_bytes"] == pytest.approx(1.05 * MIB, rel=1e-6)


@pytest.mark.parametrize(("step_s", "is_faster"), [(0.5, True), (2.0, False)])
def test_a_strategy_that_may_fit_is_named_in_the_answer_only_if_it_is_faster(step_s, is_faster):
    """The needs of accumulate rest on what the baseline keeps: they are 3.2 to 4.2 MiB."""
    records = [
        make_record("torch", "fp32", peak=MIB),
        make_record("torch", "accumulate", peak=3 * MIB, step=step_s),
    ]
    searches = make_searches_of_the_baseline(kept=MIB)

    advice = advise([make_rows(records)], replace(QUESTION, budget=4 * MIB), searches)

    answer = show.describe_answer(advice, " --budget 4MiB")
    assert "1 other may fit: no search has tried them" in answer
    command = "framebench max-batch 'transformer/torch/train/accumulate/tiny' --budget 4MiB"
    is_named = (
        "If torch accumulate does, it is faster" in answer
        and f"`{command} --max-batch 4` tells" in answer
    )
    assert is_named == is_faster


def test_the_speed_of_the_next_smaller_timed_batch_is_used():
    records = [
        make_record("torch", "fp32", batch=4, step=1.0),
        make_record("torch", "fp32", batch=8, step=1.0),
    ]
    (at_7,) = ask_advice(records, budget=MIB, batch=7).fitting
    (at_12,) = ask_advice(records, budget=MIB, batch=12).fitting
    assert at_7.speed.batch == 4
    assert at_12.speed.batch == 8


def test_a_peak_of_another_machine_than_the_speeds_says_so_in_its_cell():
    """`here` timed too few strategies, so the speeds are those of `elsewhere`. The peak of fp32 is
    still that of `here`.
    """
    here = [make_record("torch", "fp32", machine="here")]
    elsewhere = []
    for name in ("fp32", "checkpoint", "amp_bf16"):
        elsewhere.append(make_record("torch", name, machine="elsewhere"))

    advice = advise([make_rows(here), make_rows(elsewhere)], QUESTION)

    assert advice.machine == "elsewhere"
    (table,) = show.make_tables(advice)
    peaks = dict(zip(table.texts["strategy"], table.texts["peak"], strict=True))
    assert peaks.pop("fp32").endswith(" on here")
    assert len(peaks) == 2
    assert not any(" on " in peak for peak in peaks.values())
    assert "unless a row names another machine" in table.caption


@pytest.mark.parametrize("budget", [MIB, 500], ids=["fits", "does not fit"])
@pytest.mark.parametrize(
    ("hardware", "peaks", "is_noted"),
    [
        ({"device": "cpu"}, {"host.rss": 1000}, True),
        (GPU, {"allocator.in_use": 400, "device.process": 450}, False),
    ],
    ids=["CPU", "GPU"],
)
def test_what_a_budget_does_not_include_is_noted_on_a_cpu(hardware, peaks, is_noted, budget):
    """On a GPU the needs include all that the process holds there."""
    origin = {"hardware": {"cpu": "x", **hardware}}
    measured = make_record("torch", "fp32", origin=origin, peaks=peaks)
    notes = show.list_notes(ask_advice([measured], budget=budget), changes=[])
    assert (NOT_IN_BUDGET in notes) == is_noted


def test_a_case_whose_process_on_a_gpu_was_not_measured_is_not_offered():
    """Next to small tensors the context of the driver takes most of the memory."""
    origin = {"hardware": {"cpu": "x", **GPU}}
    whole = {"allocator.in_use": 400, "device.process": 450}
    tensors = {"allocator.in_use": 100}
    advice = ask_advice(
        [
            make_record("torch", "fp32", origin=origin, peaks=whole),
            make_record("torch", "checkpoint", origin=origin, peaks=tensors),
        ]
    )
    assert list_fitting_strategies(advice) == ["fp32"]
    (why,) = advice.left_out.values()
    assert "not what its process takes" in why


OPTIONS = " --budget 30MiB --results mine"


@pytest.mark.parametrize("batch", [None, 12])
def test_the_search_that_an_answer_suggests_repeats_the_options(batch):
    advice = ask_advice(measure_batches(4, 8), budget=30 * MIB, batch=batch)
    answer = show.describe_answer(advice, OPTIONS)
    assert f"`framebench max-batch 'transformer/torch/train/fp32/tiny'{OPTIONS}`" in answer


def test_the_search_that_a_note_suggests_repeats_the_options():
    advice = ask_advice(measure_batches(4, 8), budget=30 * MIB)
    notes = show.list_notes(advice, changes=[], options=OPTIONS)
    (note,) = [note for note in notes if "never measured" in note]
    assert f"`framebench max-batch 'transformer/torch/train/*/*/tiny'{OPTIONS}`" in note


def test_a_batch_near_the_measured_ones_is_predicted_without_a_condition():
    """Twice the measured batch 8 needs 1.05 x 17 MiB."""
    advice = ask_advice(measure_batches(2, 4, 8), budget=18 * MIB, batch=None)
    (candidate,) = advice.fitting
    assert candidate.case.batch == 16
    assert not candidate.is_far
    assert "predicted to fit at batch 16 (needs" in show.describe_answer(advice)
    (table,) = show.make_tables(advice)
    assert table.texts["batch"] == ["16"]
    assert not any(show.NOT_STUDIED in note for note in table.notes)


def test_the_peak_is_the_resident_memory_and_not_the_frameworks_count():
    peaks = {"host.rss": 2000, "compiler.plan": 1000}
    (candidate,) = ask_advice([make_record("jax", "fp32", peaks=peaks)]).candidates
    assert candidate.peak.value == 2000


def test_speeds_without_calibration_are_marked_and_come_last():
    slow = [
        make_record("torch", "fp32", peak=1000, step=2.0),
        make_record("torch", "amp_bf16", peak=1000),
    ]
    fast = make_record("torch", "checkpoint", peak=1000, step=0.1, origin=UNCALIBRATED)

    advice = ask_advice([*slow, fast])

    assert list_fitting_strategies(advice) == ["amp_bf16", "fp32", "checkpoint"]
    (table,) = show.make_tables(advice)
    throughput = table.head.index("throughput")
    calibrated, also_calibrated, marked = (row[throughput] for row in table.rows)
    assert "not calibrated" not in calibrated + also_calibrated
    assert "not calibrated" in marked


def test_no_strategy_is_fastest_by_a_speed_without_calibration():
    fast = make_record("torch", "checkpoint", peak=1000, step=0.1, origin=UNCALIBRATED)
    assert "is fastest" not in show.describe_answer(ask_advice([fast]))


@pytest.mark.parametrize(("timed_here", "best"), [(3, "checkpoint"), (2, "fp32")])
def test_speeds_of_the_first_machine_count_if_it_timed_enough(timed_here, best):
    """`here` ranks checkpoint first, and `elsewhere` fp32. Three timed strategies are enough."""
    names = ("fp32", "checkpoint", "amp_bf16", "accumulate")
    here = []
    for name, step_s in zip(names[:timed_here], (2.0, 1.0, 3.0)):
        here.append(make_record("torch", name, step=step_s, machine="here"))
    elsewhere = []
    for name, step_s in zip(names, (1.0, 2.0, 3.0, 4.0)):
        elsewhere.append(make_record("torch", name, step=step_s, machine="elsewhere"))
    advice = advise([make_rows(here), make_rows(elsewhere)], QUESTION)
    assert advice.fitting[0].case.strategy == best


def test_what_is_fastest_on_the_first_machine_is_said_if_another_one_ranks():
    """On `here` checkpoint is fastest, on `elsewhere`, which timed more, fp32."""
    here = []
    for name, step_s in (("fp32", 2.0), ("checkpoint", 1.0)):
        here.append(make_record("torch", name, step=step_s, machine="here"))
    elsewhere = []
    for name, step_s in (("fp32", 1.0), ("checkpoint", 2.0), ("amp_bf16", 3.0)):
        elsewhere.append(make_record("torch", name, step=step_s, machine="elsewhere"))
    answer = show.describe_answer(advise([make_rows(here), make_rows(elsewhere)], QUESTION))
    assert "by elsewhere: torch fp32 is fastest" in answer
    assert "here timed fewer strategies: there torch checkpoint is fastest" in answer
    alone = advise([make_rows(elsewhere)], QUESTION)
    assert "timed fewer" not in show.describe_answer(alone)


def test_a_question_about_one_framework_uses_the_machine_of_a_question_about_all():
    """`here` timed three strategies, of which two are PyTorch's: enough for both questions. If two
    questions took speeds of two machines, their answers could contradict each other.
    """
    here = [
        make_record("torch", "fp32", step=2.0, machine="here"),
        make_record("torch", "checkpoint", step=1.0, machine="here"),
        make_record("jax", "fp32", machine="here"),
    ]
    elsewhere = []
    for name, step_s in (("fp32", 1.0), ("checkpoint", 2.0), ("amp_bf16", 3.0)):
        elsewhere.append(make_record("torch", name, step=step_s, machine="elsewhere"))
    rows = [make_rows(here), make_rows(elsewhere)]
    for frameworks in (QUESTION.frameworks, ("torch",)):
        advice = advise(rows, replace(QUESTION, frameworks=frameworks))
        assert advice.machine == "here"


def test_frameworks_are_ranked_by_a_machine_that_timed_all_of_them():
    """`here` timed strategies of PyTorch alone."""
    here = []
    elsewhere = [make_record("jax", "fp32", machine="elsewhere")]
    for strategy in ("fp32", "checkpoint", "amp_bf16"):
        here.append(make_record("torch", strategy, machine="here"))
        elsewhere.append(make_record("torch", strategy, machine="elsewhere"))
    rows = [make_rows(here), make_rows(elsewhere)]
    of_all = advise(rows, QUESTION)
    assert of_all.machine == "elsewhere"
    assert all(candidate.throughput for candidate in of_all.fitting)
    assert advise(rows, replace(QUESTION, frameworks=("torch",))).machine == "here"


def test_a_line_goes_through_all_peaks_of_one_machine():
    """Both measured batch 4. The line goes through that of `elsewhere`, which has more batches."""
    here = [make_record("torch", "fp32", machine="here")]
    elsewhere = []
    for batch, peak in ((4, 400), (8, 800), (16, 1700)):
        elsewhere.append(make_record("torch", "fp32", batch=batch, peak=peak, machine="elsewhere"))
    question = replace(QUESTION, batch=32)
    (by_one_machine,) = advise([make_rows(elsewhere)], question).candidates
    (by_both,) = advise([make_rows(here), make_rows(elsewhere)], question).candidates
    assert by_both.peak == by_one_machine.peak
    assert by_both.peak.method == "line through batches 4, 8, 16"


@pytest.mark.parametrize("machines", [("here", "elsewhere"), ("elsewhere", "here")])
def test_of_machines_that_measured_the_same_cases_the_first_is_used(machines):
    rows = []
    for machine in machines:
        records = [make_record("torch", "fp32", batch=batch, machine=machine) for batch in (4, 8)]
        rows.append(make_rows(records))
    (candidate,) = advise(rows, replace(QUESTION, batch=None)).candidates
    assert candidate.evidence.machine == machines[0]


def test_strategies_that_change_the_mathematics_are_listed_apart():
    base = make_record("torch", "fp32", peak=200)
    records = [
        base.model_copy(update={"case": f"resnet50/torch/finetune/{strategy}/b4/tiny"})
        for strategy in ("half", "head")
    ]
    advice = ask_advice(records, workload="resnet50", scenario="finetune")
    assert list_fitting_strategies(advice) == ["half"]
    _, apart = show.make_tables(advice, show_all=True)
    assert "another model" in apart.title
    assert "the last layer alone trained" in apart.markdown()


def test_if_nothing_fits_the_closest_candidate_is_named():
    records = [
        make_record("torch", "fp32", batch=4, peak=5 * MIB),
        make_record("torch", "fp32", batch=8, peak=9 * MIB),
    ]
    advice = ask_advice(records, budget=int(3.5 * MIB))
    answer = show.describe_answer(advice)
    assert answer.startswith("nothing fits. Closest: torch fp32 at batch 4 (needs 5.3 MiB)")


@pytest.mark.parametrize(
    ("strategy", "batches", "budget", "largest", "kind"),
    [
        ("fp32", (2, 4, 8), 100 * MIB, 94, "predicted"),  # needs 1.05 x 95 MiB
        # a line through two batches has a range, whose upper end must fit
        ("fp32", (4, 8), 100 * MIB, 77, "predicted"),
        ("fp32", (4,), 11 * MIB // 2, 4, "measured"),
        # 92 is the largest multiple of 4, the number of its micro-batches
        ("accumulate", (4, 8, 16), 100 * MIB, 92, "predicted"),
    ],
)
def test_without_a_batch_the_answer_is_the_largest(strategy, batches, budget, largest, kind):
    records = measure_batches(*batches, strategy=strategy)
    (candidate,) = ask_advice(records, budget=budget, batch=None).fitting
    assert candidate.case.batch == largest
    assert candidate.peak.kind == kind
    assert candidate.speed.batch in batches  # speeds are measured, not predicted


def test_a_largest_batch_far_beyond_the_measured_ones_is_approximate_and_has_a_condition():
    advice = ask_advice(measure_batches(2, 4, 8), budget=100 * MIB, batch=None)
    (candidate,) = advice.fitting
    assert candidate.case.batch == 94
    assert candidate.is_far
    answer = show.describe_answer(advice)
    assert "It fits at batch 8 (needs 9.5 MiB), by its measured peak. Extrapolated, " in answer
    (table,) = show.make_tables(advice)
    assert table.texts["batch"] == ["8"]
    assert table.texts["peak"] == ["9.0"]
    assert table.texts["needs_bytes"] == ["9.5"]
    assert table.texts["extrapolated"] == ["about 94"]
    assert any(show.NOT_STUDIED in note for note in table.notes)


@pytest.mark.parametrize(
    ("recorded", "tried", "leads", "extrapolated"),
    [
        ((4,), 32, 32, True),  # the search is no evidence for how memory grows beyond it
        ((2, 4, 8), 16, 16, True),
        ((2, 4, 8, 40), 64, 77, False),  # within twice the largest record
        ((4,), None, 4, True),
    ],
)
def test_a_batch_that_an_interrupted_search_tried_comes_before_a_far_prediction(
    recorded, tried, leads, extrapolated
):
    records = measure_batches(*recorded)
    budget = 82 * MIB
    fits = []
    if tried:
        peak = (1 + tried) * MIB
        probe = Probe(batch=tried, outcome="fits", peaks={"host.rss": peak}, kept_bytes=0)
        changes = {"status": "stopped", "probes": [probe], "largest": tried}
        case = QUESTION.make_case("torch", "fp32", 1)
        search = make_search(budget=budget, case=case, versions={"torch": "1"})
        fits.append(search.model_copy(update=changes))
    question = replace(QUESTION, budget=budget, batch=None)

    advice = advise([make_rows(records)], question, Searches(fits))

    (candidate,) = advice.fitting
    assert candidate.shown.case.batch == leads
    assert candidate.case.batch > (tried or 0)
    answer = show.describe_answer(advice)
    assert ("Extrapolated, so does about batch" in answer) == extrapolated
    is_led_by_search = leads == tried
    assert ("as tried under an enforced limit" in answer) == is_led_by_search


def test_of_far_batches_the_least_memory_is_that_of_the_measured_ones():
    """Extrapolated as far as the budget goes, all need about as much as there is."""
    records = [
        make_record("torch", "fp32", batch=4, peak=3 * MIB),
        make_record("torch", "checkpoint", batch=4, peak=2 * MIB),
    ]
    for budget in (50 * MIB, 51 * MIB, 52 * MIB, 53 * MIB):
        advice = ask_advice(records, budget=budget, batch=None, by="memory")
        assert all(candidate.is_far for candidate in advice.fitting)
        assert list_fitting_strategies(advice) == ["checkpoint", "fp32"]


def test_the_first_rows_have_the_best_of_each_framework():
    records = [make_record("jittor", "fp32", peak=MIB // 2, step=99.0)]
    for step, name in enumerate(STRATEGIES[:5], start=1):
        for framework in ("torch", "jax"):
            records.append(make_record(framework, name, peak=MIB // 2, step=float(step)))
    (table,) = show.make_tables(ask_advice(records))
    frameworks = table.texts["framework"]
    assert len(frameworks) == show.MOST_CANDIDATES_SHOWN
    assert frameworks[-1] == "jittor"
    assert table.texts["strategy"][0] == "fp32"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"peak": 5 * MIB}, "Nothing of jax fits; closest: jax fp32 at batch 4 (needs 5.3 MiB)."),
        (OOM, "Of jax no record supports advice: oom: memory ran out."),
        (None, "There are no such records of jax."),
        ({"peak": MIB // 2}, ""),
    ],
)
def test_a_framework_that_is_not_offered_is_named_with_the_reason(changes, words):
    records = [make_record("torch", "fp32", peak=MIB // 2)]
    if changes is not None:
        records.append(make_record("jax", "fp32", **changes))
    answer = show.describe_answer(ask_advice(records, frameworks=("torch", "jax")))
    assert words in answer
    assert ("of jax" in answer.lower()) == bool(words)


def test_a_far_peak_has_its_upper_end_where_the_needs_rest_on_a_far_higher_one():
    """Memory that hardly grows from one batch to another may still be proportional to it."""
    flat = [make_record("torch", "fp32", batch=b, peak=MIB + b, step=1.0) for b in (4, 8)]
    (table,) = show.make_tables(ask_advice(flat, budget=100 * MIB, batch=380))
    assert table.texts["peak"] == ["about 14.4 to 86.5"]


def test_a_named_batch_far_beyond_the_measured_ones_has_a_condition():
    records = measure_batches(2, 4, 8)
    advice = ask_advice(records, budget=100 * MIB, batch=32)
    answer = show.describe_answer(advice)
    assert "Batch 32 is predicted to fit (needs" in answer
    assert "the largest batch that was measured is 8" in answer
    (fields,) = show.make_json(advice, changes=[])["fitting"]
    assert fields["measured_up_to"] == 8
    assert fields["far_beyond_measured"] is True


@pytest.mark.parametrize(
    ("by", "batch", "order"),
    [
        ("speed", 4, ["fp32", "checkpoint"]),
        ("memory", 4, ["checkpoint", "fp32"]),
        ("batch", None, ["checkpoint", "fp32"]),
    ],
)
def test_offers_are_sorted_by_the_requested_quantity(by, batch, order):
    records = [
        make_record("torch", "fp32", batch=4, peak=1_600_000),
        make_record("torch", "fp32", batch=8, peak=3_200_000),
        make_record("torch", "checkpoint", batch=4, peak=800_000, step=1.5),
        make_record("torch", "checkpoint", batch=8, peak=1_600_000, step=1.5),
    ]
    advice = ask_advice(records, budget=4 * MIB, batch=batch, by=by)
    assert list_fitting_strategies(advice) == order


@pytest.mark.parametrize(
    ("by", "batch", "words"),
    [
        ("batch", None, "(largest batch first), with as large a batch by torch keep_grads."),
        ("memory", 8, "(least memory first), with as little by torch keep_grads."),
    ],
)
def test_a_tie_is_named_in_the_answer(by, batch, words):
    records = []
    for strategy, sample in (("fp32", 100_000), ("keep_grads", 100_001), ("checkpoint", 112_500)):
        for size in (4, 8):
            records.append(make_record("torch", strategy, batch=size, peak=sample * size))
    answer = show.describe_answer(ask_advice(records, batch=batch, by=by))
    assert f"torch fp32 comes first {words}" in answer


def test_a_faster_batch_without_calibration_is_named_but_not_ranked_by():
    records = [
        make_record("torch", "fp32", batch=4, peak=400_000),
        make_record("torch", "fp32", batch=8, peak=800_000, origin=UNCALIBRATED),
    ]
    advice = ask_advice(records, budget=4 * MIB, batch=None)
    (candidate,) = advice.fitting
    assert candidate.speed.batch == 4
    (note,) = [text for text in show.list_candidate_notes([candidate]) if "faster" in text]
    assert "at b8, not calibrated, so not ranked" in note
    assert "at b8, not calibrated" in show.describe_answer(advice)


def test_only_named_strategies_are_offered():
    records = [make_record("torch", name, peak=MIB // 2) for name in STRATEGIES]
    advice = ask_advice(records, strategies=frozenset({"fp32", "accumulate"}))
    assert sorted(list_fitting_strategies(advice)) == ["accumulate", "fp32"]


@pytest.mark.parametrize(("low", "high", "is_tie"), [(1.02, 1.06, False), (0.98, 1.04, True)])
def test_a_strategy_as_fast_within_intervals_is_named_next_to_the_fastest(low, high, is_tie):
    """The first strategy takes 0.97 to 1.01 times the baseline's time."""
    records = [make_record("torch", name, peak=MIB // 2) for name in ("fp32", "checkpoint")]
    first, second = ask_advice(records).fitting
    fastest = set_time_ratio(first, 0.97, 1.01)
    runner_up = set_time_ratio(second, low, high)
    sentence = show.describe_fastest([fastest, runner_up])
    assert ("as fast within their intervals" in sentence) == is_tie


def set_time_ratio(candidate: Candidate, low: float, high: float) -> Candidate:
    """Return a candidate with this interval of its time over the baseline's."""
    assert candidate.speed
    changes = {"torch_ratio_low": low, "torch_ratio_high": high}
    speed = Row(**(vars(candidate.speed) | changes))
    return replace(candidate, speed=speed)


DESCRIBED = Question(
    "transformer",
    "train",
    budget=2**40,
    frameworks=("torch",),
    batch=8,
    size="124M",
    shape=spec.load_workload("transformer").described(124e6, 1024),
)


def test_every_peak_of_a_described_transformer_is_predicted():
    records, _ = read_evidence(RESULTS, MACHINE, "transformer", "train")
    advice = advise([records], DESCRIBED)
    assert {candidate.peak.kind for candidate in advice.candidates} == {"predicted"}
    assert advice.fitting
    for candidate in advice.fitting:
        least = compute_lower_bound(candidate.case).total
        assert least <= (candidate.peak.low or 0) <= candidate.peak.value <= candidate.peak.needs
    assert advice.different_result == []
