"""A row stands for cases that exist, and its words and the target that it is judged by agree.

A fault in a row, such as a sign that was turned, a size that was mistyped or a threshold that was
moved, changes verdicts and breaks nothing else: so it is looked for here.
"""

from __future__ import annotations

import operator
import re
import tomllib
from pathlib import Path

import pytest

from framebench.claims.claim import Claim
from framebench.claims.measures import ProgramMeasure
from framebench.claims.registry import REGISTRY
from framebench.claims.rows import FOLDER, make_measurements, read_source
from framebench.strategies.strategy import AlwaysOn
from framebench.suite.selectors import parse

# how the claimed effect begins -> its direction
SIGNS = {
    r"it may: slower|-\d|less|fewer|half|faster|no saving|no buffer": -1,
    r"same gradient|it trains|the test goes on|all of the set": -1,
    r"more|slower|larger|grows|wrong|x \d|1 for 4|memory is given": 1,
    r"a graph|they change|it (can|is shown|runs|prints)": 1,
}
SIZE = re.compile(r"-(\d+) %")
POSSIBLE = re.compile(r"\b(may|can)\b")
DECIDED = [claim for claim in REGISTRY.claims if claim.deciding]
BY_NAME = operator.attrgetter("name")


def find_sign_of_words(claim: Claim) -> int | None:
    """Return the direction that the claimed effect names, if it begins with one."""
    for pattern, sign in SIGNS.items():
        if re.match(pattern, claim.claimed):
            return sign
    return None


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.toml")), ids=operator.attrgetter("stem"))
def test_every_row_stands_for_a_case_that_exists(file):
    for claim in tomllib.loads(file.read_text())["claim"]:
        for row in (*claim.get("deciding", ()), *claim.get("informational", ())):
            assert make_measurements(**{"expect": claim.get("expect"), **row}), (claim["id"], row)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"expect": None}, "expect"),
        ({"expects": "less"}, "expects"),
        ({"candidate": "train compile"}, "'train compile' names no case"),
        ({"expect": "lesser"}, "lesser"),
    ],
)
def test_a_malformed_row_names_its_claim_and_the_fault(changes, message):
    row = {"candidate": "train/compile", "base": "train/fp32", "expect": "less"} | changes
    texts = dict.fromkeys(("says", "claimed", "metric", "why"), "")
    claim = {"id": "T1", "transfers_to_gpu": True, "deciding": [row], **texts}
    with pytest.raises(ValueError, match=f"t.toml: claim T1: (.|\\n)*{message}"):
        list(read_source(Path("t.toml"), [claim], {}))


@pytest.mark.parametrize("claim", REGISTRY.claims, ids=BY_NAME)
def test_each_comparison_of_a_claim_stands_once(claim):
    assert claim.deciding or claim.absent or claim.needs.lacking
    places = []
    for measurement in claim.measurements:
        places.append((measurement.name, measurement.measure.describe_place("cpu")))
    assert len(set(places)) == len(places)


@pytest.mark.parametrize("claim", REGISTRY.claims, ids=BY_NAME)
def test_compared_cases_are_distinct_and_can_run(claim):
    for measurement in claim.measurements:
        measure = measurement.measure
        cases = measure.list_cases("cpu") or measure.list_planned_cases()
        assert len(set(cases)) == len(cases), f"{measurement.name} is compared with itself"
        for case in cases:
            if not measure.is_planned:
                assert parse(case.id) == case
            if isinstance(case.support, AlwaysOn):
                assert case.strategy == case.scenario_spec.baseline, (
                    "what is always on is the baseline"
                )


def test_jax_recomputing_in_a_scan_is_compared_with_a_scan():
    """Without recomputing JAX's Transformer is no scan: the two would differ in more."""
    base_strategies = []
    for claim in REGISTRY.claims:
        for measurement in claim.measurements:
            if len(measurement.measure.refs) != 2:
                continue
            base, change = measurement.measure.refs
            if (change.workload, change.framework) != ("transformer", "jax"):
                continue
            if (change.scenario, change.strategy) == ("train", "checkpoint"):
                base_strategies.append(base.strategy)
    assert set(base_strategies) == {"scan"}


def test_every_claim_has_a_name_of_its_own():
    names = [claim.name for claim in REGISTRY.claims]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("claim", DECIDED, ids=BY_NAME)
def test_a_row_expects_the_direction_that_it_names(claim):
    sign = find_sign_of_words(claim)
    for measurement in claim.deciding:
        assert sign in (None, measurement.target.direction), measurement.name


@pytest.mark.parametrize("claim", REGISTRY.claims, ids=BY_NAME)
def test_possibilities_without_a_size_are_confirmed_by_one_comparison(claim):
    has_size = SIZE.match(claim.claimed) is not None
    if claim.place is not None and POSSIBLE.search(claim.says) and not has_size:
        assert claim.may


@pytest.mark.parametrize("claim", DECIDED, ids=BY_NAME)
def test_a_row_expects_the_size_that_it_names(claim):
    size = SIZE.match(claim.claimed)
    for measurement in claim.deciding:
        assert measurement.target.or_more == ("or more" in claim.claimed), claim.name
        if size:
            assert measurement.target.value == pytest.approx(1 - int(size[1]) / 100, abs=0.005)


def test_a_listing_that_decides_has_a_second_side_or_another_comparison():
    """A number of one program alone could not show what it would be otherwise."""
    alone = set()
    for claim in DECIDED:
        measure = claim.deciding[0].measure
        if isinstance(measure, ProgramMeasure) and len(claim.measurements) == 1 == len(measure.of):
            alone.add(claim.name)
    # reports, whose program is all there is; C24's listing shows bytes on a GPU alone
    assert alone <= {"R12", "R13", "C24"}
