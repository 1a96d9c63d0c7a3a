"""A results folder has other files than records: a stranger's take down no table of the others."""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from framebench.analysis.rendering import Table
from framebench.analysis.results import Results
from framebench.devices.releases import reported
from framebench.explain import tables as explained
from framebench.explain.table import load_causes
from framebench.ranks.sharding_tables import load_predictions, tabulate_predictions
from framebench.records.provenance import ROOT
from framebench.versions import bisection_table
from tests.records.malformed import Malformed, draw_malformed, generate

GPU = "h100-80gb"


def tabulate_explained(root: Path) -> Sequence[Table]:
    load_causes(root)
    return explained.make_tables(Results(root))


def tabulate_bisected(root: Path) -> Sequence[Table]:
    return bisection_table.make_documents(Results(root))


def tabulate_predicted(root: Path) -> Sequence[Table]:
    return [tabulate_predictions(load_predictions(root))]


def tabulate_reported(root: Path) -> Sequence[Table]:
    return list(reported.make_tables(root, GPU))


TABLES: dict[str, Callable[[Path], Sequence[Table]]] = {
    "explained": tabulate_explained,
    "bisected": tabulate_bisected,
    "predicted": tabulate_predicted,
    f"planned_reports/{GPU}": tabulate_reported,
}


def find_good(folder: str) -> Path:
    """Return the smallest published file of a folder."""
    files = (ROOT / "results" / folder).glob("*.json")
    return min(files, key=lambda file: file.stat().st_size)


def copy_good(folder: str, root: Path) -> Path:
    """Copy a published file into the same folder of other results, and return that folder."""
    target = root / folder
    target.mkdir(parents=True)
    shutil.copy(find_good(folder), target)
    return target


def draw_files() -> st.SearchStrategy[dict[str, Malformed]]:
    """Draw a malformed file for each folder."""
    drawn = {}
    for folder in TABLES:
        drawn[folder] = draw_malformed(json.loads(find_good(folder).read_bytes()))
    return st.fixed_dictionaries(drawn)


@generate(examples=50)
@given(malformed=draw_files())
def test_a_malformed_file_causes_no_traceback(malformed):
    for folder, file in malformed.items():
        with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target = copy_good(folder, Path(name))
            (target / "malformed.json").write_bytes(file.content)
            assert TABLES[folder](Path(name)), file.what
