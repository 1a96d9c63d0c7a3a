"""Records survive the round trip; bad files are named, skipped, and left alone."""

from __future__ import annotations

import errno
import json
import os
import warnings
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from framebench.analysis.results import Results
from framebench.records import store
from framebench.records.calibration import Calibration
from framebench.records.lines import Line
from framebench.records.record import Record
from framebench.records.record_base import INSTRUMENTS, ON_GPU
from framebench.records.store import BadRecord, RecordWarning
from framebench.suite.case import Case
from framebench.suite.profiles import list_cases
from framebench.suite.result import StrategyEffect, Verification
from tests.fake_records import CASE, make_turns, provenance, record
from tests.record_files import append_lines

SOME = tuple(c for c in list_cases() if c.size == "tiny")
finite = st.floats(allow_nan=False, allow_infinity=False)
size = st.integers(0, 2**60)


made = st.builds(
    Record,
    case=st.sampled_from([case.id for case in SOME]),
    status=st.sampled_from(["ok", "oom", "timeout", "crashed", "unsupported", "wrong"]),
    reason=st.none() | st.text(),
    peaks=st.dictionaries(st.sampled_from(INSTRUMENTS + ON_GPU), size),
    peak_samples=st.lists(st.dictionaries(st.sampled_from(INSTRUMENTS + ON_GPU), size), max_size=3),
    live_bytes=st.none() | size,
    step_s=st.lists(st.floats(1e-9, 1e6), max_size=5),
    turns=st.just(make_turns("block", CASE, 5)),
    first_step_s=st.none() | st.floats(1e-9, 1e6),
    verification=st.none()
    | st.builds(
        Verification,
        passed=st.booleans(),
        relative_error=st.dictionaries(st.text(), st.none() | finite, max_size=3),
    ),
    effect=st.none()
    | st.builds(
        StrategyEffect,
        proven=st.booleans(),
        evidence=st.dictionaries(st.text(), size | st.text()),
        reason=st.none() | st.text(),
    ),
    log_tail=st.none() | st.text(),
    provenance=st.builds(
        provenance,
        session=st.text(),
        command=st.text(),
        machine=st.from_regex(r"[a-z]\w{0,9}", fullmatch=True),
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(made)
def test_file_round_trip(tmp_path, one):
    file = tmp_path / "m" / "torch-1.jsonl"
    file.unlink(missing_ok=True)
    store.append(one, file)
    assert list(store.parse_file(Record, file)) == [(f"{file}:1", one)]


def test_a_second_measurement_does_not_overwrite_the_first(tmp_path):
    file = store.find_file(tmp_path, "m", "torch-1")
    later = record(provenance=provenance(measured_at=datetime(2026, 1, 3, tzinfo=UTC)))
    for one in (later, record()):
        store.append(one, file)
    assert list(store.read_all(tmp_path)) == [record(), later], "the oldest first"


def test_the_peak_is_the_frameworks_own_counter_before_the_kernels_view():
    assert record(peaks={"host.rss": 3, "allocator.in_use": 2}).peak_bytes == 2
    assert record(peaks={"host.rss": 3, "compiler.plan": 2}).peak_instrument == "compiler.plan"
    assert record(peaks={"device.process": 3}).peak_bytes is None


def test_throughput_counts_tokens():
    assert record(step_s=[0.5, 2.0, 0.5]).throughput == pytest.approx(4 * 16 / 0.5)


BAD = {
    "truncated": record().model_dump_json()[:200],
    "empty": "",
    "foreign": '{"hello": [1, 2, 3]}',
    "list": "[]",
    "newer": json.dumps(record().model_dump(mode="json") | {"schema_version": 2}),
    "unknown-field": json.dumps(record().model_dump(mode="json") | {"peek": 1}),
    "nan": record().model_dump_json().replace('"cpu_s_per_step":null', '"cpu_s_per_step":NaN'),
    "binary": "\x00\x01\x02",
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_named_skipped_and_kept(name, results):
    file = store.find_file(results, "m", "torch-1")
    store.append(record(), file)
    append_lines(file, BAD[name])
    later = record(provenance=provenance(measured_at=datetime(2026, 1, 3, tzinfo=UTC)))
    store.append(later, file)
    before = file.read_bytes()
    with pytest.warns(RecordWarning, match=r"torch-1\.jsonl:2: "):
        found = list(store.read_all(results))
    assert found == [record(), later]
    assert file.read_bytes() == before


MACHINE = "provenance.machine"
NO_NAMES = (
    "../../../x",
    "/tmp/x",
    "a/b",
    "..",
    ".hidden",
    "-x",
    "",
    "all",
    "a b",
    "x" * 101,
    "a\n",
)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("peaks", {"host.rss": -1}, "peaks"),
        ("peak_samples", [{"host.rss": 10**400}], "peak_samples"),
        ("live_bytes", -5, "live_bytes"),
        ("step_s", [0.1, 0.0], "step_s"),
        ("first_step_s", -1.0, "first_step_s"),
        ("cpu_s_per_step", -0.1, "cpu_s_per_step"),
        ("energy_j_per_step", -1.0, "energy_j_per_step"),
        ("shares", {"wait": -0.5}, "shares"),
        ("device_step_s", [1e300], "device_step_s"),
        ("turns", None, "step_s without turns"),  # nothing says in which block they were taken
        # without a time zone, so that nobody can say which record came first
        ("provenance.measured_at", "2026-01-01T00:00:00", "measured_at"),
        ("schema_version", 2, "schema 2, newer than"),
        *((MACHINE, name, "no name of a machine") for name in NO_NAMES),
    ],
)
def test_an_impossible_value_is_refused_with_its_field(field, value, message, tmp_path):
    whole = record(step_s=[0.1]).model_dump(mode="json")
    *parents, last = field.split(".")
    fields = whole
    for name in parents:
        fields = fields[name]
    assert last in fields
    fields[last] = value
    (tmp_path / "damaged.json").write_text(json.dumps(whole))
    with pytest.raises(BadRecord, match=rf"damaged\.json.*{message}"):
        store.read(tmp_path / "damaged.json")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"case": "resnet50/to\n', "cut off or no JSON"),
        (b'{"case": "resnet50"\n', "cut off or no JSON"),
        (b"Traceback\n", "cut off or no JSON"),
        (b"\xff\n", "cut off or no JSON"),
        (b'{"case": 1}\n', "case: "),
    ],
)
def test_a_line_that_is_cut_off_is_called_so(text, reason):
    with pytest.raises(BadRecord, match=f"^a.jsonl:1: not a framebench record: {reason}"):
        store.parse(Record, Line("a.jsonl:1", text))


