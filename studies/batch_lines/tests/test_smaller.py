"""Smaller batches against predictions from larger ones."""

from __future__ import annotations

import pytest

from studies.batch_lines.smaller import make_table, predict_smaller_batches
from tests.advice_records import MIB, make_record, make_rows


def test_smaller_batches_are_predicted_from_larger_ones_alone():
    """The single sample lies off the line of the others."""
    peaks = {1: 30, 2: 12, 4: 14, 8: 18}
    records = [make_record("torch", "fp32", batch=b, peak=peaks[b] * MIB) for b in peaks]

    predictions = list(predict_smaller_batches(make_rows(records)))
    excess = {prediction.case.split("/")[4]: prediction.excess for prediction in predictions}

    assert excess.keys() == {"b1", "b2", "b4"}
    assert excess["b1"] > 2
    assert excess["b2"] <= 1
    (of_one, of_more) = make_table(predictions).rows
    assert (of_one[0], of_more[0]) == ("1", "2 or more")
    assert float(of_one[4]) == pytest.approx(excess["b1"], abs=0.01)
