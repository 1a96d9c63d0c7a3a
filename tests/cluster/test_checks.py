"""What somebody sends in: real records pass, and each kind of tampering is named."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from framebench.cluster.checks import CheckReport, check, list_files
from framebench.models.spec import Workload
from framebench.records import store
from framebench.records.lines import MOST_FILE_BYTES
from framebench.suite.protocol import VERSION
from tests.processes import framebench, plain_user
from tests.record_files import change_all, change_line, copy_cases, plant
from tests.sample_records import RESULTS

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    """Real records of one block, and what else there is of these cases."""
    cases = [f"transformer/torch/train/{strategy}/b4/cpu" for strategy in ("fp32", "checkpoint")]
    copy_cases(RESULTS, tmp_path, cases)
    return tmp_path


def of_a_block(root: Path) -> list[str]:
    """The line of each of two variants that were alive together; the second has times too."""
    every: dict[str, list[str]] = {}
    for place, found in store.read_files(root):
        if found.turns and found.turns.at_s:
            every.setdefault(found.turns.block, []).append(place)
    return next(found for found in every.values() if len(found) == 2)


def file_of_a_block(root: Path) -> Path:
    """The file of these lines."""
    file, _, _ = of_a_block(root)[0].rpartition(":")
    return Path(file)


def problems(root: Path) -> str:
    return "\n".join(check(root).problems)


def test_records_of_an_older_protocol_are_noted(sent: Path) -> None:
    change_line(of_a_block(sent)[0], lambda r: r["provenance"].update(protocol=VERSION - 1))
    assert any(
        note.startswith("1 of ") and f"older protocol than {VERSION}" in note
        for note in check(sent).notes
    )


def in_float64(**changed: Any) -> dict[str, Any]:
    """What a float64 check says that has passed, changed."""
    right = {
        "case": "c",
        "computed": True,
        "passed": True,
        "worst": "head",
        "error": 1e-12,
        "tolerance": 1e-9,
    }
    return right | changed


def test_a_right_answer_in_float64_is_no_problem(sent: Path) -> None:
    for answer in (in_float64(), in_float64(computed=False, reason="int8")):
        change_line(
            of_a_block(sent)[0],
            lambda r, answer=answer: r["verification"].update(mathematics=answer),
        )
        assert not problems(sent)


FAST = "floating-point operations a second"
TAMPERED: dict[str, tuple[Change, str]] = {
    "a tenth of the time": (lambda r: r.update(step_s=[s / 10 for s in r["step_s"]]), FAST),
    "more time than there was": (
        lambda r: r["step_s"].__setitem__(0, 1000.0),
        "of a process that took",
    ),
    "times of one's own": (
        lambda r: r.update(step_s=[0.5] * len(r["step_s"])),
        "exactly the same time",
    ),
    "a step that lasts into another's": (
        lambda r: r.update(step_s=[s * 1.8 for s in r["step_s"]]),
        "was not over",
    ),
    "a step too few": (lambda r: r["step_s"].pop(), "do not belong together"),
    "another's place": (lambda r: r["turns"].update(arm=r["turns"]["arm"] + 1), "is no variant"),
    "another seed": (lambda r: r["turns"].update(seed=1), "differ in their seed"),
    "another reference": (
        lambda r: r["turns"]["reference_s"].__setitem__(0, 0.02),
        "time of the reference product",
    ),
    "less than the parameters": (
        lambda r: r.update(peaks={"host.rss": 1000}),
        "its parameters alone have",
    ),
    "more than the machine has": (
        lambda r: r.update(peaks={"host.rss": 2**50}),
        "on a machine with",
    ),
    "a peak of no sample": (
        lambda r: r.update(peaks={"host.rss": 10**9}, peak_samples=[{"host.rss": 10**9 + 1}]),
        "none of its samples",
    ),
    "passed beyond its tolerance": (
        lambda r: r["verification"]["relative_error"].update(loss_0=0.5),
        "beyond its tolerance.*\n.*not that of the values",
    ),
    "other references": (
        lambda r: r["verification"].update(golden={"loss_0": 1.0}),
        "other values than those",
    ),
    "a tensor beyond its tolerance": (
        lambda r: next(iter(r["verification"]["tensors"].values())).update(failed=1),
        "tensors of .* are beyond",
    ),
    "wrong mathematics": (
        lambda r: r["verification"].update(mathematics=in_float64(passed=False, reason="x")),
        "mathematics is wrong in float64",
    ),
    "mathematics beyond its tolerance": (
        lambda r: r["verification"].update(mathematics=in_float64(error=1e-5)),
        "in float64, though head is beyond",
    ),
    "mathematics without an error": (
        lambda r: r["verification"].update(mathematics=in_float64(error=None)),
        "in float64, though head is beyond",
    ),
    "mathematics not computed for no reason": (
        lambda r: r["verification"].update(mathematics=in_float64(computed=False)),
        "for no reason that it says",
    ),
    "no verification": (lambda r: r.update(verification=None), "nothing was verified"),
    "wrong with numbers": (
        lambda r: r.update(status="wrong", reason="x"),
        "and yet it has measurements",
    ),
    "no effect": (lambda r: r.update(effect=None), "whether the strategy took effect"),
    "no commit": (lambda r: r["provenance"].update(commit=None), "which code measured"),
    "a protocol to come": (lambda r: r["provenance"].update(protocol=99), "protocol 99"),
    "the future": (
        lambda r: r["provenance"].update(measured_at="2999-01-01T00:00:00Z"),
        "in the future",
    ),
    "no hardware": (lambda r: r["provenance"].update(hardware={}), "machine's cpu, cores"),
    "planted": (lambda r: r["provenance"].update(planted={"spin": 0.1}), "planted"),
    "another machine": (lambda r: r["provenance"].update(machine="mine"), "lies under the machine"),
    "another version": (
        lambda r: r["provenance"].update(versions={"torch": "9"}),
        "lies under torch-2.13.0",
    ),
    "another case": (
        lambda r: r.update(case="unet3d/torch/train/fp32/b4/cpu"),
        "is no variant",
    ),
    "a field of one's own": (lambda r: r.update(better=True), "not a framebench record: better"),
    "a newer schema": (lambda r: r.update(schema_version=9), "written in schema 9"),
    "a reference in no time": (
        lambda r: r["turns"]["reference_s"].__setitem__(0, 0.0),
        "reference_s.0",
    ),
    "a reference in next to no time": (
        lambda r: (
            r["turns"].update(reference_s=[1e-300] * len(r["step_s"])),
            r.update(step_s=[s / 1e9 for s in r["step_s"]]),
        ),
        FAST,
    ),
    "more steps than a float has": (lambda r: r["turns"].update(steps=10**400), "turns.steps"),
    "more threads than a float has": (
        lambda r: r["provenance"].update(threads=10**400),
        "provenance.threads",
    ),
    "before the first year": (
        lambda r: r["provenance"].update(measured_at="0001-01-01T00:00:00+14:00"),
        "measured_at",
    ),
    "memory in words": (
        lambda r: r["provenance"]["hardware"].update(memory_bytes="16 GiB"),
        "memory_bytes is a number",
    ),
    "a scenario of another workload": (
        lambda r: r.update(case="resnet50/torch/varlen/padded/b4/cpu"),
        "is no variant",
    ),
    "a batch that nobody has memory for": (
        lambda r: r.update(case="transformer/torch/varlen/padded/b9999999/cpu"),
        "is no variant",
    ),
    "a larger reference": (
        lambda r: r["turns"].update(reference_flop=1e300),
        "matmul of 1e.300 operations, where it has 4,294,967,296",
    ),
    "no threads": (lambda r: r["provenance"].update(threads=None), "no number of threads"),
    "no time of its process": (lambda r: r.update(spent_s={}), "how long its process took"),
    "fewer instructions than none": (
        lambda r: r.update(instructions=[-5] * len(r["step_s"])),
        "a step of -5 instructions",
    ),
    "compared with nothing": (
        lambda r: r["verification"].update(relative_error={}, tensors={}, tolerance={}),
        "nothing was compared",
    ),
    "no version": (lambda r: r["provenance"].update(versions={}), "no version of torch"),
    "an empty version": (
        lambda r: r["provenance"].update(versions={"torch": ""}),
        "no version of torch",
    ),
    "a version that is a label alone": (
        lambda r: r["provenance"].update(versions={"torch": "+cpu"}),
        "no version of torch",
    ),
    "times of no steps": (lambda r: r["turns"].update(steps=0), "times of 0 steps"),
    "a block without a name": (lambda r: r["turns"].update(block=""), "block has no name"),
    "a block of blanks": (lambda r: r["turns"].update(block=" \t"), "block has no name"),
    "evidence below zero": (
        lambda r: r["effect"].update(evidence={"calls": -1e308}),
        "evidence 'calls' is -1e.308",
    ),
    "evidence that is negative in a list": (
        lambda r: r["effect"].update(evidence={"calls": [1, -1]}),
        "evidence 'calls'",
    ),
    "evidence beyond counting": (
        lambda r: r["effect"].update(evidence={"calls": 10**400}),
        "evidence 'calls' is 1000",
    ),
    "evidence in a depth": (
        lambda r: r["effect"].update(evidence={"calls": [[[[[[1]]]]]]}),
        "evidence 'calls'",
    ),
    "a processor that is a list": (
        lambda r: r["provenance"]["hardware"].update(cpu=["a", "b"]),
        "cpu is .'a', 'b'., which is no str",
    ),
    "cores in words": (
        lambda r: r["provenance"]["hardware"].update(cores="two"),
        "cores is 'two', which is no int",
    ),
    "fewer cores than none": (
        lambda r: r["provenance"]["hardware"].update(cores=-2),
        "cores is -2",
    ),
    "half a core": (
        lambda r: r["provenance"]["hardware"].update(cores=0.5),
        "cores is 0.5, which is no int",
    ),
    "a system that is a number": (
        lambda r: r["provenance"]["hardware"].update(system=5),
        "system is 5, which is no str",
    ),
    "a calibration in no time zone": (
        lambda r: r["provenance"].update(
            calibration={"measured_at": "2026-11-01T00:00:00", "passed": True}
        ),
        "in no time zone",
    ),
    "an order to the terminal": (
        lambda r: r["provenance"].update(versions={"torch": "\x1b[2J\n"}),
        r"torch \?\[2J\?",
    ),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_tampered_records_are_named(name: str, sent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # what a stranger's batch would make here may fill the memory
    monkeypatch.delattr(Workload, "draw_lengths")
    how, message = TAMPERED[name]
    assert not problems(sent)
    change_line(of_a_block(sent)[1], how)
    found = check(sent).problems
    assert re.search(message, "\n".join(found)), found
    assert all(sentence.isprintable() for sentence in found)


def test_records_without_times_have_no_problem(sent: Path) -> None:
    """As `framebench run --rounds 0` writes them."""

    def drop_times(fields: dict[str, Any]) -> None:
        fields.update(step_s=[], instructions=[])
        if fields.get("turns"):
            fields["turns"].update(round=[], at_s=[], reference_s=[], reference_flop=0.0)

    change_all(sent, drop_times)
    assert not problems(sent)


def test_peaks_read_by_nvml_need_no_sample(sent: Path) -> None:
    seen = {
        "peaks": {"host.rss": 10**9, "device.process": 2 * 10**9},
        "peak_samples": [{"host.rss": 10**9}],
    }
    change_line(of_a_block(sent)[1], lambda r: r.update(seen))
    assert not problems(sent)


def test_links_and_unreadable_folders_are_named(sent: Path, tmp_path: Path) -> None:
    (linked := tmp_path / "linked").mkdir()
    (linked / "records").symlink_to(sent / "records", target_is_directory=True)
    assert "records: a link; it was not followed" in problems(linked)
    # a process of pytest-xdist has a folder of its own
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    closed = file_of_a_block(sent).parent
    closed.chmod(0)
    with plain_user():
        assert f"{closed}: Permission denied" in problems(sent)


def test_duplicate_measurements_are_named(sent: Path) -> None:
    file = file_of_a_block(sent)
    lines = file.read_text().splitlines()
    plant(file, lines[0])
    assert f"{file}:{len(lines) + 1}: the same measurement as {file}:1" in problems(sent)


def test_links_pipes_and_large_files_are_not_opened(sent: Path) -> None:
    secret = sent.parent / f"{sent.name}-secret.jsonl"
    secret.write_text("{}\n")
    file = file_of_a_block(sent)
    where = file.parent
    (where / "torch-1.jsonl").symlink_to(secret)
    (where / "linked").symlink_to(sent.parent, target_is_directory=True)
    (where / "evil.py").write_text("raise SystemExit(9)")
    with (where / "torch-2.jsonl").open("w") as large:
        large.truncate(MOST_FILE_BYTES + 1)  # sparse: it takes no space
    os.mkfifo(where / "torch-3.jsonl")
    (where / "torch-4").mkdir()
    (where / "torch-4" / "\x1b[2J.jsonl").write_text("{}\n")
    (where / "torch-4" / "case").mkdir()
    (where / "torch-4" / "case" / "20260101T000000000001.json").write_text("{}")
    found = CheckReport()
    assert list(list_files(sent / "records", found)) == [str(file)]
    assert len(found.problems) == 7
    assert all("not opened" in message for message in found.problems)
    message = check(sent).problems
    assert len(message) == 7
    assert all(sentence.isprintable() for sentence in message)


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"schema_version": 1e999}', "\x00", "", '{"case": "\x1b[2J"}', "9" * 100_000],
)
def test_damaged_files_are_reported_readably(text: str, sent: Path) -> None:
    plant(file_of_a_block(sent), text)
    (message,) = check(sent).problems
    assert "not a framebench record" in message
    assert message.isprintable()


def test_check_results_exits_with_the_verdict(sent: Path) -> None:
    done = framebench("check-results", str(sent))
    assert done.returncode == 0, done.stdout
    assert " 0 problems" in done.stderr
    change_line(of_a_block(sent)[1], TAMPERED["no commit"][0])
    done = framebench("check-results", str(sent), "--json")
    assert done.returncode == 1
    assert len(json.loads(done.stdout)["problems"]) == 1
    assert framebench("check-results", str(sent / "records")).returncode == 1
