"""What docs/commands.md says: exit codes, one way to name cases, and whose records a command reads."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from framebench.analysis.results import Results as Folder
from framebench.budget.advise import command as advice
from framebench.claims import show
from framebench.cli import run
from framebench.cli.shared import Parts, app, parts
from framebench.records import store
from framebench.suite.case import Case, UnknownCase
from framebench.suite.protocol import VERSION
from framebench.suite.selectors import parse
from tests.handmade import made, provenance
from tests.material import IN_HERE, MACHINE, RESULTS
from tests.processes import ROOT, framebench

ROW = re.compile(r"^\| (\d+) \| .* \| `framebench (.*)` \|$", re.M)
PAGE = (ROOT / "docs" / "commands.md").read_text()
EXAMPLES = [(int(code), command) for code, command in ROW.findall(PAGE)]
TRAIN = Case("unet3d", "torch", "train", "checkpoint", 4)
B2 = (TRAIN, Case("unet3d", "torch", "train", "fp32", 4))  # cases of a claim


def planted(results: Path, machine: str, version: str = "1", **changes: Any) -> None:
    """One record."""
    origin = provenance(machine=machine, versions={"torch": version}, protocol=VERSION)
    record = made("fp32", 100, 1.0).model_copy(update={"provenance": origin, **changes})
    store.write(record, store.folder(results, machine, f"torch-{version}", record.parsed))


def published(results: Path, machine: str, cases: tuple[Case, ...] = B2) -> None:
    """Real records, under this name."""
    for case in cases:
        found = store.folder(RESULTS, MACHINE, "torch-2.13.0", case)
        kept = Path(shutil.copytree(found, store.folder(results, machine, "torch-2.13.0", case)))
        for path in kept.iterdir():
            text = json.loads(path.read_text())
            text["provenance"]["machine"] = machine
            path.write_text(json.dumps(text))


def test_the_page_has_every_exit_code() -> None:
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.M)]
    assert codes == [0, 1, 2, 3, 130]
    assert [code for code, _ in EXAMPLES] == [0, 1, 2, 130], "no command is undecided whatever was measured"
    assert all(re.search(rf"\b{code}: ", str(app.info.epilog)) for code in codes)


@pytest.mark.parametrize(("code", "command"), EXAMPLES)
def test_the_examples_of_exit_codes(code: int, command: str, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are printed; what measures has a folder of its own, since another process may be measuring."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run.installed, "ready", interrupted)
    words = shlex.split(command)
    done = framebench(*words, *(["--results", str(results)] if words[0] == "run" else []))
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_two_releases_with_one_block_each_are_undecided(results: Path) -> None:
    for version in "12":
        planted(results, "m", version, peaks={})  # times alone, of one process
    assert framebench("versions", "compare", "torch==1", "torch==2", "--results", str(results)).returncode == 3


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ("transformer/*/train/*/b4/cpu", Parts("transformer", None, "train", None, 4, "cpu")),
        ("unet3d//eval", Parts("unet3d", None, "eval")),
        ("", Parts()),
        ("resnet50/torch/train/fp32/*", Parts("resnet50", "torch", "train", "fp32")),
    ],
)
def test_what_a_selector_leaves_out_is_left_open(selector: str, said: Parts) -> None:
    assert parts(selector) == said


@pytest.mark.parametrize("selector", ["a/b/c/d/b1/f/g", "transformer/torch/train/fp32/4", "transformer/torch/train/fp32/b0"])
def test_a_selector_that_is_none_is_answered(selector: str) -> None:
    with pytest.raises(UnknownCase, match=r"b8|bN"):
        parts(selector)


def test_a_question_is_named_as_cases_are(monkeypatch: pytest.MonkeyPatch, results: Path) -> None:
    """By one selector, whose missing parts have defaults."""
    asked = []
    monkeypatch.setattr(advice, "answering", lambda *_: ["m"])

    def remember(*parts: str | None) -> tuple[str, ...]:
        asked.append(parts)
        raise UnknownCase("enough")

    monkeypatch.setattr(advice, "checked", remember)
    framebench("advise", "unet3d/jax/eval/*/b4/tiny", "--budget", "1GiB")
    framebench("advise", "--budget", "1GiB")
    framebench("advise", "unet3d/*/train/{checkpoint,fp32}", "--budget", "1GiB")
    assert asked == [
        ("unet3d", "jax", "eval", "tiny", None), ("transformer", "*", "train", "cpu", None),
        ("unet3d", "*", "train", "cpu", "{checkpoint,fp32}"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (["advise", "unet3d/*/train/magic", "--budget", "1GiB"], "choose from: "),
        (["advise", "unet3d/*/train/checkpoint/b4", "--ranks", "2", "--budget", "1GiB"], "leave 'checkpoint' out"),
        (["advise", "unet3d/tensorflow", "--budget", "1GiB"], "choose from: torch, jax, jittor"),
        (["max-batch", "--budget", "1GiB"], "which workload?"),
        (["max-batch", "unet3d/torch/train/fp32/b4", "--budget", "1GiB"], "leave b4 out"),
        (["max-batch", "unet3d/torch/train/magic", "--budget", "1GiB"], "choose from: "),
        (["evaluate", "unet3d/torch/train", "--budget", "1GiB"], "eval/no_grad alone"),
        (["evaluate", "unet3d", "--budget", "1GiB"], "not 3"),
    ],
)
def test_questions_that_cannot_be_meant(command: list[str], named: str) -> None:
    done = framebench(*command)
    assert done.returncode == 2
    assert named in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_this_machine_answers_where_it_can_and_else_the_published_one(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMEBENCH_MACHINE", "here")
    planted(results, "here")
    published(results, "published")
    own = framebench("show", "transformer/torch/train/fp32", "--results", str(results))
    assert "transformer/torch/train/fp32/b4/tiny" in own.stdout
    assert "machine here, this one; --machine takes the records of another: published" in own.stderr
    other = framebench("show", "unet3d/torch/train/checkpoint", "--results", str(results))
    assert TRAIN.id in other.stdout
    assert (
        "machine published, as this one, here, has no such records; --machine takes the records of another: here"
        in other.stderr
    )
    assert framebench("show", TRAIN.id, "--machine", "here", "--results", str(results)).returncode == 1
    monkeypatch.setenv("FRAMEBENCH_MACHINE", "elsewhere")
    told = [framebench("show", case, "--results", str(results)).stderr for case in ("transformer/torch/train/fp32", TRAIN.id)]
    assert sorted("has no such records" in one for one in told) == [False, True], "of one of them the first machine has none"
    everybody = framebench("show", "--machine", "all", "--results", str(results)).stdout
    assert "  here, 1\n" in everybody
    assert "  published, 2.13.0" in everybody


def test_numbers_that_nobody_measured_are_null(results: Path) -> None:
    """A program asks for the same keys of every row."""
    planted(results, "m", peaks={}, step_s=[])
    (row,) = json.loads(framebench("show", "--machine", "m", "--json", "--results", str(results)).stdout)
    lacking = (
        "peak_bytes", "peak_ratio", "cold_peak_bytes", "time_ratio", "time_ratio_low", "time_ratio_high",
        "instructions_per_step",
    )  # fmt: skip
    assert {name: row[name] for name in lacking} == dict.fromkeys(lacking)
    assert row["blocks"] == 0


def test_a_claim_that_was_not_measured_here_comes_from_the_published_machine(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first `make bench` of a machine the ledger is not empty."""
    monkeypatch.setenv("FRAMEBENCH_MACHINE", "here")
    planted(results, "here")
    published(results, "published")
    done = framebench("claims", "B2", "--results", str(results))
    assert "machine here, this one, has measured 0 of 2 claims; the others are those of published" in done.stderr

    def passes(*options: str) -> tuple[str, bool]:
        """Of the claim's part about passes: the machine, and whether one of its arms was measured."""
        found = json.loads(framebench("claims", "B2", "--json", *options, "--results", str(results)).stdout)
        (part,) = (entry for entry in found if entry["part"] == "passes")
        return part["machine"], bool(part["records"])

    assert passes() == ("published", True)
    assert passes("--machine", "here") == ("here", False)
    published(results, "here")
    assert passes() == ("here", True)


