"""What somebody sends in: real records pass, and each kind of tampering is named."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from framebench.cluster import checks
from framebench.cluster.checks import check
from framebench.models.spec import Workload
from framebench.records import store
from framebench.records.lines import MOST_FILE_BYTES
from framebench.suite.protocol import VERSION
from tests.processes import framebench, plain_user
from tests.record_files import append_lines, change_all, change_line, copy_cases
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


WRONG = {"case": "c", "computed": True, "passed": True, "worst": "head", "tolerance": 1e-9}
TAMPERED: list[tuple[dict[str, Any], str]] = [
    ({"step_s.0": 1000.0}, "of a process that took"),
    ({"spent_s": {}}, "how long its process took"),
    ({"turns.arm": 7}, "is no variant"),
    ({"turns.steps": 0}, "times of no steps"),
    ({"turns.block": " "}, "a block without a name"),
    ({"turns.seed": 1}, "differ in their seed"),
    ({"turns.round": []}, "do not belong together"),
    ({"turns.reference_s.0": 0.02}, "time of the reference product"),
    ({"turns.reference_flop": 1e300}, "matmul of 1e.300 operations, where it has 4,294,967,296"),
    ({"peaks": {"host.rss": 1000}}, "its parameters alone have"),
    ({"peaks": {"host.rss": 2**50}}, "on a machine with"),
    (
        {"verification.relative_error.loss_0": 0.5},
        "beyond its tolerance.*\n.*not that of the values",
    ),
    ({"verification.tensors.gradient.failed": 1}, "tensors of gradient are beyond"),
    ({"verification.golden": {"loss_0": 1.0}}, "other values than those"),
    (
        {"verification.relative_error": {}, "verification.tensors": {}},
        "nothing was compared",
    ),
    ({"verification.mathematics": WRONG | {"error": 1e-5}}, "in float64, though head is beyond"),
    ({"verification.mathematics": WRONG | {"passed": False}}, "mathematics is wrong in float64"),
    ({"verification.mathematics": WRONG | {"computed": False}}, "for no reason that it says"),
    ({"verification": None}, "nothing was verified"),
    ({"status": "wrong", "reason": "x"}, "and yet it has measurements"),
    ({"effect": None}, "whether the strategy took effect"),
    ({"provenance.commit": None}, "which code measured"),
    ({"provenance.protocol": 99}, "protocol 99"),
    ({"provenance.measured_at": "2999-01-01T00:00:00Z"}, "in the future"),
    ({"provenance.hardware": {}}, "machine's cpu, cores"),
    ({"provenance.planted": {"spin": 0.1}}, "planted"),
    ({"provenance.hardware.cores": "two"}, "machine's cores is two, which is no int"),
    ({"provenance.hardware.cpu": ["x"]}, "cpu is a name"),
    ({"provenance.calibration.measured_at": "2026-11-24T18:27:43"}, "without a time zone"),
    ({"verification.margin": 1.5}, "an error of 1.5 tolerances"),
    ({"effect.evidence.operators": {"mean": -1}}, "counts nothing that can be counted"),
    ({"effect.evidence.activation_bytes": "x"}, "activation_bytes is a number of bytes"),
    ({"provenance.machine": "mine"}, "lies under the machine"),
    ({"provenance.versions": {"torch": "9"}}, "lies under torch-2.13.0"),
    ({"provenance.versions": {}}, "no version of torch"),
    ({"provenance.versions": {"torch": "\x1b[2J\n"}}, r"torch \?\[2J\?"),
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


@pytest.mark.parametrize(
    ("factor", "message"),
    [(0.1, "floating-point operations a second"), (1.8, "was not over")],
    ids=["faster than the processor", "into the next turn"],
)
def test_impossible_times_are_named(factor, message, sent_folder):
    def scale(record):
        record["step_s"] = [seconds * factor for seconds in record["step_s"]]

    change_line(find_block(sent_folder)[1], scale)
    assert message in list_problems(sent_folder)


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


def test_links_and_unreadable_folders_are_named(sent_folder, tmp_path):
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "records").symlink_to(sent_folder / "records", target_is_directory=True)
    assert "records: a link; it was not followed" in list_problems(linked)
    # a process of pytest-xdist has a folder of its own
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    closed = find_file(sent_folder).parent
    closed.chmod(0)
    with plain_user():
        assert f"{closed}: Permission denied" in list_problems(sent_folder)


def test_links_pipes_programs_and_large_files_are_not_opened(sent_folder):
    folder = find_file(sent_folder).parent
    (folder / "torch-1.jsonl").symlink_to("/etc/passwd")
    (folder / "linked").symlink_to(sent_folder.parent, target_is_directory=True)
    (folder / "evil.py").write_text("raise SystemExit(9)")
    with (folder / "torch-2.jsonl").open("w") as large:
        large.truncate(MOST_FILE_BYTES + 1)  # sparse: it takes no space
    os.mkfifo(folder / "torch-3.jsonl")
    (folder / "torch-4").mkdir()
    (folder / "torch-5.jsonl").touch(0o755)
    (folder / "torch-4" / "\x1b[2J.jsonl").write_text("{}\n")
    (folder / "torch-6.jsonl").mkdir()
    problems = check(sent_folder).problems
    assert len(problems) == 8
    assert all("not opened" in line and line.isprintable() for line in problems)


def test_a_folder_of_too_many_files_is_read_in_part(sent_folder, monkeypatch):
    monkeypatch.setattr(checks, "MOST_FILES", 3)
    for number in range(9):
        (find_file(sent_folder).parent / f"note-{number}").touch()
    problems = check(sent_folder).problems
    assert f"{sent_folder / 'records'}: more than 3 files; the rest was not looked at" in problems
    assert sum("not opened" in problem for problem in problems) <= 3


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
