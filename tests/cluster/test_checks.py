"""What somebody sends in: real records pass, and each kind of tampering is named."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from framebench.cluster.checks import check
from framebench.models.spec import Workload
from framebench.records import store
from framebench.suite.protocol import VERSION
from tests.processes import framebench, plain_user
from tests.record_files import append_lines, change_all, change_line, copy_cases
from tests.records.test_strangers_folder import HOSTILE
from tests.sample_records import RESULTS


@pytest.fixture
def sent_folder(tmp_path) -> Path:
    """Return real records of one block, and what else there is of these cases."""
    cases = [f"transformer/torch/train/{strategy}/b4/cpu" for strategy in ("fp32", "checkpoint")]
    copy_cases(RESULTS, tmp_path, cases)
    return tmp_path


def find_block(root: Path) -> list[str]:
    """Return the line of each of two variants that were alive together; the second has times."""
    blocks = defaultdict(list)
    for place, record in store.read_files(root):
        if record.turns and record.turns.at_s:
            blocks[record.turns.block].append(place)
    pairs = [places for places in blocks.values() if len(places) == 2]
    return pairs[0]


def find_file(root: Path) -> Path:
    """Return the file of these lines."""
    return Path(find_block(root)[0].rpartition(":")[0])


def tamper(root: Path, changes: dict[str, Any]) -> None:
    """Change fields of one record, such as `turns.seed`."""

    def change(record: Any) -> None:
        for path, value in changes.items():
            fields = record
            *parents, last = path.split(".")
            for name in parents:
                fields = fields[name]
            if isinstance(fields, list):
                fields[int(last)] = value
            else:
                fields[last] = value

    change_line(find_block(root)[1], change)


def list_problems(root: Path) -> str:
    """Return all problems, one a line."""
    return "\n".join(check(root).problems)


def test_records_of_an_older_protocol_are_noted(sent_folder):
    tamper(sent_folder, {"provenance.protocol": VERSION - 1})
    assert any(
        note.startswith("1 of ") and "older protocol" in note for note in check(sent_folder).notes
    )


WRONG = {"case": "c", "computed": True, "passed": False}
TAMPERED: list[tuple[dict[str, Any], str]] = [
    ({"step_s.0": 1000.0}, "of a process that took"),
    ({"spent_s": {}}, "how long its process took"),
    ({"turns.arm": 7}, "is no variant"),
    ({"turns.seed": 1}, "differ in their seed"),
    ({"turns.round": []}, "do not belong together"),
    ({"peaks": {"host.rss": 1000}}, "its parameters alone have"),
    ({"peaks": {"host.rss": 2**50}}, "on a machine with"),
    ({"verification.relative_error.loss_0": 0.5}, "loss_0 is beyond its tolerance"),
    ({"verification.tensors.gradient.failed": 1}, "tensors of gradient are beyond"),
    ({"verification.golden": {"loss_0": 1.0}}, "other values than those"),
    (
        {"verification.relative_error": {}, "verification.tensors": {}},
        "nothing was compared",
    ),
    ({"verification.verified_in": "s/group/0.0"}, "of which no record is here"),
    ({"verification.mathematics": WRONG}, "mathematics is wrong in float64"),
    ({"verification": None}, "nothing was verified"),
    ({"status": "wrong", "reason": "x"}, "and yet it has measurements"),
    ({"effect": None}, "whether the strategy took effect"),
    ({"provenance.commit": None}, "which code measured"),
    ({"provenance.protocol": 99}, "protocol 99"),
    ({"provenance.measured_at": "2999-01-01T00:00:00Z"}, "in the future"),
    ({"provenance.hardware": {}}, "machine's cpu, cores"),
    ({"provenance.planted": {"spin": 0.1}}, "planted"),
    ({"provenance.hardware.cpu": ["x"]}, "cpu is a name"),
    ({"verification.margin": 1.5}, "an error of 1.5 tolerances"),
    ({"effect.evidence.activation_bytes": "x"}, "activation_bytes is a number of bytes"),
    ({"provenance.machine": "mine"}, "lies under the machine"),
    ({"provenance.versions": {"torch": "9"}}, "lies under torch-2.13.0"),
    ({"provenance.versions": {}}, "no version of torch"),
    ({"provenance.versions": {"torch": "\x1b[2J\n"}}, r"torch \\u001b\[2J"),
    ({"better": True}, "not a framebench record: better"),
    ({"case": "transformer/torch/varlen/padded/b9999999/cpu"}, "is no variant"),
]


@pytest.mark.parametrize(("changes", "message"), TAMPERED)
def test_tampered_records_are_named(changes, message, sent_folder, monkeypatch):
    # what a stranger's batch would make here may fill the memory
    monkeypatch.delattr(Workload, "draw_lengths")
    tamper(sent_folder, changes)
    problems = list_problems(sent_folder)
    assert re.search(message, problems), problems
    assert all(line.isprintable() for line in problems.split("\n"))


def test_times_that_no_processor_reaches_are_named(sent_folder):
    def divide_by_ten(record):
        record["step_s"] = [seconds / 10 for seconds in record["step_s"]]

    change_line(find_block(sent_folder)[1], divide_by_ten)
    assert "floating-point operations a second" in list_problems(sent_folder)


def test_real_records_have_no_problem_also_without_times(sent_folder):
    """`framebench run --rounds 0` writes some without."""

    def drop_times(fields):
        fields.update(step_s=[], instructions=[])
        if fields.get("turns"):
            fields["turns"].update(round=[], at_s=[], reference_s=[], reference_flop=0.0)

    assert not list_problems(sent_folder)
    change_all(sent_folder, drop_times)
    assert not list_problems(sent_folder)


def test_duplicate_measurements_are_named(sent_folder):
    file = find_file(sent_folder)
    lines = file.read_text().splitlines()
    append_lines(file, lines[0])
    assert f"{file}:{len(lines) + 1}: the same measurement as {file}:1" in list_problems(
        sent_folder
    )


def test_an_unreadable_folder_is_named(sent_folder, tmp_path):
    # a process of pytest-xdist has a folder of its own
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    closed = find_file(sent_folder).parent
    closed.chmod(0)
    with plain_user():
        assert f"{closed}: Permission denied" in list_problems(sent_folder)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_among_the_records_is_named(kind, sent_folder):
    hostile = find_file(sent_folder).with_name("torch-9.jsonl")
    HOSTILE[kind](hostile)
    assert f"{hostile}:" in list_problems(sent_folder)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 100_000, "cut off or no JSON, or nested too deep"),
        ("\x00", "not a framebench record"),
        ('{"case": "\x1b[2J"}', "not a framebench record"),
    ],
)
def test_damaged_files_are_reported_readably(text, reason, sent_folder):
    append_lines(find_file(sent_folder), text)
    (message,) = check(sent_folder).problems
    assert reason in message
    assert message.isprintable()


def test_check_results_exits_with_the_verdict(sent_folder):
    done = framebench("check-results", sent_folder, code=0)
    tamper(sent_folder, {"provenance.commit": None})
    done = framebench("check-results", sent_folder, "--json", code=1)
    assert len(json.loads(done.stdout)["problems"]) == 1
    framebench("check-results", sent_folder / "records", code=1)
