"""The command `advise`: for people, for programs, and what a mistake is answered with."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from framebench.analysis.frames import Row
from framebench.analysis.peaks import find_peak, read_evidence
from framebench.analysis.rendering import choose_columns, make_printed_columns
from framebench.analysis.results import NoRecords, Results
from framebench.budget.advise import show
from framebench.budget.advise.advice import Question, advise
from framebench.budget.max_batch.measure import judge_probe
from framebench.budget.max_batch.order import Order
from framebench.budget.max_batch.probes import run_order
from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.records import store
from framebench.records.lines import Line
from framebench.records.provenance import read_machine_name
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.suite.selectors import parse
from tests.advice_records import MIB, STRATEGIES, asked, made
from tests.processes import ROOT, framebench
from tests.sample_records import IN_HERE, MACHINE, OTHER, RESULTS


def test_json_of_everything() -> None:
    advice = asked(
        [made("torch", "fp32", 4, 100, 1.0), made("torch", "checkpoint", 4, 2 * MIB, 1.0)]
    )
    said = json.loads(json.dumps(show.make_json(advice, [], None)))
    (offer,) = said["fitting"]
    assert (offer["kind"], offer["instrument"], offer["machine"], offer["peak_bytes"]) == (
        "measured",
        "host.rss",
        "m",
        100,
    )
    assert [o["strategy"] for o in said["too_large"]] == ["checkpoint"]


@pytest.mark.parametrize(
    "case", ["unet3d/torch/train/checkpoint/b11", "transformer/jax/train/checkpoint/b23/cpu"]
)
def test_the_commands_say_the_same(case: str) -> None:
    asked = json.loads(framebench("predict", case, *IN_HERE, "--json").stdout)
    (told,) = (p for p in asked["predictions"] if p["method"] == "records")
    workload, framework, scenario, strategy, batch, *_ = case.split("/")
    question = f"{workload}/{framework}/{scenario}/*/{batch}"
    said = json.loads(framebench("advise", question, *IN_HERE, "--budget", "8GiB", "--json").stdout)
    (offer,) = (o for o in said["fitting"] if o["strategy"] == strategy)
    assert asked["case"] == offer["case"]
    names = ("kept_bytes", "needs_bytes", "kind", "instrument")
    assert [told["bytes"], *(told[n] for n in names)] == [
        offer["peak_bytes"],
        *(offer[n] for n in names),
    ]


def test_both_give_the_same_reason_where_they_cannot_tell() -> None:
    case = "unet3d/torch/train/amp_bf16/b4/cpu"
    rows, _ = read_evidence(RESULTS, OTHER, "unet3d", "train")
    (why,) = (
        w for c, w in advise([rows], Question("unet3d", "train", MIB)).left_out.items() if c == case
    )
    assert why.startswith("wrong: ")
    with pytest.raises(NoRecords, match=re.escape(why)):
        find_peak(rows, parse(case), Results(RESULTS).searches)
    rows, _ = read_evidence(RESULTS, MACHINE, "transformer", "train")
    never = "transformer/jax/train/no_donate/b4/cpu"
    with pytest.raises(NoRecords, match="framebench run 'transformer/jax/train/no_donate"):
        find_peak(rows, parse(never), Results(RESULTS).searches)


def test_the_command_answers_in_a_sentence_and_five_rows() -> None:
    asked = "advise", "transformer/*/train", "--budget", "512MiB", *IN_HERE
    short, long = (framebench(*asked, *more).stdout for more in ((), ("--all",)))
    assert short.startswith("transformer train within 512.0 MiB: torch ")
    assert short.splitlines()[0].endswith(".")
    assert short.count(" cpu ") == show.FEW < long.count(" cpu ")
    assert "--all also shows" in short
    assert "--all also shows" not in long


def test_a_narrow_terminal_shows_what_the_offers_are_ranked_by() -> None:
    rows, _ = read_evidence(RESULTS, MACHINE, "unet3d", "train")
    (table,) = show.make_tables(
        advise([rows], Question("unet3d", "train", 256 * MIB), Results(RESULTS).searches)
    )
    shown = {column.heading for column in choose_columns(make_printed_columns(table), 80)}
    assert {"framework", "strategy", "batch", "throughput", "x torch", "needs MiB"} <= shown


def test_the_command_reads_the_records_of_its_question_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for case_id in ("resnet50/torch/train/fp32/b4/tiny", "transformer/torch/eval/no_grad/b4/tiny"):
        other = made("torch", "fp32", 4, 100, 1.0).model_copy(update={"case": case_id})
        store.append(other, store.find_file(tmp_path, "m", "torch-1"))
    mine = [made("torch", strategy, 4, 100, 1.0) for strategy in STRATEGIES]
    for one in mine:
        store.append(one, store.find_file(tmp_path, "m", "torch-1"))
    parsed: list[str] = []
    parse = store.parse

    def listening(kind: type[Record], line: Line) -> Record:
        record = parse(kind, line)
        parsed.append(record.case)
        return record

    monkeypatch.setattr(Results, "machines", ["m"])  # looks for one readable record
    monkeypatch.setattr(store, "parse", listening)
    done = framebench(
        "advise", "transformer/////tiny", "--budget", "1GiB", "--results", str(tmp_path), "--json"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fitting"]
    assert sorted(parsed) == sorted(record.case for record in mine)


def test_the_command_waits_for_no_heavy_import() -> None:
    """What draws and what tests takes longer to import than the answer takes."""
    code = """
