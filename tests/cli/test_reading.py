"""Commands that read records: rows, tables, machines, and what cannot be read."""

from __future__ import annotations

import csv
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import Mock

import pytest

from framebench import load
from framebench.analysis import rendering
from framebench.budget.predict import command as command_of_predict
from framebench.cli import reading, run
from framebench.records import store
from framebench.records.provenance import describe_hardware, read_machine_name
from framebench.suite.case import Case
from framebench.suite.selectors import select
from tests.callbacks import refuse_work
from tests.fake_records import make_crash_without_version, make_measured
from tests.processes import framebench, make_fake_environment, plain_user, read_json
from tests.record_files import add_records, append_lines, load_fields, save_fields
from tests.sample_records import MACHINE, RESULTS

CASE = "transformer/torch/train/fp32/b4/tiny"


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Path:
    """Return the results of one measured and one unsupported case, by a worker that acts."""
    folder = tmp_path_factory.mktemp("cli")
    results = folder / "results"
    python = make_fake_environment("engine/failing_worker.py", folder).python
    cases = (CASE, "transformer/torch/train/rewrite/b4/tiny")
    framebench("run", *cases, "--rounds", 3, "--env", python, results=results, code=0)
    return results


def test_show_prints_flat_rows(measured):
    ok, unsupported = read_json("show", results=measured)
    assert (ok["case"], ok["status"]) == (CASE, "ok")
    assert ok["verified"]
    assert ok["effect_proven"]
    assert ok["peak_bytes"] > 0
    assert ok["step_time_s"] > 0
    assert unsupported["status"] == "unsupported"
    assert unsupported["reason"]
    assert unsupported["peak_bytes"] is None
    assert unsupported["verified"] is None


def test_show_has_the_needs_of_the_published_table():
    """Searches under a limit say what the process keeps next to its peak."""
    case = "transformer/torch/train/fp32/b4/cpu"
    machine = "zen4-2core"
    rows = read_json("show", case, "--machine", machine)
    df = load(machine=machine).set_index("case")
    version = df.loc[case, "framework_version"]
    (row,) = [row for row in rows if row["framework_version"] == version]
    assert row["kept_bytes"] == df.loc[case, "kept_bytes"] > 0
    assert row["needs_bytes"] == df.loc[case, "needs_bytes"]


def test_show_has_ratios_without_selecting_the_baseline(results):
    add_records(results, make_measured("fp32", 200), make_measured("checkpoint", 100))
    (row,) = read_json("show", "transformer/torch/train/checkpoint/b4/tiny", results=results)
    assert (row["strategy"], row["peak_ratio"]) == ("checkpoint", 0.5)


def test_report_has_ratios_without_selecting_the_baseline(results):
    add_records(results, make_measured("fp32", 200), make_measured("checkpoint", 100))
    add_records(results, make_measured("accumulate", 150))

    done = framebench("report", "*/*/train/checkpoint", results=results, code=0)

    row = next(line for line in done.stdout.splitlines() if " checkpoint " in line)
    assert " 0.50 " in row
    assert "accumulate" not in done.stdout
    assert "no ratios" not in done.stderr


def test_report_says_which_baseline_has_no_record(results):
    add_records(results, make_measured("checkpoint", 100))
    done = framebench("report", "*/*/train/checkpoint", results=results, code=0)
    baseline = "transformer/torch/train/fp32/b4/tiny"
    assert "no ratios to 1 baseline without a record" in done.stderr
    assert f"framebench run '{baseline}' --results {results}" in done.stderr


def test_report_prints_no_table_without_rows(results):
    """Of these releases nothing is decided: each has one process, by an instrument with noise."""
    for version, peak in (("1.0", 100_000_000), ("1.1", 101_000_000)):
        add_records(results, make_measured("fp32", peak, origin={"versions": {"torch": version}}))
    done = framebench("report", "*/*/train/fp32", results=results, code=0)
    assert "transformer train, batch 4" in done.stdout
    assert "1.1 against 1.0" not in done.stdout


def test_answer_names_the_cases_it_is_about_and_takes_one_workload():
    options = ("--machine", MACHINE)
    everything = framebench("answer", *options, results=RESULTS, code=0).stdout
    one = framebench("answer", "transformer", *options, results=RESULTS, code=0).stdout
    assert "Of transformer b4/cpu and unet3d b4/cpu" in " ".join(everything.split())
    assert "Of transformer b4/cpu. Models" in " ".join(one.split())
    assert "unet3d" not in one


def test_report_prints_a_summary_and_writes_all_tables(measured, tmp_path):
    options = ("--machine", read_machine_name(), "--to", tmp_path)
    printed = framebench("report", *options, results=measured).stdout
    assert "transformer/*/train/*/*/tiny" in printed
    assert len(printed.splitlines()) < 40
    (written,) = tmp_path.iterdir()
    assert "| torch | fp32 |" in written.read_text()


