"""The functions of asv that are replaced: what the pinned asv does, and what the replacement does
instead.
"""

from __future__ import annotations

import inspect
import math
import sys
from typing import Any

import pytest
from asv import graph, results, util
from asv.commands import compare
from asv.commands import run as asv_run

from framebench.asv import patches
from tests.processes import run_process

BENCHMARK: dict[str, Any] = {
    "name": "transformer.TransformerTorchTrain.track_peak_memory",
    "pretty_name": "Transformer in PyTorch, train: peak memory",
    "params": [["'fp32'", "'checkpoint'"], ["4", "8"]],
    "param_names": ["strategy", "batch"],
    "unit": "MiB",
}
THROUGHPUT = "transformer.TransformerTorchTrain.track_throughput"


def test_a_run_takes_the_options_that_are_checked():
    """`_returns` is where asv puts its selection; it builds its parser before it loads plug-ins."""
    options = {"range_spec", "set_commit_hash", "machine", "env_spec", "bench", "parallel"}
    assert options | {"_returns"} <= set(inspect.signature(asv_run.Run.run).parameters)
    parameters = list(inspect.signature(asv_run.run_benchmarks).parameters)
    assert parameters[:3] == ["benchmarks", "env", "results"]
    # it is called by the name that is replaced
    assert "run_benchmarks" in inspect.getsource(asv_run.Run.run)
    assert inspect.getsource(asv_run).count("run_benchmarks(") == 1


def test_a_peak_is_printed_in_mib():
    assert util.human_value(159.136, "MiB") == "159.136", (
        "asv itself leaves out a unit that it does not know"
    )
    print_value = patches.print_mib(util.human_value)
    assert print_value(159.136, "MiB") == "159.1MiB"
    assert print_value(math.nan, "MiB") == "n/a"
    assert print_value(0.5, "seconds") == util.human_value(0.5, "seconds")


def test_a_table_has_a_title_and_no_empty_rows():
    nothing = (math.nan, None)
    values = [(159.136, None), nothing, nothing, nothing]
    title = "Transformer in PyTorch, train: peak memory"

    plain = "\n".join(results._format_benchmark_result(values, BENCHMARK))
    lines = patches.add_title(results._format_benchmark_result)(values, BENCHMARK)

    assert "checkpoint" in plain
    assert title not in plain, "asv itself names no benchmark"
    assert lines[0] == title
    assert "fp32" in "\n".join(lines)
    assert "checkpoint" not in "\n".join(lines)


def test_a_comparison_has_no_rows_without_numbers():
    unroll = patches.mark_direction(compare.unroll_result)
    values = [200.0, math.nan, None, math.nan]
    none = [None] * 4
    rows = unroll(THROUGHPUT, BENCHMARK["params"], values, none, none)
    assert [row[:2] for row in rows] == [
        (f"{THROUGHPUT}('fp32', 4)", 200.0),
        (f"{THROUGHPUT}('checkpoint', 4)", None),
    ]


def test_the_graph_of_a_benchmark_changes_only_where_a_case_does():
    """A small case is measured at the end only, and a large one no longer."""
    large = [100.0, 100.0, 110.0, None]
    small = [None, math.nan, 20.0, 20.0]
    plain = graph._compute_summary_data_series(large, small)
    assert plain[2] < plain[1], "asv itself draws a fall where the small case is first measured"

    means = patches.chain_means(large, small)

    assert means[3] == pytest.approx(20.0)
    assert means[2] == pytest.approx(means[3]), "the small case has not changed"
    assert means[2] / means[1] == pytest.approx(1.1), "the large case rose by 10 %"
    assert means[1] == pytest.approx(means[0])


def test_the_graph_of_a_benchmark_is_replaced():
    name = "asv.graph._compute_summary_data_series.__name__"
    apply = "patches.apply(run.wrap_run, run.wrap_benchmarks)"
    code = f"import asv.graph; from framebench.asv import patches, run; {apply}; print({name})"
    assert run_process([sys.executable, "-c", code]).stdout.strip() == "chain_means"


def test_the_graph_of_a_benchmark_ends_where_no_case_is_in_both_commits():
    assert patches.chain_means([100.0, None], [None, 20.0]) == [None, pytest.approx(20.0)]


def test_the_graph_of_a_benchmark_with_all_cases_is_the_one_that_asv_draws():
    cases = [[100.0, 110.0, 120.0], [20.0, 20.0, 10.0]]
    plain = graph._compute_summary_data_series(*cases)
    assert patches.chain_means(*cases) == pytest.approx(plain)
    # it is called by the name that is replaced
    assert "_compute_summary_data_series(" in inspect.getsource(graph.make_summary_graph)
