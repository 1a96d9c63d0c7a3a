"""Published histories are of the benchmarks that asv finds now."""

from __future__ import annotations

import json

from asv.results import Results

from framebench.models import spec
from tests.discovery import discover_benchmarks
from tests.processes import ROOT
from tests.published.committed_files import list_tracked

REGENERATE = "asv run --bench just-discover writes results/asv/benchmarks.json again: commit it"


def test_committed_asv_results_match_the_benchmarks(tmp_path):
    """The results have the names and versions of now, and no value that asv would leave out."""
    listed = {}
    for name, benchmark in discover_benchmarks(tmp_path).items():
        if name.partition(".")[0] in spec.list_confirmed_workloads():
            listed[name] = benchmark
    committed = json.loads((ROOT / "results/asv/benchmarks.json").read_text())
    assert committed.keys() - {"version"} == listed.keys()
    discovered = json.loads((tmp_path / "results/asv/benchmarks.json").read_text())
    for name in committed:
        assert committed[name] == discovered[name], f"{name}: {REGENERATE}"

    # those that are committed: `make bench` adds others
    tracked = [ROOT / file for file in list_tracked("results/asv/*/*.json")]
    files = [file for file in tracked if file.stem != "machine"]
    assert files
    for file in files:
        results = Results.load(str(file))
        names = results.get_all_result_keys()
        assert set(results.get_result_keys(listed)) == set(names)
        assert set(names) != set()
        for name in names:
            shown = results.get_result_value(name, listed[name]["params"])
            stored = results.get_result_value(name, results.get_result_params(name))
            assert sorted(select_numbers(shown)) == sorted(select_numbers(stored))
            assert sorted(select_numbers(stored)) != []


def select_numbers(values: list[float | None]) -> list[float]:
    return [value for value in values if value is not None and value == value]