import sys
from framebench.cli.__main__ import load_commands
from framebench.cli.shared import app
load_commands(["advise"])
app(["advise", "--budget", "8GiB", *sys.argv[1:]], standalone_mode=False)
heavy = {"seaborn", "matplotlib", "scipy.stats"} & sys.modules.keys()
sys.exit(str(heavy) if heavy else 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, *IN_HERE], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "fastest first" in done.stdout


def test_the_command_for_people() -> None:
    done = framebench("advise", "transformer////b4", "--budget", "8GiB", "--from", "fp32", *IN_HERE)
    assert done.returncode == 0, done.stderr
    assert "fastest first" in done.stdout
    assert "fits already" in done.stdout
    described = framebench(
        "advise", "--budget", "64GiB", "--parameters", "124e6", "--sequence", "1024", *IN_HERE
    )
    assert "predicted" in described.stdout
    assert "measured │" not in described.stdout
    assert "layers 12" in described.stderr
    tight = framebench("advise", "transformer////b4", "--budget", "1MiB", *IN_HERE)
    assert tight.returncode == 1
    assert "nothing fits" in tight.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--budget", "plenty"], "512MiB"),
        (["resnet51", "--budget", "1GiB"], "resnet50"),
        (["transformer/*/infer", "--budget", "1GiB"], "finetune"),
        (["transformer/tensorflow", "--budget", "1GiB"], "jittor"),
        (["transformer/////huge", "--budget", "1GiB"], "tiny"),
        (["--budget", "1GiB", "--from", "magic"], "checkpoint"),
        (["--budget", "1GiB", "--from", "gc_frozen"], "choose from: fp32"),
        (
            ["--budget", "1GiB", "--from", "resnet50/torch/train/fp32/b8/cpu"],
            "than transformer/*/train",
        ),
        (["--budget", "1GiB", "--from", "tf32"], "framebench run"),
        (["--budget", "1GiB", "--results", "nowhere"], "framebench run"),
        (["--budget", "1GiB", "--machine", "nobodys"], "machines: "),
        (["--budget", "1GiB", "--parameters", "10"], "the closest has"),
        (["unet3d", "--budget", "1GiB", "--parameters", "1e8"], "transformer"),
    ],
)
def test_mistakes_are_answered_in_a_sentence(arguments: list[str], named: str) -> None:
    done = framebench("advise", *IN_HERE, *arguments)  # the last of two counts
    assert done.returncode in (1, 2)
    assert named in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def measured(
    environment: dict[str, Environment], tmp_path_factory: pytest.TempPathFactory
) -> list[Row]:
    """Two strategies, measured on this machine now."""
    results = tmp_path_factory.mktemp("advice") / "results"
    selectors = [f"transformer/torch/train/{s}/b4/cpu" for s in ("fp32", "checkpoint")]
    done = framebench("run", *selectors, "--results", str(results), "--rounds", "0")
    assert done.returncode == 0, done.stderr
    return read_evidence(results, read_machine_name(), "transformer", "train")[0]


@pytest.mark.slow
@pytest.mark.all_cases
def test_the_advice_is_so_when_it_is_run(
    measured: list[Row], environment: dict[str, Environment]
) -> None:
    """Under the budget as an enforced limit, in fresh processes: the best offer runs, and what was
    said not to fit does not.
    """
    budget = between(measured)
    advice = advise([measured], Question("transformer", "train", budget, ("torch",), 4))
    best = advice.fitting[0]
    assert outcome(best.case, budget, environment) == "fits", show.describe_briefly(best)
    assert advice.beyond
    for offer in advice.beyond:
        assert outcome(offer.case, budget, environment) == "memory", show.describe_briefly(offer)


@pytest.mark.slow
@pytest.mark.all_cases
def test_the_largest_batch_that_is_advised_fits(
    measured: list[Row], environment: dict[str, Environment]
) -> None:
    budget = 2 * between(measured)
    best = advise([measured], Question("transformer", "train", budget, ("torch",), None)).fitting[0]
    assert outcome(best.case, budget, environment) == "fits", show.describe_briefly(best)


def between(measured: list[Row]) -> int:
    """The middle of the two largest peaks."""
    return sum(sorted(r.peak_bytes or 0 for r in measured)[-2:]) // 2


def outcome(case: Case, budget: int, environment: dict[str, Environment]) -> str:
    answer = run_order(
        Order("fit", case.id, budget), environment[case.framework], Options(time_limit_s=600)
    )
    probe = judge_probe(case.batch, answer, budget)
    assert probe.limited, "the kernel enforced the limit"
    return probe.outcome
