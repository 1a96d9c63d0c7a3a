"""A row's words and the target that its comparisons are judged by say the same.

A fault in a row, such as a sign that was turned, a size that was mistyped or a threshold that was
moved, changes verdicts and breaks nothing else: so it is looked for here.
"""

from __future__ import annotations

import operator
import re

import pytest

from framebench.claims.claim import Claim, Measurement
from framebench.claims.measures import OfCases, OfProbe, Planned, is_ratio
from framebench.claims.registry import REGISTRY
from framebench.claims.rows import BYTES, SECONDS
from framebench.claims.samples import TIME

# of bytes that pile up, and of counts: docs/claims.md names them
AMOUNTS = {0.5, 1.0, 1024.0, 2.0**20, 2.0**19}
SHARES = {0.01, 0.02, 0.05, BYTES, SECONDS}

# how the claimed effect begins -> its direction
SIGNS = {
    r"it may: slower|-\d|less|fewer|half|faster|no saving|no buffer": -1,
    r"same gradient|it trains|the test goes on": -1,
    r"more|slower|larger|grows|wrong|x \d|1 for 4": 1,
    r"a graph|they change|it (can|is shown|runs|prints)": 1,
}
SIZE = re.compile(r"-(\d+) %")
DECIDED = [claim for claim in REGISTRY.claims if claim.deciding]


def find_sign_of_words(claim: Claim) -> int | None:
    """Return the direction that the claimed effect names, if it begins with one."""
    for pattern, sign in SIGNS.items():
        if re.match(pattern, claim.claimed):
            return sign
    return None


SIGNED = [claim for claim in DECIDED if find_sign_of_words(claim)]
SIZED = [claim for claim in DECIDED if SIZE.match(claim.claimed)]


def list_ratios(claim: Claim) -> list[Measurement]:
    return [
        one
        for one in claim.measurements
        if is_ratio(one.measure) or isinstance(one.measure, Planned)
    ]


@pytest.mark.parametrize("claim", SIGNED, ids=operator.attrgetter("name"))
def test_a_row_expects_the_direction_that_it_names(claim: Claim) -> None:
    for measurement in claim.deciding:
        assert measurement.target.direction == find_sign_of_words(claim), measurement.name


def test_most_rows_that_are_decided_name_a_direction() -> None:
    assert len(SIGNED) >= 0.5 * len(DECIDED)


@pytest.mark.parametrize("claim", SIZED, ids=operator.attrgetter("name"))
def test_a_row_expects_the_size_that_it_names(claim: Claim) -> None:
    (per_cent,) = SIZE.match(claim.claimed).groups()  # type: ignore[union-attr]
    for measurement in claim.deciding:
        assert measurement.target.value == pytest.approx(1 - int(per_cent) / 100, abs=0.005)


def test_or_more_is_judged_where_it_is_claimed() -> None:
    for claim in DECIDED:
        for measurement in claim.deciding:
            assert measurement.target.or_more == ("or more" in claim.claimed), claim.name


@pytest.mark.parametrize("claim", DECIDED, ids=operator.attrgetter("name"))
def test_the_smallest_ratio_that_matters_is_that_of_its_quantity(claim: Claim) -> None:
    for measurement in list_ratios(claim):
        target, measure = measurement.target, measurement.measure
        if target.null != 1.0 or (isinstance(measure, Planned) and measure.is_growth):
            continue
        is_time = isinstance(measure, OfCases) and measure.quantity is TIME
        # a time that stands next to bytes is judged as the row's bytes are
        allowed = {SECONDS, BYTES} if is_time else {BYTES}
        assert target.minimum in allowed, measurement.name
        if is_time and measurement in claim.deciding:
            assert target.minimum == SECONDS, measurement.name


@pytest.mark.parametrize("claim", DECIDED, ids=operator.attrgetter("name"))
def test_the_smallest_number_of_a_program_that_matters_is_one_of_the_documented(
    claim: Claim,
) -> None:
    for measurement in claim.deciding:
        target, measure = measurement.target, measurement.measure
        if not isinstance(measure, OfProbe) or target.minimum == 0:
            continue
        if measure.form == "change":
            assert target.minimum == BYTES, measurement.name
        else:
            allowed = SHARES if measure.form in ("share", "error") else AMOUNTS
            assert target.minimum in allowed, measurement.name


def test_every_control_that_a_row_speaks_of_is_shown() -> None:
    for claim in REGISTRY.claims:
        if re.search(r"\b[Tt]he control\b", claim.note):
            assert any("control" in one.name for one in claim.measurements), claim.name


def test_a_listing_that_decides_has_a_second_side_or_another_comparison() -> None:
    """A number of one program alone could not show what it would be otherwise."""
    alone = []
    for claim in DECIDED:
        is_alone = len(claim.measurements) == 1 and isinstance(claim.deciding[0].measure, OfProbe)
        if is_alone and len(claim.deciding[0].measure.reading.of) < 2:  # type: ignore[attr-defined]
            alone.append(claim.name)
    # reports, whose program is all there is; C24's listing shows bytes on a GPU alone
    assert set(alone) <= {"R12", "R13", "C24"}
