"""What tables are made of is read quickly, and says what records say that are checked in full."""

import copy
import json

import msgspec
import pandas as pd
import pytest
from pydantic import ValidationError

from framebench.analysis import frames
from framebench.analysis.results import Results
from framebench.analysis.selection import select_records
from framebench.records import store, table_record
from framebench.records.calibration import Calibration
from framebench.records.lines import Line, RecordWarning
from framebench.records.record import Record
from tests.fake_records import CASE, make_turns, provenance, record
from tests.processes import framebench
from tests.records.malformed import ODD, list_places, look_up
from tests.sample_records import MACHINE, OTHER, RESULTS, read_sample

# one of each kind: what went well, what failed, what several ranks share
MODELS = {f"{model.status}, {len(model.ranks)} ranks": model for model in read_sample()}
SAMPLE = Results(RESULTS)


@pytest.mark.parametrize("machine", [MACHINE, OTHER])
@pytest.mark.parametrize("versions", ["one", "all"])
def test_a_table_is_that_of_records_checked_in_full(machine, versions):
    in_full = SAMPLE.get_records(machine)
    if versions == "one":
        in_full = select_records(in_full)
    table = frames.make_frame(in_full, SAMPLE.searches)
    pd.testing.assert_frame_equal(SAMPLE.table(machine, versions), table)


@pytest.mark.parametrize("kind", MODELS)
def test_quick_and_full_checks_refuse_the_same_fields(kind):
    good = MODELS[kind].model_dump(mode="json")
    read = msgspec.to_builtins(table_record.DECODER.decode(json.dumps(good)))
    compared = 0
    for place in list_places(read)[1:]:
        for odd in ODD:
            content = copy.deepcopy(good)
            try:
                look_up(content, place[:-1])[place[-1]] = odd
            except (KeyError, TypeError):  # a default, which is not in the line
                continue
            line = Line("file:1", json.dumps(content).encode())
            try:
                full = Record.model_validate_json(line.text)
            except ValidationError:
                with pytest.raises(store.BadRecord):
                    table_record.parse_for_tables(line)
                with pytest.raises((msgspec.DecodeError, ValueError)):
                    table_record.DECODER.decode(line.text)
            else:
                compared += 1
                quick = table_record.parse_for_tables(line)
                assert frames.make_rows([quick]) == frames.make_rows([full]), place
    assert compared > 100


@pytest.mark.parametrize(
    "text",
    [
        b'{"schema_version": 2}',
        b'{"peaks":' * 100_000,
        b'{"a":' * 100_000,
        b"[" * 100_000,
        b'{"case": "\xff"}',
        b'{"case": 1e999}',
        b"null",
        b"",
    ],
)
def test_a_bad_line_has_the_reason_of_the_full_check(text):
    line = Line("file:1", text)
    with pytest.raises(store.BadRecord) as expected:
        store.parse_record(line)
    with pytest.raises(store.BadRecord) as found:
        table_record.parse_for_tables(line)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("moment", ["1969-12-31T23:59:59Z", "9999-01-01T00:00:00Z"])
def test_a_moment_that_no_clock_shows_is_refused(moment):
    content = record().model_dump(mode="json")
    content["provenance"]["measured_at"] = moment
    with pytest.raises(msgspec.ValidationError, match="measured at"):
        table_record.DECODER.decode(json.dumps(content))
    with pytest.raises(store.BadRecord, match="measured_at"):
        table_record.parse_for_tables(Line("file:1", json.dumps(content).encode()))


def test_a_record_in_another_machines_folder_is_named_and_skipped(tmp_path):
    file = store.find_file(tmp_path, "another", "torch-2.13.0")
    store.append(record(), file)
    for read in (Results(tmp_path).read_machine, Results(tmp_path).read_for_tables):
        with pytest.warns(RecordWarning, match="machine m, but in the folder another"):
            assert read("another") == []


def test_times_do_not_count_if_a_step_has_no_round():
    four_rounds = make_turns("block", CASE, rounds=4)
    assert record(step_s=[0.1] * 4, turns=four_rounds).timed
    assert not record(step_s=[0.1] * 5, turns=four_rounds).timed


def test_a_damaged_line_is_named_once(tmp_path):
    file = store.find_file(tmp_path, "m", "torch-2.13.0")
    store.append(record(), file)
    with file.open("a") as lines:
        lines.write("{}\n")
    done = framebench("report", results=tmp_path)
    assert done.stderr.count(f"skipped {file}:2") == 1


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
