"""Tables of predictions: what fits, what does not, and how many are cached."""

import pytest

from framebench.analysis.rendering import choose_columns
from framebench.devices.catalog import find
from framebench.devices.plans import store
from framebench.devices.plans.answer import LineBuffers
from framebench.devices.plans.planned import Planned
from framebench.devices.tables.table import (
    SAVING,
    describe_share,
    list_cached,
    list_summands,
    summarize_parts,
    tabulate_cases,
    tabulate_parts,
)
from tests.callbacks import ignore
from tests.devices.fake_predictions import (
    CASE,
    MIB,
    make_compiled,
    make_origin,
    make_planned,
    make_simulated,
    make_unplanned,
)
from tests.processes import framebench, read_json

GPU = find("h100-80gb")


@pytest.mark.parametrize(
    ("prediction", "share"),
    [
        (make_planned(), "1.7%"),  # the context alone
        (make_planned(peak_bytes=100 * 2**30), "138.7%: does not fit"),
        (
            make_unplanned("refused", needs_bytes=92_160 * MIB),
            "125.0%: does not fit",  # with error and context, as in the column of needs
        ),
        (make_unplanned("failed"), "-"),
    ],
)
def test_a_peak_above_the_memory_does_not_fit(prediction, share):
    assert describe_share(prediction, find("h100-80gb")) == share


def test_predictions_of_an_older_version_are_counted():
    older = make_planned(case=CASE.replace("fp32", "checkpoint"), origin=make_origin(code="0"))
    gone = make_planned(case="transformer/jax/train/once_there/b1/tiny")
    table = list_cached([make_planned(), older, gone, make_planned(device="a100-40gb")])
    assert table.rows == (
        ("h100-80gb", "jax 0.10.2", "3", "2"),
        ("a100-40gb", "jax 0.10.2", "1", "0"),
    )
    assert "2 of 4 were made by an older version" in table.caption
    assert list_cached([]) is None


@pytest.mark.parametrize(
    ("prediction", "shares", "apart"),
    [
        (
            make_planned(
                peak_bytes=100 * MIB,
                parts={
                    "arguments": 40 * MIB,
                    "outputs": 40 * MIB,
                    "temporaries": 50 * MIB,
                    "aliased": 30 * MIB,
                    "host": 7 * MIB,
                },
            ),
            {"arguments": "40.0%", "temporaries": "50.0%", "outputs, not aliased": "10.0%"},
            ["aliased", "host"],
        ),
        (
            make_simulated("fp32", 80).model_copy(
                update={
                    "parts": {
                        "allocated": 80 * MIB,
                        "reserved": 180 * MIB,
                        "between_steps": 70 * MIB,
                        "weights": 20 * MIB,
                        "gradients": 0,
                        "activations": 60 * MIB,
                    }
                }
            ),
            {"weights": "25.0%", "activations": "75.0%"},
            ["allocated", "reserved", "between_steps"],
        ),
    ],
)
def test_summands_have_shares_and_what_is_no_summand_becomes_a_note(prediction, shares, apart):
    table = tabulate_parts(prediction, find("h100-80gb"))
    assert {row[0]: row[-1] for row in table.rows} == shares
    assert [note.partition(":")[0] for note in table.notes] == apart
    in_use = prediction.parts.get("allocated", prediction.peak_bytes)
    assert sum(list_summands(prediction).values()) == in_use


def test_the_first_sentences_name_the_largest_part_and_the_line_that_asked_for_most():
    """Two buffers of one line are more than the largest; an operator without a line is none."""
    prediction = make_simulated("fp32", 100).model_copy(
        update={
            "parts": {"allocated": 100 * MIB, "weights": 20 * MIB, "activations": 80 * MIB},
            "largest": (
                LineBuffers(35 * MIB, "clone (temporaries)", "float32[4]", 1),
                LineBuffers(20 * MIB, "net.py:9 relu (activations)", "float32[4]", 1),
                LineBuffers(15 * MIB, "net.py:7 addmm (activations)", "float32[4]", 2),
                LineBuffers(10 * MIB, "net.py:7 gelu (activations)", "float32[4]", 1),
            ),
        }
    )
    assert summarize_parts(prediction) == (
        "The largest part of the peak is activations: 80.0% (80.00 of 100.00 MiB). "
        "Of the buffers below, net.py:7 asked for most: 25.00 MiB (25.0%)."
    )


def test_shares_of_the_peak_stay_in_a_table_of_100_columns():
    """The count of buffers makes room: it is known from the shape and the bytes."""
    buffer = LineBuffers(9000 * MIB, "models/unet3d/flax_model.py:105", "f32[4,32,128,128,128]", 16)
    prediction = make_planned(
        peak_bytes=20_000 * MIB,
        parts={"arguments": 10_000 * MIB, "temporaries": 10_000 * MIB, "outputs": 0, "aliased": 0},
        largest=(buffer,),
    )
    table = tabulate_parts(prediction, GPU)
    shown = choose_columns(table, 100)
    assert {"part", "MiB", "share"} <= set(shown) < set(table.texts)


