"""What `framebench report` prints of some cases is what it prints of them among all."""

from __future__ import annotations

import re

import pytest

from framebench.analysis.results import Results
from framebench.publish.site.machine import list_machines
from framebench.publish.tables import make_tables
from framebench.records.record import Record
from framebench.suite.case import Case
from tests.fake_records import make_blocks
from tests.record_files import add_records

CHECKPOINT = "transformer/torch/train/checkpoint/b4/tiny"
# seconds of a step in three blocks: JAX's are noisy
SECONDS = {
    "torch/train/fp32": [1.0, 1.0, 1.0],
    "jax/train/fp32": [1.0, 1.0, 1.0],
    "torch/train/checkpoint": [1.22, 1.21, 1.24],
    "torch/train/accumulate": [1.20, 1.26, 1.23],
    "jax/train/checkpoint": [1.2, 0.9, 1.7],
}


@pytest.fixture
def folder(tmp_path) -> Results:
    """Return a results folder with three blocks of two frameworks."""
    variants = []
    for name, seconds in SECONDS.items():
        case = Case.from_id(f"transformer/{name}/b4/tiny")
        variants.append((case, [[of_block] for of_block in seconds]))
    add_records(tmp_path, *make_blocks(variants, peaks=[2**20] * len(variants)))
    return Results(tmp_path)


def find_interval(records: list[Record], folder: Results) -> tuple[float, float]:
    """Return the interval of PyTorch's checkpointing in the first table of these records."""
    rows = make_tables(records, folder)[0].data
    (row,) = rows[rows["case"] == CHECKPOINT].to_dict("records")
    return row["time_ratio_low"], row["time_ratio_high"]


@pytest.mark.parametrize("shown", ["torch/train/(fp32|checkpoint)/", "train/(fp32|checkpoint)/"])
def test_a_case_has_one_interval_whatever_rows_stand_beside_it(shown, folder):
    selected = [record for record in folder.records if re.search(shown, record.case)]
    assert len(selected) < len(folder.records)
    of_all = find_interval(folder.records, folder)
    assert find_interval(selected, folder) == of_all
    (machine,) = list_machines(selected, folder)
    for rows in (machine.shown, machine.table):
        (row,) = rows[rows["case"] == CHECKPOINT].to_dict("records")
        assert (row["time_ratio_low"], row["time_ratio_high"]) == of_all
