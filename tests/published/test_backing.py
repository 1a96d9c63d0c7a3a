"""Test README's first screen and its other sentences about the records against the committed files themselves."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter, defaultdict
from functools import cache
from typing import Any

import pytest

import framebench
from framebench.features.readme.backing import read_lost_commits
from framebench.models import spec
from framebench.suite.profiles import profile
from tests.processes import ROOT
from tests.published.committed import tracked

README = " ".join((ROOT / "README.md").read_text().split())


@cache
def measurements() -> tuple[dict[str, Any], ...]:
    """Return all committed records as their files have them, without the classes that README's sentences are made by."""
    return tuple(json.loads((ROOT / file).read_text()) for file in tracked("results/records"))


@cache
def with_numbers() -> tuple[dict[str, Any], ...]:
    return tuple(record for record in measurements() if record["status"] == "ok")


def count_references() -> Counter[str]:
    found: Counter[str] = Counter()
    for record in with_numbers():
        verification = record["verification"]
        assert verification["passed"]
        if not verification["relative_error"]:
            found["none"] += 1
        elif verification.get("against"):
            found["float32"] += 1
        else:
            found["float64"] += 1
    return found


def test_readme_says_what_the_measurements_were_verified_against() -> None:
    count = count_references()
    assert f"{count['float64']:,} of {len(with_numbers()):,} measurements agree with values computed in float64." in README
    assert (
        f"{count['float32']:,} agree with a float32 case of the same session, {count['none']:,} are only known to be finite."
    ) in README


def test_readme_does_not_claim_float64_or_one_command_for_every_number() -> None:
    assert count_references()["float64"] < len(with_numbers())
    assert "Every number is verified" not in README
    assert "can be reproduced" not in README


def test_readme_says_whose_code_can_be_checked_out() -> None:
    lost_commits = read_lost_commits(ROOT / "results")
    origins = [record["provenance"] for record in measurements()]
    lost = sum(origin["commit"] in lost_commits for origin in origins)
    changed = sum(origin["commit"] not in lost_commits and origin["dirty"] is not False for origin in origins)
    named = len(origins) - lost - changed
    assert f"{named:,} of {len(origins):,} records name a commit that has the code that measured them." in README
    cases: dict[bool, set[tuple[str, str]]] = {True: set(), False: set()}
    for record in measurements():
        origin = record["provenance"]
        cases[origin["commit"] in lost_commits].add((origin["machine"], record["case"]))
    alone = len(cases[True] - cases[False])
    named_lost = rf"{lost:,} \(of `[^)]*`\) name a commit that this repository does not have,"
    assert re.search(rf"{named_lost} and are the only records of {alone:,} cases\.", README)
    assert re.search(rf"{changed:,} \(of `[^)]*`\) had uncommitted changes, or cannot tell", README)


def test_every_peak_names_its_instrument() -> None:
    names = {"allocator.in_use", "compiler.plan", "host.rss", "allocator.active", "allocator.reserved"}
    names |= {"device.process", "device.card"}
    assert {name for record in with_numbers() for name in record["peaks"]} <= names
    assert [record["case"] for record in with_numbers() if not record["peaks"] and not record["step_s"]] == []


def commits_named_by_results() -> set[str]:
    """Return each full hash that a file below results/ gives as a commit; records that are compressed have none."""
    files = [file for file in tracked("results") if file.endswith((".json", ".jsonl"))]
    found: set[str] = set()
    for file in files:
        found |= set(re.findall(r'"commit": ?"([0-9a-f]{40})"', (ROOT / file).read_text()))
    return found


