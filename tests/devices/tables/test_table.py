"""Tables of predictions: what fits, what does not, and how many are cached."""

import pytest

from framebench.devices.catalog import find
from framebench.devices.tables.table import (
    describe_share,
    list_cached,
    list_summands,
    tabulate_parts,
)
from tests.devices.fake_predictions import (
    CASE,
    MIB,
    make_origin,
    make_planned,
    make_simulated,
    make_unplanned,
)


@pytest.mark.parametrize(
    ("prediction", "share"),
    [
        (make_planned(), "1.7%"),  # the context alone
        (make_planned(peak_bytes=100 * 2**30), "138.7%: does not fit"),
        (
            make_unplanned("refused", needs_bytes=92_160 * MIB),
            "does not fit: would take 92,160.0 MiB",
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
