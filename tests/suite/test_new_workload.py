"""A workload is one folder: an MLP mixer in PyTorch alone, in a folder of the user's, from
`framebench list` to the site.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from framebench.models import spec
from framebench.references import golden
from tests.processes import COMMAND, ROOT
from tests.record_files import list_files, load_fields

MIXER = Path(__file__).parent / "mixer"
CASES = "mixer//train/{fp32,checkpoint}/b4/tiny"
ALONE = "torch 2.13.0, float64, confirmed by no other framework"


def run_python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the workloads of this folder next to those of the suite."""
    variables = {
        **os.environ,
        spec.FOLDER_VARIABLE: str(folder),
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "200",
    }
    return subprocess.run(
        [sys.executable, *arguments], env=variables, cwd=ROOT, capture_output=True, text=True
    )


def run_framebench(folder: Path, *arguments: str, code: int = 0) -> str:
    """Run the command as a process of its own, and return what it prints.

    Workloads are looked for once in each process.
    """
    done = run_python(folder, *COMMAND[1:], *arguments)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == code, done.stderr
    return " ".join((done.stdout + done.stderr).split())


def copy_mixer(place: Path) -> Path:
    """Copy the mixer into a folder."""
    shutil.copytree(MIXER, place / "mixer", ignore=shutil.ignore_patterns("__pycache__"))
    return place


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return copy_mixer(tmp_path_factory.mktemp("workloads"))


@pytest.fixture(scope="module")
def results(folder, tmp_path_factory) -> Path:
    """Return the results of two strategies in three frameworks, of which only PyTorch has a model.

    References are made before the measurement.
    """
    where = tmp_path_factory.mktemp("new") / "results"
    printed = run_framebench(folder, "dev", "golden", "mixer", "--unconfirmed")
    assert "8 keys, by PyTorch alone, confirmed by no other framework" in printed
    assert "no key is without values" in run_framebench(
        folder, "dev", "golden", "mixer", "--unconfirmed", "--missing"
    )
    run_framebench(folder, "run", CASES, "--results", str(where), "--rounds", "3")
    return where


def test_a_framework_without_a_model_is_not_written(folder):
    listed = run_framebench(folder, "list", CASES)
    assert "mixer/torch/train/fp32/b4/tiny mixer/jax" in listed, "supported where it is written"
    here = f"{folder.name}/mixer"
    for case, missing in (
        ("mixer/jax/train/fp32/b4/tiny", f"not written for JAX: {here}/flax_model.py"),
        ("mixer/jittor/train/checkpoint/b4/tiny", f"not written for Jittor: {here}/jittor_model"),
    ):
        assert f"{case} unsupported: {missing}" in listed


def test_values_that_nobody_confirms_are_taken_only_if_asked_for(tmp_path):
    folder = copy_mixer(tmp_path)
    printed = run_framebench(folder, "dev", "golden", "mixer", code=1)
    assert "written for PyTorch alone: write" in printed
    assert "flax_model.py, or take the values of one framework with --unconfirmed" in printed
    assert not (folder / "mixer/golden.json").exists()
    (folder / "mixer/torch_model.py").rename(folder / "mixer/jittor_model.py")
    printed = run_framebench(folder, "dev", "golden", "mixer", "--unconfirmed", code=1)
    assert "references are made by PyTorch or JAX" in printed


def test_a_weight_without_effect_on_the_loss_is_refused():
    """Any tolerance would be measured from rounding beside rounding."""
    gradients = {"head.weight": [2.0, 1.0], "fc2.bias": [1e-17, 1e-18], "frozen": [0.0, 0.0]}
    references = {"tiny/train/b4": {"tensors": {"gradient": gradients}}}
    with pytest.raises(ValueError, match=r"does not depend on fc2\.bias: its gradient is rounding"):
        golden.write_references("transformer", {"torch": references})


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_records_of_a_new_workload_say_that_nobody_confirmed_it(results):
    records = {}
    for file in list_files(results):
        records |= {record["case"]: record for record in load_fields(file)}
    assert len(records) == 3 * 2  # frameworks, strategies
    for case, record in records.items():
        verification = record["verification"]
        if "/torch/" in case:
            assert record["status"] == "ok"
            assert record["effect"]["proven"]
            assert verification["passed"]
            assert verification["against"] == ALONE
            assert verification["mathematics"]["computed"]
            assert verification["mathematics"]["passed"]
            assert verification["mathematics"]["case"] == case
        else:
            assert (record["status"], verification) == ("unsupported", None)
            assert record["reason"].startswith("not written for")


LOAD = """
import sys
from framebench import load
table = load(sys.argv[1])
columns = ["strategy", "verified", "peak_ratio", "reference_share"]
print(table[table["framework"] == "torch"][columns].to_json(orient="values"))
"""


def load_rows(folder: Path, results: Path) -> list[tuple[Any, ...]]:
    done = run_python(folder, "-c", LOAD, str(results))
    assert done.returncode == 0, done.stderr
    return [tuple(row) for row in json.loads(done.stdout)]


@pytest.mark.slow
def test_a_new_workload_is_in_the_table_and_the_reports(folder, results):
    base, checkpoint = load_rows(folder, results)
    assert base[:3] == ("fp32", True, 1.0)
    assert checkpoint[:2] == ("checkpoint", True)
    assert 0 < base[3] < 1, "its operations are counted"
    printed = run_framebench(folder, "report", "mixer", "--results", str(results))
    assert "mixer train, batch 4, size tiny" in printed
    assert f"References of mixer: {ALONE}" in printed
    assert "Where the peak goes: mixer train" in printed
