"""The ledger as a table, as JSON, and as the list of what is missing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from framebench.analysis.results import Results
from framebench.claims.entries import as_json
from framebench.claims.missing import find_missing
from framebench.claims.registry import REGISTRY
from framebench.claims.show import name_origin
from framebench.claims.store import MachineResults
from framebench.cli.shared import app
from framebench.engine import runner
from framebench.engine.environments import Environment
from framebench.engine.groups import make_pair
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case
from tests.claims.claim_records import compiled, made_up, one, put


def test_json_has_the_promised_fields(results: Path) -> None:
    compiled(results, 80)
    found = json.loads(json.dumps(as_json(one(results, made_up()))))
    assert {"id", "verdict", "claimed", "measured", "low", "high", "records", "lines"} <= set(found)
    assert (found["id"], found["measured"]) == ("T1", pytest.approx(0.8))
    assert {"id", "verdict", "claimed", "measured", "low", "high", "records"} <= set(
        found["lines"][0]
    )


def test_json_names_the_line_of_each_record(results: Path) -> None:
    compiled(results, 80)
    names = as_json(one(results, made_up()))["records"]
    assert len(names) == 2
    assert all(re.fullmatch(r"records/m/torch-[\d.]+\.jsonl:[12]", name) for name in names)


@pytest.mark.parametrize(
    ("record", "origin"),
    [
        ("records/m/torch-2.13.0.jsonl:17", "torch-2.13.0"),
        ("claims/m/names/20260101T000000000000.json", "names"),
        ("planned/h100-80gb/jax-0.10.2.jsonl", "jax-0.10.2.jsonl"),
    ],
)
def test_the_table_names_the_release_or_probe_of_a_record(record: str, origin: str) -> None:
    assert name_origin(record) == origin


def test_missing_cases_are_collected_once(results: Path) -> None:
    put(results, "transformer/torch/train/fp32/b4/tiny")
    found = find_missing(
        REGISTRY.chosen(["B19", "B14", "B16", "C12"]), MachineResults(Results(results), "m"), "tiny"
    )
    ids = [case.id for case in found.cases]
    assert len(set(ids)) == len(ids)
    assert "transformer/torch/train/compile/b4/tiny" in ids
    assert "transformer/torch/train/fp32/b4/tiny" in ids, "times are taken beside their baseline"
    assert sorted(found.probes) == [
        "inputs",
        "names",
        "snippet-jittor_volume_norm",
        "snippet-torch_batch_norm_3d",
        "snippet-torch_compile",
    ]


def test_cases_compared_in_time_are_measured_in_one_block(results: Path) -> None:
    """With the baseline, which every block of its framework has; or as a pair of its own."""
    put(results, "transformer/torch/train/fp32/b4/tiny")
    found = find_missing(
        REGISTRY.chosen(["B15", "B18", "D5", "C8"]), MachineResults(Results(results), "m"), "tiny"
    )
    strategies = {tuple(case.strategy for case in pair) for pair in found.pairs}
    assert strategies == {("memmap", "prefetch"), ("whole_every_step", "gc_every_2+reused")}
    assert {"amp_bf16+checkpoint", "fp32"} <= {case.strategy for case in found.timed}
    assert {"lean_rule", "wasteful_rule"} <= {case.strategy for case in found.once}
    groups = [set(found.once), set(found.timed), {case for pair in found.pairs for case in pair}]
    assert not groups[0] & (groups[1] | groups[2])
    together = make_pair(
        *found.pairs[0], dict.fromkeys(FRAMEWORKS, Environment("torch", "0", Path("python")))
    )
    assert [arm.case for arm in together.always] == list(found.pairs[0])


def run(*arguments: str, results: Path) -> Any:
    return CliRunner().invoke(app, ["claims", *arguments, "--results", str(results)])


def test_the_command_prints_json(results: Path) -> None:
    compiled(results, 80)
    found = run("B14", "--json", "--size", "tiny", "--machine", "m", results=results)
    assert found.exit_code == 0
    assert {entry["verdict"] for entry in json.loads(found.stdout)} == {"not testable here"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Z9"], "no claim Z9, and none with these words; claims: A1 to A"),
        (["b1-speed"], "claim B1 has no part 'speed'; its parts: memory, result"),
        (["A1 speed"], "claim A1 has no parts; type framebench claims A1"),
        (["--machine", "nowhere"], "machines: m"),
        (["--size", "huge"], "sizes: cpu, full, tiny"),
    ],
)
def test_invalid_arguments_list_the_valid_ones(
    results: Path, arguments: list[str], message: str
) -> None:
    compiled(results, 80)
    found = run(*arguments, results=results)
    assert found.exit_code == 2
    assert message in re.sub(r"\s+", " ", found.output)


def test_run_measures_missing_cases_only(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of the harness; the harness itself has tests of its own."""
    monkeypatch.setenv("FRAMEBENCH_MACHINE", "m")
    compiled(results, 80)
    measured: list[Case] = []

    def measure(found: list[Case], *_: Any) -> list[str]:
        measured.extend(found)
        put(results, "transformer/torch/train/checkpoint/b4/tiny", 50)
        return ["ok"] * len(found)

    from framebench.claims import run as measuring

    monkeypatch.setattr(measuring, "measure_all", measure)
    monkeypatch.setattr(measuring.environments, "ensure", lambda framework, say: None)
    monkeypatch.setattr(measuring.environments, "warm", lambda *_: None)
    planned: list[Case] = []
    monkeypatch.setattr(measuring, "planned_for", lambda cases, *_: planned.extend(cases) or [])
    monkeypatch.setattr("framebench.claims.plans.read_plans", lambda _: {})
    found = run("A8", "A6", "--run", "--no-evidence", "--size", "tiny", results=results)
    assert found.exit_code == 0, found.output
    assert {f"resnet50/torch/train/{s}/b64/full" for s in ("fp32", "checkpoint")} <= {
        case.id for case in planned
    }
    assert {case.framework for case in planned} == {"torch", "jax"}
    ids = [case.id for case in measured]
    assert "resnet50/torch/train/checkpoint/b4/tiny" in ids
    assert "transformer/torch/train/fp32/b4/tiny" not in ids
    assert not any(runner.explain_unsupported(case) for case in measured), (
        "what needs a GPU is left to a machine that has one"
    )
    assert not list(results.glob(".session*"))
