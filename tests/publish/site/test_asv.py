"""asv's histories: of the commits of this project, and of releases of the frameworks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from framebench.publish.site import asv
from framebench.records import provenance as origin
from tests import fake_records
from tests.sample_records import RESULTS


@pytest.mark.skipif(
    origin.find_commit() is None,
    reason="asv needs the history of the repository, and there is no git here",
)
def test_asv_publishes_without_its_page(tmp_path: Path) -> None:
    asv.publish_histories(copy_histories(tmp_path / "results"), tmp_path / "asv")
    found = asv.read_benchmarks(tmp_path / "asv")
    assert {p.name for p in (tmp_path / "asv").iterdir()} == set(asv.PUBLISHED)
    names = {b.name for b in found}
    assert "transformer.TransformerTorchTrain.track_peak_memory" in names
    (peak,) = [b for b in found if b.name == "transformer.TransformerTorchTrain.track_peak_memory"]
    stored = {
        v
        for file in (tmp_path / "asv" / "graphs" / "branch-HEAD").rglob(f"{peak.name}.json")
        for v in numbers(file)
    }
    assert {value for s in peak.series for _, value in s.points} == stored


def test_releases_are_a_page_of_their_own(tmp_path: Path) -> None:
    records = []
    for version, peak in (("2.12.1", 100), ("2.13.0", 130)):
        record = fake_records.made("fp32", peak * 2**20, 1.0)
        records.append(
            record.model_copy(
                update={"provenance": fake_records.provenance(versions={"torch": version})}
            )
        )
    (peak,) = [
        b
        for b in asv.read_release_benchmarks(records, [])
        if b.name == "transformer.TransformerTorchTrainTiny.track_peak_memory"
    ]
    (series,) = peak.series
    assert (series.parameters, series.where) == ("strategy fp32, batch 4", "m")
    assert series.points == (("torch-2.12.1", 100.0), ("torch-2.13.0", 130.0))
    assert asv.read_release_benchmarks(records[:1], []) == []


def test_asv_publishes_only_with_two_commits(tmp_path: Path) -> None:
    for name in (
        "one/0123-env.json",
        "one/0123-other.json",
        "one/machine.json",
        "two/4567-env.json",
    ):
        (tmp_path / "asv" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "asv" / name).write_text("{}")
    assert not asv.has_several_commits(tmp_path)
    (tmp_path / "asv" / "two" / "89ab-env.json").write_text("{}")
    assert asv.has_several_commits(tmp_path)


def copy_histories(results: Path) -> Path:
    """A results folder with what asv keeps of one machine."""
    shutil.copytree(RESULTS / "asv", results / "asv")
    return results


def numbers(file: Path) -> set[float]:
    return {
        value for _, values in json.loads(file.read_text()) for value in values if value is not None
    }