def test_report_prints_each_table_once():
    options = "transformer/torch/train/*/b4/cpu", "--machine", MACHINE
    printed = {}
    for form in ((), ("--short",)):
        lines = framebench("report", *options, *form, results=RESULTS, code=0).stdout.splitlines()
        printed[form] = [line for line in lines if line.startswith(f"{MACHINE}: ")]
    whole, short = printed.values()
    assert f"{MACHINE}: transformer train, batch 4, size cpu" in whole
    assert f"{MACHINE}: transformer train, batch 4, size cpu, in short" in short
    assert not any(title.endswith(", in short") for title in whole)
    assert all(title.endswith(", in short") for title in short)


def test_report_in_short_shows_named_strategies_that_are_all_usual():
    options = "transformer/torch/train/{fp32,checkpoint}/b4/cpu", "--machine", MACHINE, "--short"
    printed = framebench("report", *options, results=RESULTS, code=0).stdout
    assert f"{MACHINE}: transformer train, batch 4, size cpu" in printed
    assert "checkpoint" in printed


@pytest.mark.parametrize("options", [(), ("--html",), ("*/torch", "--to", "x")])
def test_report_in_short_is_of_named_cases_alone(options):
    done = framebench("report", "--short", *options, results=RESULTS, code=2)
    assert "--short" in done.stderr or "--to takes" in done.stderr


def test_no_table_has_two_columns_of_one_name():
    tables: dict[str, list[str]] = {}
    with rendering.COLUMNS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            tables.setdefault(row["table"], []).append(row["name"])
    tables["strategies"] += tables.pop("details")  # both are columns of one table
    for name, columns in tables.items():
        assert len(set(columns)) == len(columns), name