def test_the_list_of_lost_commits_has_each_commit_that_git_lacks_and_no_other() -> None:
    shallow = subprocess.run(
        ["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    if shallow.stdout.strip() == "true":
        pytest.skip("a shallow clone lacks commits that the repository has")
    known = subprocess.run(["git", "rev-list", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert read_lost_commits(ROOT / "results") == commits_named_by_results() - set(known.stdout.split())


def describe_workload(name: str) -> str:
    """Return the row of README's table of workloads."""
    (row,) = re.findall(rf"^\| `{name}` \|.*$", (ROOT / "README.md").read_text(), re.M)
    return str(row)


def count_parameters(workload: str, size: str) -> int:
    found = spec.workload(workload)
    return found.parameter_count(found.sizes[size].config)


@pytest.mark.parametrize("size", ["cpu", "full"])
@pytest.mark.parametrize("workload", spec.confirmed_names())
def test_the_table_of_workloads_has_the_batches_of_the_specification(workload: str, size: str) -> None:
    batches = spec.workload(workload).sizes[size].batches
    column = describe_workload(workload).split("|")[3 if size == "cpu" else 4]
    assert column.strip().endswith(f"batch {min(batches)}-{max(batches)}")


def test_the_table_of_workloads_has_the_parameters_of_the_specification() -> None:
    assert count_parameters("resnet50", "cpu") == count_parameters("resnet50", "full")
    assert f"{count_parameters('resnet50', 'full'):,} parameters" in describe_workload("resnet50")
    assert f"{count_parameters('unet3d', 'full'):,} parameters" in describe_workload("unet3d")
    assert f"{count_parameters('unet3d', 'cpu') / 1e6:.1f} M parameters" in describe_workload("unet3d")
    assert f"{count_parameters('transformer', 'full') / 1e6:.0f} M parameters" in describe_workload("transformer")
    small = f"{count_parameters('transformer', 'cpu') / 1e6:.1f}"
    assert f"{small} M parameters" in describe_workload("transformer")
    assert f"The Transformer has {small} million parameters" in README


def test_readme_says_how_long_a_prediction_takes() -> None:
    ((torch, jax),) = re.findall(
        r"nine of ten PyTorch cases take under (\d+) s, and nine of ten JAX cases under (\d+) s", README
    )
    seconds: dict[str, list[float]] = defaultdict(list)
    for file in tracked("results/planned"):
        for line in (ROOT / file).read_text().splitlines():
            planned = json.loads(line)
            if planned["outcome"] == "planned":
                seconds[planned["framework"]].append(planned["origin"]["wall_s"])
    for framework, most in (("torch", int(torch)), ("jax", int(jax))):
        within = sum(took < most for took in seconds[framework])
        assert within >= 0.9 * len(seconds[framework]), framework


def test_readme_says_how_long_the_first_run_took() -> None:
    ((least, most),) = re.findall(r"It took (\d+) to (\d+) minutes on the machines of", README)
    rows = re.findall(r"^\| .* \| (\d+) min \| .* \|$", (ROOT / "docs/setup.md").read_text(), re.M)
    assert (int(least), int(most)) == (min(map(int, rows)), max(map(int, rows)))


def test_readme_says_which_machine_was_not_calibrated() -> None:
    calibrated = {machine: set(framebench.load(ROOT / "results", machine)["calibration"]) for machine in MACHINES}
    assert calibrated == {"xeon-2core": {"passed"}, "zen4-2core": {"passed"}, "nvidia-h200": {"not done"}}
    assert "So is a machine whose instruments were not calibrated, as the GPU's were not." in README
    assert "Calibration of the instruments: not done." in README


MACHINES = ("xeon-2core", "zen4-2core", "nvidia-h200")  # that are published; this one may have records, too


def test_findings_say_by_which_instrument_the_peaks_of_two_machines_agree() -> None:
    first, second = (framebench.load(ROOT / "results", machine).set_index("case") for machine in ("xeon-2core", "zen4-2core"))
    usable = first.index[first["usable"]].intersection(second.index[second["usable"]])
    own = second.loc[usable, "peak_bytes"] / first.loc[usable, "peak_bytes"]
    shared = second.loc[usable, "shared_bytes"] / first.loc[usable, "shared_bytes"]
    off = (shared.dropna() - 1).abs()

    apart = off[off > 0.02]

    assert (own.dropna() - 1).abs().max() < 0.01
    assert [case.split("/")[:2] for case in apart.index] == [["unet3d", "jax"]] * 2
    assert (round(100 * apart.min()), round(100 * apart.max())) == (10, 12)
    findings = " ".join((ROOT / "docs/findings.md").read_text().split())
    assert "agree within 1 %. By `host.rss`, which README shows, two of JAX's U-Net differ by 10 to 12 %." in findings


def test_setup_says_what_the_first_profile_has() -> None:
    named = {(case.workload, case.framework, case.scenario, case.strategy) for case in profile("first")}
    assert {scenario for *_, scenario, _ in named} == {"train"}
    assert {strategy for *_, strategy in named} == {"fp32", "checkpoint", "amp_bf16", "rewrite"}
    assert {framework for _, framework, _, strategy in named if strategy == "amp_bf16"} == {"torch"}
    assert (
        "each baseline, checkpointing, bfloat16 in PyTorch, and 3-D convolutions as 2-D ones"
        in (ROOT / "docs/setup.md").read_text()
    )


def test_the_page_of_the_gpu_counts_the_records_without_the_process_memory() -> None:
    on_gpu = [record for record in with_numbers() if record["provenance"]["machine"] == "nvidia-h200"]
    lacking = [record for record in on_gpu if not {"device.process", "device.card"} & record["peaks"].keys()]
    assert f"were not asked for their memory ({len(lacking)} records)" in (ROOT / "docs/gpu.md").read_text()