@pytest.mark.parametrize("levels", [300, 1_000, 100_000])
@pytest.mark.parametrize("begin", ["[", '{"peaks":'])
def test_a_deep_line_is_refused(begin, levels, results):
    file = store.find_file(results, "m", "torch-1")
    store.append(record(), file)
    append_lines(file, begin * levels)
    with pytest.warns(RecordWarning, match=r"jsonl:2: "):
        assert list(store.read_all(results)) == [record()]


def test_a_sessions_records_are_found_by_their_own_field(tmp_path):
    file = store.find_file(tmp_path, "m", "torch-1")
    mine = record(provenance=provenance(session="mine"))
    names_it = record(provenance=provenance(session="other", profile="mine"), reason="mine")
    other_case = record(
        Case.from_id("transformer/torch/eval/no_grad/b4/tiny"),
        provenance=provenance(session="mine"),
        reason=CASE.id,
    )
    for one in (names_it, mine, other_case):
        store.append(one, file)
    append_lines(file, '{"session":"mine"}', "{")
    assert store.read_session(file, "mine") == [mine, other_case]
    assert store.read_session(file, "mine", CASE.id) == [mine]
    assert store.read_session(file, "none") == []


def test_reading_warns_of_nothing_when_all_is_well(results):
    store.append(record(), store.find_file(results, "m", "torch-1"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(store.read_all(results)) == [record()]


def fail_as_on_a_full_disk(handle: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_of_the_users_stays_where_the_new_one_cannot_be_written(tmp_path, monkeypatch):
    document = tmp_path / "README.md"
    document.write_text("precious")
    monkeypatch.setattr(os, "fsync", fail_as_on_a_full_disk)
    with pytest.raises(OSError, match="No space"):
        store.replace_text("new", document)
    assert document.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [document]


def test_a_users_file_keeps_its_rights_and_its_link(tmp_path):
    document, link = tmp_path / "README.md", tmp_path / "link"
    document.write_text("old")
    document.chmod(0o640)
    link.symlink_to(document)
    store.replace_text("new", link)
    assert document.read_text() == "new"
    assert document.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    store.replace_text("new", pipe)
    assert os.read(reader, 100) == b"new"
    os.close(reader)
    assert pipe.is_fifo()


def test_a_record_in_another_machines_folder_is_named_and_skipped(tmp_path):
    file = store.find_file(tmp_path, "another", "torch-2.13.0")
    store.append(record(), file)
    with pytest.warns(RecordWarning, match="machine m, but in the folder another"):
        assert list(store.read_all(tmp_path)) == []


def test_times_do_not_count_if_a_step_has_no_round():
    four_rounds = make_turns("block", CASE, rounds=4)
    assert record(step_s=[0.1] * 4, turns=four_rounds).timed
    assert not record(step_s=[0.1] * 5, turns=four_rounds).timed


def add_calibration(root, measured_at):
    """Write that the instruments of the hand-made records' machine passed."""
    file = store.find_calibration_file(root, "m")
    file.parent.mkdir()
    file.write_text(json.dumps({"measured_at": measured_at, "passed": True}))


@pytest.mark.parametrize(
    ("calibrated_at", "calibration"),
    [
        ("2026-01-01T00:00:00+00:00", "passed"),
        ("2026-03-01T00:00:00+00:00", "not done"),  # after the record
        ("2026-01-01T00:00:00", "not done"),  # in a time zone that is not known
    ],
)
def test_a_collected_record_has_an_earlier_calibration_of_its_machine(
    tmp_path, calibrated_at, calibration
):
    origin = provenance(measured_at="2026-02-01T00:00:00Z")
    store.append(record(provenance=origin), store.find_file(tmp_path, "m", "torch-2.13.0"))
    add_calibration(tmp_path, calibrated_at)
    assert list(Results(tmp_path).table("m")["calibration"]) == [calibration]


def test_a_record_keeps_the_calibration_that_it_was_measured_with(tmp_path):
    failed = Calibration(measured_at="2026-01-01T00:00:00Z", passed=False, failed=["jax"])
    origin = provenance(measured_at="2026-02-01T00:00:00Z", calibration=failed)
    store.append(record(provenance=origin), store.find_file(tmp_path, "m", "torch-2.13.0"))
    add_calibration(tmp_path, "2026-01-15T00:00:00+00:00")
    assert list(Results(tmp_path).table("m")["calibration"]) == ["FAILED (jax)"]
