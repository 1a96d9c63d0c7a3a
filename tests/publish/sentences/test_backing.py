"""Test what README says about the verification and the code of the published numbers."""

from __future__ import annotations

import pytest

from framebench.publish.sentences.backing import LOST_COMMITS, describe_backing
from framebench.records.record import Record
from framebench.records.reference import classify_reference
from framebench.suite.result import Verification
from tests.fake_records import provenance, record

LOST_COMMIT = "d" * 40


def make_verified(errors: dict[str, float], against: str | None = None, **origin: object) -> Record:
    verification = Verification(passed=True, relative_error=errors, against=against)
    return record(
        peaks={"host.rss": 2**20}, verification=verification, provenance=provenance(**origin)
    )


AGAINST_FLOAT64 = make_verified({"loss": 1e-8})
AGAINST_FLOAT32 = make_verified({"loss": 1e-8}, against="transformer/torch/train/fp32/b4/full")
ONLY_FINITE = make_verified({})
# float64 values that one framework computed and no other confirmed (`dev golden --unconfirmed`)
AGAINST_UNCONFIRMED = make_verified({"loss": 1e-8}, against="torch alone")


@pytest.mark.parametrize(
    ("verified", "reference"),
    [
        pytest.param(AGAINST_FLOAT64, "float64", id="golden values"),
        pytest.param(AGAINST_UNCONFIRMED, "float64", id="golden values of one framework"),
        pytest.param(AGAINST_FLOAT32, "float32", id="another case"),
        pytest.param(ONLY_FINITE, "none", id="no reference"),
    ],
)
def test_the_kind_of_reference_is_read_from_the_verification(verified, reference):
    assert classify_reference(verified) == reference


def test_measurements_are_counted_by_their_reference(tmp_path):
    """What is wrong is no measurement."""
    wrong = record(status="wrong", reason="off")
    records = [AGAINST_FLOAT64, AGAINST_FLOAT64, AGAINST_FLOAT32, ONLY_FINITE, wrong]
    backing = describe_backing(records, tmp_path)
    assert backing.short.startswith("2 of 4 measurements agree with values computed in float64,")
    assert backing.detailed[0] == (
        "**Verified.** 2 of 4 measurements agree with values computed in float64. The other 2 are "
        "of sizes without float64 values (of `m`): 1 agree with a float32 case of the same "
        "session, 1 are only known to be finite."
    )


def test_records_whose_code_cannot_be_checked_out_are_counted_apart(tmp_path):
    (tmp_path / LOST_COMMITS).write_text(f"# why\n{LOST_COMMIT}\n")
    lost = make_verified({"loss": 1e-8}, commit=LOST_COMMIT, machine="old")
    changed = make_verified({"loss": 1e-8}, dirty=True, machine="a")
    unknown = make_verified({"loss": 1e-8}, dirty=None, machine="b")

    backing = describe_backing([AGAINST_FLOAT64, lost, changed, unknown], tmp_path)

    assert "1 of 4 records name a commit that has the code that measured them." in backing.short
    code = backing.detailed[1]
    assert "1 of 4 records name a commit that has the code that measured them." in code
    only = (
        "1 (of `old`) name a commit that this repository does not have, and are the only "
        "records of 1 case."
    )
    assert only in code
    assert "2 (of `a` and `b`) had uncommitted changes, or cannot tell whether they had." in code