def get_savings(predictions, **options):
    """Return the ratio of each case to its baseline, as the table of cases prints it."""
    data = tabulate_cases(predictions, GPU, **options).data
    return dict(zip(data["case"], data[SAVING]))


def test_a_ratio_is_formed_to_the_baseline_of_the_same_batch():
    predictions = [
        make_simulated("fp32", 80, batch=8),
        make_simulated("checkpoint", 40, batch=8),
        make_simulated("fp32", 200, batch=16),
        make_compiled("checkpoint", 100),
    ]
    assert get_savings(predictions) == {
        "transformer/torch/train/fp32/b8/full": "1.00",
        "transformer/torch/train/checkpoint/b8/full": "0.50",
        "transformer/torch/train/fp32/b16/full": "1.00",
        "transformer/jax/train/checkpoint/b8/full": "-",
    }


def test_a_ratio_without_a_predicted_baseline_is_missing_and_the_baseline_is_named():
    alone = [make_simulated("checkpoint", 40)]
    assert set(get_savings(alone).values()) == {"-"}
    (note,) = tabulate_cases(alone, GPU).notes
    assert "transformer/torch/train/fp32/b8/full: name it too, as in {fp32,checkpoint}" in note
    cached = [make_simulated("fp32", 80)]
    assert set(get_savings(alone, baselines=cached).values()) == {"0.50"}
    assert not tabulate_cases(alone, GPU, baselines=cached).notes


def test_a_baseline_that_does_not_fit_has_ratios():
    refused = make_simulated("fp32", 80).model_dump() | {
        "outcome": "refused",
        "reason": "does not fit",
        "needs_bytes": 100 * MIB,
        "peak_bytes": None,
    }
    savings = get_savings([Planned(**refused), make_simulated("checkpoint", 40)])
    assert list(savings.values()) == ["1.00", "0.50"]


def test_a_ratio_of_other_mathematics_is_called_no_saving():
    predictions = [make_simulated("fp32", 80), make_simulated("depth_4", 20)]
    (note,) = tabulate_cases(predictions, GPU).notes
    assert (
        note
        == "transformer/torch/train/depth_4/b8/full: other mathematics, so its ratio is no saving"
    )


def test_a_note_of_several_cases_is_printed_once():
    """Earlier planners wrote `card`, and later ones `GPU`."""
    older = make_simulated("fp32", 80).model_dump() | {
        "not_held": ["what a card keeps, on two cards"],
        "notes": ["The card decides."],
    }
    newer = make_simulated("checkpoint", 40).model_dump() | {
        "not_held": ["what a GPU keeps, on two GPUs"],
        "notes": ["The GPU decides."],
    }
    release = f"torch {older['framework_version']}"
    predictions = [Planned(**older), Planned(**newer)]
    assert tabulate_cases(predictions, GPU).notes == (
        f"not in the peaks of {release}: what a GPU keeps, on two GPUs",
        "transformer/torch/train/fp32/b8/full, transformer/torch/train/checkpoint/b8/full: The GPU "
        "decides.",
    )


@pytest.fixture
def cached_predictions(tmp_path):
    """Return a results folder with predictions of fp32 and checkpoint at batch 8."""
    for planned in (make_simulated("fp32", 80), make_simulated("checkpoint", 40)):
        store.write(tmp_path, planned, ignore)
    return tmp_path


def test_report_prints_cached_predictions_of_cases_and_plans_none(cached_predictions):
    options = ("--device", GPU.name, "--results", cached_predictions)
    cases = "transformer/torch/train/{checkpoint,amp_bf16}/b8/full"
    done = framebench("report", cases, *options, code=0)
    assert "train/checkpoint/b8/full" in done.stdout
    assert "0.50" in done.stdout
    assert "1 of 2 cases not predicted, such as transformer/torch/train/amp_bf16/b8/" in done.stderr
    assert f"framebench predict '{cases}' --device {GPU.name}" in done.stderr
    none = framebench("report", "transformer/torch/train/fp32/b16/full", *options, code=1)
    assert "nothing is predicted of these cases for h100-80gb; predict them: " in none.stderr


def test_predict_gives_the_ratio_to_a_cached_baseline_as_json(cached_predictions):
    case = "transformer/torch/train/checkpoint/b8/full"
    options = ("--device", GPU.name, "--results", cached_predictions)
    (fields,) = read_json("predict", case, *options)
    assert fields["ratio"] == 0.5
