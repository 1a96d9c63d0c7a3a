"""Test what README says about the verification and the code of the published numbers."""

from __future__ import annotations

from pathlib import Path

from framebench.publish.readme.backing import LOST_COMMITS, describe_backing
from framebench.records.record import Record
from framebench.records.reference import find_reference
from framebench.suite.result import Mathematics, Verification
from tests.handmade import provenance, record

GONE = "d" * 40


def measured(errors: dict[str, float], against: str | None = None, **origin: object) -> Record:
    verification = Verification(passed=True, relative_error=errors, against=against)
    return record(peaks={"host.rss": 2**20}, verification=verification, provenance=provenance(**origin))


IN_FLOAT64 = measured({"loss": 1e-8})
IN_FLOAT32 = measured({"loss": 1e-8}, against="transformer/torch/train/fp32/b4/full")
FINITE = measured({})
BY_ONE_FRAMEWORK = measured({"loss": 1e-8}, against="torch alone")  # in float64, by `dev golden --unconfirmed`


def test_a_case_of_the_session_is_a_float32_reference_and_no_error_means_none() -> None:
    found = [find_reference(one) for one in (IN_FLOAT64, IN_FLOAT32, FINITE, BY_ONE_FRAMEWORK)]
    assert found == ["float64", "float32", "none", "float64"]


def test_measurements_without_a_float64_reference_are_counted_apart(tmp_path: Path) -> None:
    wrong = record(status="wrong", reason="off")
    verified, _ = describe_backing([IN_FLOAT64, IN_FLOAT64, IN_FLOAT32, FINITE, wrong], tmp_path)
    assert verified == (
        "**Verified.** 2 of 4 measurements agree with values computed in float64. The other 2 are of sizes without float64 "
        "values (of `m`): 1 agree with a float32 case of the same session, 1 are only known to be finite."
    )


def test_steps_that_were_run_in_float64_are_counted(tmp_path: Path) -> None:
    right = Mathematics(case="c", computed=True, passed=True, tensors=9, worst="w", error=1e-12, tolerance=1e-9)
    not_computed = Mathematics(case="c", computed=False, passed=True, reason="int8")
    checked = [Verification(passed=True, relative_error={"loss": 1e-8}, mathematics=m) for m in (right, not_computed, None)]

    verified, _ = describe_backing([record(verification=v) for v in checked], tmp_path)

    assert verified == (
        "**Verified.** 3 of 3 measurements agree with values computed in float64. In 1 the strategy's own step was run in "
        "float64, too, and agrees."
    )


def test_records_whose_code_cannot_be_checked_out_are_counted_apart(tmp_path: Path) -> None:
    (tmp_path / LOST_COMMITS).write_text(f"# why\n{GONE}\n")
    lost = measured({"loss": 1e-8}, commit=GONE, machine="old")
    changed = measured({"loss": 1e-8}, dirty=True, machine="a")
    unknown = measured({"loss": 1e-8}, dirty=None, machine="b")

    _, code = describe_backing([IN_FLOAT64, lost, changed, unknown], tmp_path)

    assert "1 of 4 records name a commit that has the code that measured them." in code
    only = "1 (of `old`) name a commit that this repository does not have, and are the only records of 1 cases."
    assert only in code
    assert "2 (of `a` and `b`) had uncommitted changes, or cannot tell whether they had." in code


def test_a_case_that_was_also_measured_by_known_code_is_no_only_record(tmp_path: Path) -> None:
    (tmp_path / LOST_COMMITS).write_text(f"{GONE}\n")
    lost = measured({"loss": 1e-8}, commit=GONE)
    _, code = describe_backing([IN_FLOAT64, lost], tmp_path)
    assert "1 (of `m`) name a commit that this repository does not have, and are the only records of 0 cases." in code


def test_what_is_all_in_float64_and_committed_has_no_exceptions(tmp_path: Path) -> None:
    verified, code = describe_backing([IN_FLOAT64], tmp_path)
    assert verified == "**Verified.** 1 of 1 measurements agree with values computed in float64."
    assert code.endswith("1 of 1 records name a commit that has the code that measured them.")


def test_without_records_nothing_is_said(tmp_path: Path) -> None:
    assert describe_backing([], tmp_path) == ()
