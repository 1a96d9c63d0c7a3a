"""Releases by what they plan for a device: side by side, and the first that changed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from unittest.mock import Mock

import pytest

from framebench.analysis.statistics import PEAK
from framebench.devices.catalog import find
from framebench.devices.plans import planning, store
from framebench.devices.releases.table import tabulate_releases
from framebench.suite.case import Case
from framebench.versions import bisect, bisection_table
from framebench.versions import planned as plans
from framebench.versions.accepted import AcceptedRegression
from framebench.versions.bisection_record import Bisection
from framebench.versions.planned import PlanBench, list_usual
from tests.callbacks import ignore
from tests.devices.fake_predictions import CASE, MIB, make_compiled, make_planned, make_unplanned
from tests.processes import framebench

H100 = find("h100-80gb")
SIZES = {"0.9.0": 12, "0.9.1": 12, "0.9.2": 36, "0.10.0": 36}  # MiB


@pytest.fixture
def results(tmp_path) -> Path:
    """Return a results folder with predictions of four releases."""
    for version, mib in SIZES.items():
        store.write(tmp_path, make_planned(framework_version=version, peak_bytes=mib * MIB), ignore)
    return tmp_path


def bisect_plans(results: Path) -> Bisection:
    measure = PlanBench(CASE, H100.name, results).measure
    case = Case.from_id(CASE)
    return bisect.bisect_releases(
        case, minimum=0.01, release_names=list(SIZES), measure=measure, device=H100.name
    )


def test_releases_stand_side_by_side_in_their_order():
    newer = make_planned(framework_version="0.10.0")
    older = make_planned(framework_version="0.9.2", peak_bytes=24 * MIB)
    alone = make_planned(case=CASE.replace("fp32", "scan"))
    (table,) = tabulate_releases([newer, older, alone], H100)
    assert table.head == ("case", "0.9.2", "0.10.0", "change")
    assert table.rows == ((CASE, "24.0", "12.0", "-50.00%"),)


def test_the_report_of_a_device_compares_releases(results):
    report = framebench("report", "--device", "h100-80gb", results=results, code=0)
    table = report.stdout.partition("Releases of JAX by what they plan")[2]
    (row,) = [line for line in table.splitlines() if CASE in line]
    assert [*map(float, re.findall(r"\d+\.\d(?= )", row))][:4] == [*SIZES.values()]


@pytest.mark.parametrize(
    ("device", "at_most", "code", "verdict"),
    [
        (H100.name, 3.0, 0, "known regression"),
        (H100.name, 2.9, 1, "regression"),
        (None, 3.0, 1, "regression"),  # accepted of what is measured
    ],
)
def test_an_accepted_growth_of_a_plan_is_known(
    device, at_most, code, verdict, results, monkeypatch
):
    entry = AcceptedRegression(
        release="jax==0.9.2",
        cases=CASE,
        quantity=PEAK.name,
        at_most=at_most,
        reason="reported upstream",
        device=device,
    )
    monkeypatch.setattr(plans, "read_accepted", Mock(return_value=[entry]))
    words = ("versions", "compare", "jax==0.9.1", "jax==0.9.2", CASE, "--device", H100.name)
    done = framebench(*words, "--json", results=results)
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["verdict"], done.returncode) == (verdict, code)


def compare_cached(results: Path, *words: str) -> tuple[dict[str, str], str]:
    """Return the verdict of each case by its strategy, and what the command says."""
    releases = ("jax==0.9.1", "jax==0.9.2")
    options = ("--device", H100.name, "--results", str(results), "--json")
    done = framebench("versions", "compare", *releases, *words, *options)
    rows = json.loads(done.stdout)["rows"] if done.stdout else []
    return {row["case"].split("/")[3]: row["verdict"] for row in rows}, done.stderr


def record_planned(monkeypatch) -> list[str]:
    """Return the list to which a planner that is none adds each case that it is asked for."""
    planned = []

    def plan(case, device, environment, version, servers):
        planned.append(f"{version} {case.id}")
        return make_unplanned("failed", case=case.id, framework_version=version)

    monkeypatch.setattr(planning, "plan_case", plan)
    monkeypatch.setattr(planning, "ensure_environments", Mock(return_value={}))
    return planned


def write_plan(results: Path, version: str, strategy: str, mib: int) -> None:
    """Write what a release of JAX plans for a strategy of the Transformer on an H100."""
    store.write(results, make_compiled(strategy, mib, version), ignore)


def test_without_cases_two_releases_are_compared_by_cached_plans_alone(tmp_path, monkeypatch):
    asked_for = record_planned(monkeypatch)
    write_plan(tmp_path, "0.9.1", "fp32", mib=100)
    write_plan(tmp_path, "0.9.2", "fp32", mib=100)
    write_plan(tmp_path, "0.9.1", "checkpoint", mib=50)
    write_plan(tmp_path, "0.9.2", "checkpoint", mib=60)
    write_plan(tmp_path, "0.9.1", "scan", mib=40)  # of one release alone

    verdicts, message = compare_cached(tmp_path)

    assert verdicts == {"fp32": "no difference", "checkpoint": "regression"}
    assert not asked_for, "nothing is planned anew"
    bisection = "jax 0.9.1 0.9.2 transformer/jax/train/checkpoint/b8/full --device h100-80gb"
    assert f"versions bisect --framework {bisection} --results {tmp_path}" in message


def test_a_case_that_both_releases_cannot_plan_is_not_compared(tmp_path):
    for version in ("0.9.1", "0.9.2"):
        write_plan(tmp_path, version, "fp32", mib=100)
        case = "resnet50/jax/train/autotune_off/b64/full"
        refused = make_unplanned("not planned", case=case, framework_version=version)
        store.write(tmp_path, refused, ignore)
    verdicts, _ = compare_cached(tmp_path)
    assert verdicts == {"fp32": "no difference"}


def test_usual_cases_are_planned_only_if_that_is_asked_for(tmp_path, monkeypatch):
    planned = record_planned(monkeypatch)
    store.write(tmp_path, make_compiled("fp32", 100, "0.9.1"), ignore)

    verdicts, message = compare_cached(tmp_path)
    assert (verdicts, planned) == ({}, [])
    assert "there are some of: jax==0.9.1;" in message
    assert f"--results {tmp_path} --plan" in message

    compare_cached(tmp_path, "--plan")
    usual = [case.id for case in list_usual("jax")]
    expected = {f"{version} {case}" for version in ("0.9.1", "0.9.2") for case in usual}
    assert set(planned) == expected - {"0.9.1 transformer/jax/train/fp32/b8/full"}


def test_only_cases_that_the_framework_has_are_planned_at_full_size(tmp_path, monkeypatch):
    planned = record_planned(monkeypatch)

    _, message = compare_cached(tmp_path, "transformer/jax/train/*", "--plan")

    cases = [Case.from_id(text.split()[1]) for text in planned]
    assert cases
    assert all(case.support.supported for case in cases)
    assert {case.size for case in cases} == {"full"}
    assert re.search(r"\d+ cases skipped, which jax does not have", message)


@pytest.mark.parametrize("selector", ["transformer/jax/train", "transformer/jax/train/*/b8/full"])
def test_a_broad_selector_is_answered_from_cached_plans(tmp_path, monkeypatch, selector):
    asked_for = record_planned(monkeypatch)
    for version, mib in (("0.9.1", 50), ("0.9.2", 60)):
        write_plan(tmp_path, version, "checkpoint", mib)
    write_plan(tmp_path, "0.9.1", "fp32", mib=100)  # of one release alone

    verdicts, message = compare_cached(tmp_path, selector)

    assert (verdicts, asked_for) == ({"checkpoint": "regression"}, [])
    assert "the peak is larger in 1 of 1 case (transformer), smaller in 0" in compare_text(
        tmp_path, selector
    )
    quoted = shlex.quote(selector)
    assert f"jax==0.9.2 {quoted} --device h100-80gb --plan --results {tmp_path} plans" in message
    assert re.search(r"\d+ of \d+ cases have no cached plans of both and are left out", message)


def compare_text(results: Path, selector: str) -> str:
    """Return what the command says of two releases where it prints a table."""
    options = ("--device", H100.name, "--results", str(results))
    done = framebench("versions", "compare", "jax==0.9.1", "jax==0.9.2", selector, *options)
    return " ".join(done.stderr.split())


def test_a_broad_selector_without_cached_plans_names_the_command_that_plans(tmp_path, monkeypatch):
    asked_for = record_planned(monkeypatch)
    verdicts, message = compare_cached(tmp_path, "unet3d/jax/train")
    assert (verdicts, asked_for) == ({}, [])
    assert re.search(r"none of \d+ cases has cached plans of jax==0.9.1 and jax==0.9.2", message)
    assert "framebench versions compare jax==0.9.1 jax==0.9.2 unet3d/jax/train" in message


def test_a_case_named_with_its_batch_is_planned(tmp_path, monkeypatch):
    asked_for = record_planned(monkeypatch)
    compare_cached(tmp_path, "transformer/jax/train/{fp32,checkpoint}/b8/full")
    assert len(asked_for) == 4


def test_bisection_finds_the_release_from_plans_alone(results):
    answer = bisect_plans(results)
    assert (answer.outcome, answer.first, answer.last_unchanged) == ("found", "0.9.2", "0.9.1")
    assert {one.instrument for one in answer.tried} == {"compiler.plan"}
    table = bisection_table.make_table(answer)
    assert table.title.endswith(f"{CASE} on one h100-80gb")
    assert "peak by compiler.plan: planned, not measured" in table.caption


def test_a_release_without_a_plan_leaves_two_candidates(results):
    store.write(results, make_unplanned("not planned", framework_version="0.9.1"), ignore)
    answer = bisect_plans(results)
    assert (answer.outcome, answer.first, answer.between) == ("one of several", "0.9.2", ("0.9.1",))
