"""Published histories are of the benchmarks that asv finds now."""

from __future__ import annotations

import json
from pathlib import Path

from asv.results import Results

from framebench.models import spec
from tests.discovery import discovered
from tests.processes import ROOT


def test_committed_asv_results_match_the_benchmarks(tmp_path: Path) -> None:
    """Under the names and versions that benchmarks have now, and without a value that asv would
    leave out.
    """
    confirmed = spec.list_confirmed_workloads()  # not one that somebody tries out
    listed = {
        name: each
        for name, each in discovered(tmp_path).items()
        if name.partition(".")[0] in confirmed
    }
    assert (
        json.loads((ROOT / "results/asv/benchmarks.json").read_text()).keys() - {"version"}
        == listed.keys()
    )
    files = [
        path for path in (ROOT / "results/asv").glob("*/*.json") if path.name != "machine.json"
    ]
    assert files
    for results in map(Results.load, map(str, files)):
        assert results.get_result_keys(listed) == {*results.get_all_result_keys()} != set()
        for name in results.get_all_result_keys():
            shown = results.get_result_value(name, listed[name]["params"])
            kept = results.get_result_value(name, results.get_result_params(name))
            assert sorted(numbers(shown)) == sorted(numbers(kept)) != []


def numbers(values: list[float | None]) -> list[float]:
    return [value for value in values if value is not None and value == value]
