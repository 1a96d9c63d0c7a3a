"""A feature is a folder: without it the rest imports, lists its commands, and makes its tables and pages."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import Any

import pytest

from framebench import extensions
from framebench.extensions import Feature, NoSuchHook
from framebench.suite.registry import OVER_RANKS
from tests.material import RESULTS
from tests.processes import ROOT

FEW = "records/xeon-2core/torch-*/transformer.torch.train.[fc]*[2t].b4.cpu"  # all tables and kinds of pages have rows of these


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("house")
    shutil.copytree(ROOT / "framebench", folder / "copy/framebench", ignore=shutil.ignore_patterns("requirements"))
    shutil.copytree(ROOT / "requirements", folder / "copy/framebench/requirements")
    for case in RESULTS.glob(FEW):
        shutil.copytree(case, folder / "results" / case.relative_to(RESULTS))
    command = [sys.executable, "-P", str(ROOT / "tests/house/without_features.py"), "copy", "results", "sites"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {line["without"]: line for line in map(json.loads, done.stdout.splitlines())}


@pytest.mark.slow
def test_every_feature_can_be_deleted(left: dict[str, dict[str, Any]]) -> None:
    assert left.keys() == {"", *extensions.features()}
    assert {name: line["error"] for name, line in left.items() if line["error"]} == {}
    whole = left[""]
    for name, line in left.items():
        assert set(line["commands"]) <= set(whole["commands"]), name
        assert set(line["strategies"]) <= set(whole["strategies"]), name
        assert set(line["tables"]) <= set(whole["tables"]), name


@pytest.mark.slow
def test_what_a_feature_adds_goes_with_it(left: dict[str, dict[str, Any]]) -> None:
    whole = left[""]
    gone = {name: set(whole["commands"]) - set(line["commands"]) for name, line in left.items()}
    assert gone["growth"] == {"grow"}
    assert gone["versions"] == {"versions"}
    assert gone["cluster"] == {"plan", "collect", "check-results"}
    lost = set(whole["strategies"]) - set(left["ranks"]["strategies"])
    assert lost >= {"ddp", "fsdp", "deepspeed_zero3", "fully_sharded"}
    assert lost == {strategy for _, strategy in OVER_RANKS}
    lost = set(whole["strategies"]) - set(left["generation"]["strategies"])
    assert lost == {"static_cache", "growing_cache", "no_cache"}
    assert any("laims" in key for key in set(whole["tables"]) - set(left["claims"]["tables"]))
    assert left["site"]["pages"] == [] != left["claims"]["pages"]
    assert not any("/claims" in page for page in left["claims"]["pages"])


def test_a_feature_adds_what_is_asked_for_alone() -> None:
    with pytest.raises(NoSuchHook, match="no hook tabels; a feature may add: commands, tables, report, documents"):
        Feature("misspelt", {"tabels": "table:of_machine"})