def test_what_the_published_machine_lacks_documents_have_from_another(results: Path) -> None:
    most = [Case("transformer", "torch", "train", "fp32", batch) for batch in (1, 2, 4, 8, 16)]
    published(results, "published", (*most, parse("transformer/torch/train/fsdp/b4x2")))
    published(results, "another")
    (added,) = [one for one in show.tables(Folder(results)) if one.title == "Claims, measured elsewhere than on published"]
    assert added.machine == "another"
    assert {"A8", "B2 passes"} <= {row[0] for row in added.rows}
    assert all(row[4] != "not measured" for row in added.rows)


def test_a_claim_with_a_verdict_but_no_record_is_not_counted_as_measured_here(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C22's listing was not kept and D1 is about Julia, whoever measured."""
    monkeypatch.setenv("FRAMEBENCH_MACHINE", "here")
    published(results, "here")
    published(results, "published")
    done = framebench("claims", "C22", "B2", "D1", "--json", "--results", str(results))
    assert "machine here, this one, has measured 2 of 4 claims; the others are those of published" in done.stderr
    found = [(entry["id"], entry["machine"]) for entry in json.loads(done.stdout)]
    assert {machine for name, machine in found if name == "B2"} == {"here"}
    assert {machine for name, machine in found if name != "B2"} == {"published"}


def test_show_says_the_step_time_that_programs_get() -> None:
    """Over all blocks, as the tables have it, and not that of the newest process."""
    asked = ("show", "transformer/torch/train/fp32/b4/cpu", *IN_HERE)
    (row,) = json.loads(framebench(*asked, "--json").stdout)
    assert f"{row['step_time_s'] * 1e3:.1f} ms/step" in framebench(*asked).stdout


def test_a_report_of_some_cases_is_of_nothing_else() -> None:
    said = framebench("report", "transformer/torch/train/fsdp/b4x2", *IN_HERE).stdout
    assert "Over ranks: train" in said
    assert "States of Adam" not in said


def test_comparing_two_cases_leaves_what_advice_and_the_answer_say(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two records of this machine, ten times as slow, stand beside the published ones and hide none of them."""
    monkeypatch.setenv("FRAMEBENCH_MACHINE", "here")
    shutil.copytree(RESULTS / "records" / MACHINE, results / "records" / MACHINE)
    asked = "advise", "transformer/*/train/*/b4", "--budget", "1GiB", "--json", "--results", str(results)
    advised = json.loads(framebench(*asked).stdout)
    answered = framebench("answer", "--results", str(results)).stdout
    for strategy in ("fp32", "checkpoint"):
        case = Case("transformer", "torch", "train", strategy, 4)
        published(results, "here", (case,))
        for path in store.folder(results, "here", "torch-2.13.0", case).iterdir():
            told = json.loads(path.read_text())
            path.write_text(json.dumps(told | {"step_s": [10 * s for s in told["step_s"]]}))
    again = json.loads(framebench(*asked).stdout)
    names = ("case", "peak_bytes", "throughput", "fits", "judged_by")
    assert [[offer[n] for n in names] for offer in again["fitting"]] == [
        [offer[n] for n in names] for offer in advised["fitting"]
    ]
    assert again["machine"] == MACHINE
    assert {offer["machine"] for offer in again["fitting"]} == {"here", MACHINE}
    said = framebench("answer", "--results", str(results)).stdout
    column = [line.split("│")[1:6] for line in said.splitlines() if line.startswith("│")]
    assert column == [line.split("│")[1:6] for line in answered.splitlines() if line.startswith("│")]
    assert "with cases measured on here: transformer torch" in said


def test_no_case_is_not_every_case() -> None:
    done = framebench("run", "")
    assert done.returncode == 2
    assert "'' names no case" in done.stderr


def test_advice_is_sorted_by_memory_where_that_is_asked() -> None:
    asked = "advise", "transformer/*/train/*/b4", "--budget", "1GiB", "--sort", "memory", *IN_HERE
    peaks = [offer["peak_bytes"] for offer in json.loads(framebench(*asked, "--json").stdout)["fitting"]]
    assert peaks == sorted(peaks)
    said = framebench(*asked).stdout
    assert "smallest peak first" in said
    assert "has the smallest peak;" in said
    assert framebench("advise", "--budget", "1GiB", "--sort", "name", *IN_HERE).returncode == 2


def test_any_batch_is_none_in_particular() -> None:
    one, other = (
        framebench("advise", f"transformer/torch/train/*{b}", "--budget", "1GiB", "--json", *IN_HERE) for b in ("", "/b*")
    )
    assert one.stdout == other.stdout
    assert not one.returncode


def test_frameworks_are_named_as_strategies_are() -> None:
    asked = "advise", "transformer/{torch,jax}/train/*/b4", "--budget", "1GiB", "--json", *IN_HERE
    assert {offer["framework"] for offer in json.loads(framebench(*asked).stdout)["fitting"]} == {"torch", "jax"}
