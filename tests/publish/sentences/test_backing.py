"""Test what README says about the verification and the code of the published numbers."""

from __future__ import annotations

from framebench.publish.sentences.backing import LOST_COMMITS, describe_backing
from framebench.records.record import Record
from framebench.records.reference import classify_reference
from framebench.suite.result import Verification
from tests.fake_records import provenance, record

GONE = "d" * 40


def make_measured(errors: dict[str, float], against: str | None = None, **origin: object) -> Record:
    verification = Verification(passed=True, relative_error=errors, against=against)
    return record(
        peaks={"host.rss": 2**20}, verification=verification, provenance=provenance(**origin)
    )


IN_FLOAT64 = make_measured({"loss": 1e-8})
IN_FLOAT32 = make_measured({"loss": 1e-8}, against="transformer/torch/train/fp32/b4/full")
FINITE = make_measured({})
# in float64, by `dev golden --unconfirmed`
BY_ONE_FRAMEWORK = make_measured({"loss": 1e-8}, against="torch alone")


def test_the_kind_of_reference_is_read_from_the_verification():
    found = [classify_reference(one) for one in (IN_FLOAT64, IN_FLOAT32, FINITE, BY_ONE_FRAMEWORK)]
    assert found == ["float64", "float32", "none", "float64"]


def test_measurements_without_a_float64_reference_are_counted_apart(tmp_path):
    wrong = record(status="wrong", reason="off")
    backing = describe_backing([IN_FLOAT64, IN_FLOAT64, IN_FLOAT32, FINITE, wrong], tmp_path)
    assert backing.short.startswith("2 of 4 measurements agree with values computed in float64,")
    assert backing.detailed[0] == (
        "**Verified.** 2 of 4 measurements agree with values computed in float64. The other 2 are "
        "of sizes without float64 values (of `m`): 1 agree with a float32 case of the same "
        "session, 1 are only known to be finite."
    )


def test_records_whose_code_cannot_be_checked_out_are_counted_apart(tmp_path):
    (tmp_path / LOST_COMMITS).write_text(f"# why\n{GONE}\n")
    lost = make_measured({"loss": 1e-8}, commit=GONE, machine="old")
    changed = make_measured({"loss": 1e-8}, dirty=True, machine="a")
    unknown = make_measured({"loss": 1e-8}, dirty=None, machine="b")

    backing = describe_backing([IN_FLOAT64, lost, changed, unknown], tmp_path)

    assert "1 of 4 records name a commit that has the code that measured them." in backing.short
    code = backing.detailed[1]
    assert "1 of 4 records name a commit that has the code that measured them." in code
    only = (
        "1 (of `old`) name a commit that this repository does not have, and are the only "
        "records of 1 case."
    )
    assert only in code
    assert "2 (of `a` and `b`) had uncommitted changes, or cannot tell whether they had." in code