@pytest.fixture
def real(tmp_path) -> Path:
    """Return a results folder with one real record, as if it were of CASE."""
    file = store.find_file(RESULTS, MACHINE, "torch-2.13.0")
    one = next(fields for fields in load_fields(file) if fields["case"].startswith("transformer/"))
    save_fields(tmp_path / file.relative_to(RESULTS), [one | {"case": CASE}])
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [["show"], ["report", "--html"], ["predict", CASE]],
)
def test_an_unknown_machine_lists_the_known_ones(command, real, monkeypatch):
    """One way to say whose records are meant, wherever there is a choice."""
    monkeypatch.setattr(
        command_of_predict.hypothetical,
        "explain_unpredictable",
        Mock(return_value="not asked here"),
    )
    done = framebench(*command, "--machine", "nowhere", results=real)
    (there,) = (real / "records").iterdir()
    assert done.returncode == 2
    assert f"no records of machine 'nowhere' under {real}; machines: {there.name}" in done.stderr


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """Yield a folder that other users may enter; pytest's own are closed."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def test_unreadable_results_are_reported(real, shared_folder):
    results = Path(shutil.copytree(real, shared_folder / "results"))
    results.chmod(0o755)  # pytest's own is closed
    (machine,) = (results / "records").iterdir()
    # imports what it needs, from where other users may not read
    framebench("show", results=results, code=0)
    machine.chmod(0)
    with plain_user():
        done = framebench("show", results=results)
    machine.chmod(0o755)
    assert done.returncode == 1
    assert "Permission denied" in done.stderr
    assert "measure first" not in done.stderr


def test_an_unreadable_machine_is_named_and_skipped(real, shared_folder):
    results = Path(shutil.copytree(real, shared_folder / "results"))
    results.chmod(0o755)
    closed = results / "records" / "closed"
    closed.mkdir(mode=0o700)
    for command in ("answer", "show", "report", "claims list", "advise transformer --budget 1GiB"):
        # imports what it needs, from where other users may not read
        as_root = framebench(*command.split(), results=results)
        with plain_user():
            done = framebench(*command.split(), results=results)
        assert (done.returncode, done.stdout) == (as_root.returncode, as_root.stdout), command
        assert done.stderr.count(f"skipped {closed}: Permission denied") == 1, command


def test_nothing_is_measured_if_results_cannot_be_written(shared_folder, monkeypatch):
    monkeypatch.setattr(run.installed, "find_environments", refuse_work)
    closed = shared_folder / "results" / "records"
    closed.mkdir(parents=True)
    closed.chmod(0o555)
    (shared_folder / "results").chmod(0o777)
    with plain_user():
        done = framebench("run", CASE, results=shared_folder / "results")
    assert (done.returncode, done.stderr) == (
        1,
        f"framebench: Nothing can be written there: {closed}; nothing was measured yet\n",
    )


UNREADABLE = {
    "newer": '{"schema_version": 2}',
    "cut off": '{"case": ',
    "of no case": '{"case": "a/b", "status": "ok"}',
}


def test_the_machine_that_answers_most_of_a_question_is_read(tmp_path):
    widest, asked = {"machine": "widest"}, {"machine": "asked"}
    add_records(
        tmp_path,
        make_measured("fp32", 2**20, origin=widest),
        make_measured("fp32", 2**20, batch=8, origin=widest),
        make_measured("no_grad", 2**20, scenario="eval", origin=widest),
        make_measured("fp32", 2**20, origin=asked),
        make_measured("checkpoint", 2**20, origin=asked),
    )

    question = "transformer/*/train/*/b4/tiny"
    both = framebench("show", question, results=tmp_path)
    advised = framebench("advise", question, "--budget", "1GiB", results=tmp_path)
    every = framebench("show", results=tmp_path)

    assert "checkpoint" in both.stdout
    for done in (both, advised):
        assert "machine asked, which has more of what was asked for; --machine" in done.stderr
        assert "the records of another: widest" in done.stderr
    assert "machine widest;" in every.stderr


@pytest.fixture
def alike_and_largest(results, monkeypatch) -> Path:
    """Return records of `alike`, which has this processor, and of `largest`, which has more."""
    monkeypatch.setattr(command_of_predict, "predict_by_fake_tensors", predict_nothing)
    write_batches(results, "largest", "another", (4, 8))
    write_batches(results, "alike", describe_hardware()["cpu"], (4,))
    return results


@pytest.mark.parametrize("command", ["show", "report"])
def test_a_machine_that_measured_more_of_the_cases_is_named(command, alike_and_largest):
    done = framebench(command, "transformer/torch/train/fp32", results=alike_and_largest, code=0)
    assert "machine alike, with this processor" in done.stderr
    assert "alike has 1 of the cases, largest has 2" in done.stderr


def test_predict_answers_by_the_machine_with_this_processor(alike_and_largest):
    done = framebench("predict", CASE, results=alike_and_largest, code=0)
    assert "machine alike, with this processor" in done.stderr
    assert "host.rss on alike" in done.stdout


def test_predict_and_advise_say_the_same_of_a_case(results, monkeypatch):
    """Both draw the line through the batches of the machine that measured most of them."""
    monkeypatch.setattr(command_of_predict, "predict_by_fake_tensors", predict_nothing)
    write_batches(results, "largest", "another", (4, 8, 16))
    write_batches(results, "alike", describe_hardware()["cpu"], (4,))
    case = "transformer/torch/train/fp32/b32/tiny"
    predictions = read_json("predict", case, results=results)["predictions"]
    (predicted,) = [one for one in predictions if one["method"] == "records"]
    (advised,) = read_json("advise", case, "--budget", "1GiB", results=results)["fitting"]
    assert predicted["machine"] == advised["machine"] == "largest"
    assert predicted["needs_bytes"] == advised["needs_bytes"]


@pytest.mark.parametrize(("framework", "is_undone"), [("jax", True), ("torch", False)])
def test_a_bound_that_a_cpu_does_not_come_near_says_so(framework, is_undone, results, monkeypatch):
    """XLA:CPU computes in float32 what the bound has in bfloat16."""
    monkeypatch.setattr(command_of_predict, "predict_by_fake_tensors", predict_nothing)
    write_batches(results, "here", "any", (4,))
    case = f"transformer/{framework}/train/amp_bf16+checkpoint/b4/tiny"
    done = framebench("predict", case, results=results)
    assert ("on a CPU expect more, as XLA:CPU widens" in done.stdout) == is_undone


def predict_nothing(case: Case) -> command_of_predict.PeakPrediction:
    return command_of_predict.PeakPrediction("fake tensors", None, None, "not asked here")


def write_batches(results: Path, machine: str, cpu: str, batches: tuple[int, ...]) -> None:
    """Write a right record of each batch, as if a machine with this processor had measured it."""
    origin = {"machine": machine, "hardware": {"cpu": cpu, "device": "cpu"}}
    for batch in batches:
        add_records(results, make_measured("fp32", batch * 2**20, batch=batch, origin=origin))


def plant_machine(results: Path, content: str, name: str = "other") -> None:
    """Put lines into a results folder that are no readable records, more than the machine has."""
    append_lines(store.find_file(results, name, "torch-2.13.0"), *[content] * 30)


@pytest.mark.parametrize(
    ("command", "content"),
    [
        ("show", "newer"),
        ("show", "cut off"),
        ("show", "of no case"),
        ("answer", "cut off"),
        ("report --html --to TO", "cut off"),
        ("claims", "cut off"),
    ],
)
def test_a_machine_without_a_readable_record_takes_no_other_down(command, content, real, tmp_path):
    words = command.replace("TO", str(tmp_path / "to")).split()
    alone = framebench(*words, results=real)
    plant_machine(real, UNREADABLE[content])
    done = framebench(*words, results=real)
    assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout)
    assert "skipped 10 more records that cannot be read" in done.stderr
    assert "--machine" not in done.stderr, "there is nothing to choose"


def test_records_of_a_newer_framebench_are_named(results):
    plant_machine(results, UNREADABLE["newer"])
    done = framebench("show", results=results, code=1)
    assert "newer than this framebench knows" in done.stderr


@pytest.mark.parametrize(
    ("selector", "heading", "support"),
    [
        (
            "*/jittor/train/amp_bf16",
            "Jittor does not have",
            "amp_bf16 on a CPU Jittor's matrix products run in oneDNN",
        ),
        (
            "*/torch/train/amp_bf16+checkpoint",
            "PyTorch has",
            "amp_bf16+checkpoint native: torch.autocast",
        ),
    ],
)
def test_a_strategy_is_listed_with_its_support_or_the_reason(selector, heading, support):
    printed = framebench("list", "--strategies", selector).stdout
    text = re.sub(r"[\s│]+", " ", printed)
    assert heading in text
    assert support in text


@pytest.mark.parametrize(
    ("selector", "is_said"),
    [("*/jittor/eval", True), ("*/jittor/eval/fp16", True), ("*/torch/eval", False)],
)
def test_strategies_never_tried_on_a_gpu_are_marked_so(selector, is_said):
    printed = framebench("list", "--strategies", selector).stdout
    assert "(GPU)" in printed
    assert ("was not run on CUDA" in " ".join(printed.split())) is is_said


@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        ("resnet50", "others: tiny, px224, full. For example: framebench list 'X/*/*/*/*/tiny'"),
        (
            "resnet50/jax/eval",
            "others: tiny, px224, full. For example: framebench list 'X/*/*/tiny'",
        ),
        (
            "resnet50/jax/eval/no_grad/b8",
            "others: tiny, px224. For example: framebench list X/tiny",
        ),
        ("resnet50/jax/eval/no_grad/b8/cpu", None),
        ("resnet50/jax/eval/no_grad/*/tiny", None),
    ],
)
def test_a_list_of_the_default_size_names_the_others(selector, hint):
    """The hint, where X is the selector, is no line of the list. A named size needs no hint."""
    listed = framebench("list", selector)
    sizes = {line.split()[0].rpartition("/")[2] for line in listed.stdout.splitlines()}
    assert sizes == {"cpu" if hint else selector.rpartition("/")[2]}
    if hint is None:
        assert listed.stderr == ""
    else:
        expected = hint.replace("X", selector)
        assert listed.stderr == f"Size cpu, where none is named; {expected}\n"
        *_, example = shlex.split(expected)
        assert framebench("list", example).stderr == ""


def test_each_line_of_the_list_is_a_selector():
    cases = select("resnet50/*/train/{fp32,rewrite}")
    lines = list(reading.fold_batches(cases, 60))
    assert max(map(len, lines)) <= 60
    named = [line for line in lines if not line.startswith(" ")]
    selected = []
    for line in named:
        selected += select(line)
    assert len(named) == 6
    assert sorted(selected) == sorted(cases)
    assert " ".join(lines).count("unsupported: ") == 3


def test_a_document_that_is_no_text_is_refused_and_stays(tmp_path):
    document = tmp_path / "binary"
    document.write_bytes(b"\xaf\x00")
    done = framebench("report", "--docs", document, code=2)
    assert "no text" in done.stderr
    assert document.read_bytes() == b"\xaf\x00"


def test_show_puts_machines_side_by_side(results):
    """A case over ranks has the peak of one of them, which is none of the whole."""
    for machine, peak in (("fast", 2**20), ("slow", 2**21)):
        measured = make_measured("fp32", peak, step_s=[], origin={"machine": machine})
        over_ranks = measured.model_copy(update={"case": "transformer/torch/train/ddp/b4x2/tiny"})
        add_records(results, measured, over_ranks)
    shown = framebench("show", "--by-machine", results=results).stdout
    (row,) = [line for line in shown.splitlines() if "transformer/" in line]
    assert CASE in row
    assert re.findall(r"\d+\.\d\b", row)[-2:] == ["1.0", "2.0"]


def test_show_has_nothing_to_put_side_by_side_without_numbers(results):
    add_records(results, make_crash_without_version("checkpoint"))
    done = framebench("show", "--by-machine", results=results, code=1)
    assert "no record of the named cases has numbers that may be shown" in done.stderr
