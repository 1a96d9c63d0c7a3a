"""Memory for sorts and sums on a simulated GPU, next to sizes that were computed by hand.

Those of sums are in an H200's own history.
"""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run_inside

PROGRAM = Path(__file__).parent / "programs" / "sorts.py"
MIB = 2**20
INDEX = 8  # bytes of an int64
LINEAR = 8 * 1024 * INDEX  # one index for each of 8 x 1,024 tokens
PAIRS = 8 * 1024 * 2 * INDEX  # CUB's second buffer of keys and places
GRADIENT = 8 * 1024 * 768 * 4


@pytest.fixture(scope="module")
def sorted_on_gpu(environment) -> Any:
    return run_inside(environment["torch"], PROGRAM)


def test_what_sorting_takes_is_given_back(sorted_on_gpu):
    for requests in sorted_on_gpu["requests"].values():
        assert sum(requests) == 0


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        # the index, the sorted one, its places, numbers from 0 on, and CUB's buffer
        ("rows of a table", 4 * LINEAR + PAIRS),
        # 169 rows are told apart by 8 bits, which CUB sorts in one pass without a buffer
        ("rows of a short table", 4 * 2401 * INDEX),
        ("by int32", 4 * LINEAR + PAIRS),
        ("an expanded gradient", GRADIENT + 4 * LINEAR + PAIRS),
        # 64 x 8 pairs: 32,768 places are told apart by 15 bits
        ("pairs of places", 4 * 512 * INDEX + 512 * 2 * INDEX),
        ("without adding up", 0),
        # 64 rows of 50,304: each of 792 blocks at once has 256 threads of 16 values, so that 13
        # blocks share a row. Values, two counters and two patterns for each row; 256 counters of 2
        # bytes and 2 of 4 for each block; and 256 sums for each row
        ("the best words", 64 * (4 + 8 + 8) + 832 * (256 * 2 + 4 + 4) + 64 * 256 * 4),
        ("experts", 0),  # one block of threads finds the best of 64
        # places and values, sorted, next to numbers from 0 on and CUB's buffer
        ("the best 8,192 of a row", 8192 * (8 + 4) + 8192 * 8 + 8192 * (4 + 8)),
        ("one long row", 2**20 * 8 + 2**20 * (4 + 8)),
        # pairs of row and place, twice; sorted values; CUB's buffer
        ("few rows", 64 * 8192 * (8 + 8 + 4 + 4 + 8)),
        ("many rows", 256 * 8192 * (8 + 4 + 8)),
        ("short rows", 4096 * INDEX),
        # 64 columns are copied to rows, and have results of their own
        ("columns", 64 * 8192 * (4 + 4 + 8) + 64 * 8192 * (8 + 8 + 4 + 4 + 8)),
        # the values are copied, and the results are rows from the beginning
        ("parts of rows", 64 * 8192 * 4 + 64 * 8192 * (8 + 8 + 4 + 4 + 8)),
        # the results, sorted, and what sorting columns takes
        ("the best 8,192 of two columns", 2 * 8192 * (8 + 4 + 4 + 4 + 8 + 8 + 8 + 4 + 4 + 8)),
        # 8 x 1024 tokens, as in the history of the Transformer: twelve of each a step
        ("768 sums", 48 * MIB),
        ("2304 sums", int(132.75 * MIB)),
        ("3072 sums", 132 * MIB),
        # half precision is added up in float32, float64 in itself, truth values in int64
        ("sums in half precision", 48 * MIB),
        ("sums in float64", 96 * MIB),
        ("sums of truth values", 96 * MIB),
        ("sums of few rows", 0),  # each thread adds up its column
        ("sums along rows", 0),  # blocks of threads share no memory worth counting
        ("sums of a transposed matrix", 0),
        ("a sum of all dimensions", 0),
        ("a sum without dimensions", 0),
        ("a sum of one number", 0),
        ("a sum of no number", 0),
        # five copies of the indices; a partial sum for each word, and one for each ten
        ("an embedding of 8,192 words", 5 * 8192 * INDEX + (8192 + 819) * (INDEX + 768 * 4)),
        ("an embedding of 3,072 words", 0),  # they are not sorted
        ("an embedding with padding", 5 * 3072 * INDEX + (3072 + 307) * (INDEX + 768 * 4)),
        ("no rows of a table", 0),
    ],
)
def test_the_most_at_once_is_what_was_computed_by_hand(sorted_on_gpu, name, peak):
    assert max(accumulate(sorted_on_gpu["requests"][name], initial=0)) == peak


def test_a_step_takes_what_its_operators_sort_by(sorted_on_gpu):
    peaks = sorted_on_gpu["peaks"]
    assert peaks["look_up"] == 4 * LINEAR + PAIRS
    columns = 64 * 8192 * (4 + 4 + 8) + 64 * 8192 * (8 + 8 + 4 + 4 + 8)
    assert peaks["sort_stably"] == columns
