"""Replace functions of asv 0.6 where it has no documented way.

Each replacement says why. `tests/asv/test_patches.py` checks each of them against the
pinned asv.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any

from asv import graph as asv_graph
from asv import results as asv_results
from asv import util
from asv.commands import compare as asv_compare
from asv.commands import run as asv_run

HIGHER_IS_BETTER = "track_throughput"


def apply(
    wrap_run: Callable[[Callable[..., int | None]], Callable[..., int | None]],
    wrap_run_benchmarks: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> None:
    """Replace functions of asv. `run.py` has the two that run benchmarks.

    - `Run.run`: asv does not tell a plug-in when an `asv run` begins and ends. Ours holds a lock on
      the results, keeps a session that an interrupted run resumes, and tells "some cases failed"
      from "nothing could run" by the exit status. A subclass of `Run` does not help: asv builds its
      argument parser before it loads plug-ins.
    - `run_benchmarks`: asv selects benchmarks once for all environments. Here a benchmark belongs
      to one environment, its framework's. In the others asv would start a process for each
      combination of parameters, only to show n/a.
    """
    asv_run.Run.run = classmethod(wrap_run(asv_run.Run.run.__func__))
    asv_run.run_benchmarks = wrap_run_benchmarks(asv_run.run_benchmarks)
    asv_results._format_benchmark_result = add_title(asv_results._format_benchmark_result)
    # Two names: asv.commands.compare has imported the function.
    util.human_value = asv_compare.human_value = print_mib(util.human_value)
    asv_compare.unroll_result = mark_direction(asv_compare.unroll_result)
    asv_compare._is_result_better = compare_either_way(asv_compare._is_result_better)
    asv_graph._compute_summary_data_series = chain_means


# asv prints a unit that it does not know with every digit and without its name, and "bytes" in
# powers of 1000. Peaks are in MiB here, as in all tables.
def print_mib(human_value: Callable[..., str]) -> Callable[..., str]:
    """Wrap asv's printing of a value: a peak in MiB has one decimal, and its unit without a space.

    `asv compare` splits its lines at spaces.
    """

    @wraps(human_value)
    def print_value(value: Any, unit: str, err: float | None = None) -> str:
        is_number = isinstance(value, (int, float)) and value == value  # NaN is not itself
        if unit == "MiB" and is_number:
            return f"{value:.1f}MiB"
        return human_value(value, unit, err=err)

    return print_value


# asv's tables name neither what they show nor its unit, and have a row for every combination of
# parameters: in a profile of a few cases hundreds of rows with nothing but n/a.
def add_title(format_result: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Wrap asv's table of a benchmark: add its `pretty_name`, and drop rows with only n/a."""

    @wraps(format_result)
    def format_with_title(result: Any, benchmark: dict[str, Any], *options: Any) -> list[str]:
        lines = format_result(result, benchmark, *options)
        # a row begins with the values of these parameters, and its numbers follow
        parameter_count = count_row_parameters(lines, benchmark["param_names"])
        shown_lines = []
        title = benchmark.get("pretty_name")
        if title:
            shown_lines.append(title)
        for line in lines:
            numbers = line.split()[parameter_count:]
            if set(numbers) != {"n/a"}:
                shown_lines.append(line)
        return shown_lines

    return format_with_title


def count_row_parameters(lines: list[str], names: list[str]) -> int:
    """Return how many parameters have a column with their names, in a table of asv.

    The other parameters are above the numbers, with a column for each of their values.
    """
    for line in lines:
        words = line.split()
        if words[:1] == names[:1]:
            return len(set(words).intersection(names))
    return 0


# asv takes the lower value for the better one, whatever is tracked; a benchmark cannot say
# otherwise. For `asv publish` asv.conf.json says that throughput has no regressions: its losses are
# those of step time.
class HigherIsBetter(float):
    """A value that is better when it is higher."""


def mark_direction(
    unroll_result: Callable[..., Iterator[tuple[Any, ...]]],
) -> Callable[..., Iterator[tuple[Any, ...]]]:
    """Wrap asv's iteration over results: mark throughputs, and leave out what is n/a."""

    @wraps(unroll_result)
    def unroll_marked(benchmark: str, *results: Any) -> Iterator[tuple[Any, ...]]:
        for name, value, *others in unroll_result(benchmark, *results):
            if value is not None and benchmark.endswith(HIGHER_IS_BETTER):
                value = HigherIsBetter(value)
            is_na = value != value  # NaN is not itself
            if not is_na:
                yield name, value, *others

    return unroll_marked


def compare_either_way(is_result_better: Callable[..., bool]) -> Callable[..., bool]:
    """Wrap asv's test whether one result is better than another by a factor."""

    @wraps(is_result_better)
    def is_better(
        first: float,
        second: float,
        first_stats: Any,
        second_stats: Any,
        *factor: Any,
        **options: Any,
    ) -> bool:
        if isinstance(first, HigherIsBetter):
            first, second = second, first
            first_stats, second_stats = second_stats, first_stats
        return is_result_better(first, second, first_stats, second_stats, *factor, **options)

    return is_better


# The graph of a whole benchmark is the mean of its cases, and asv takes those that a commit has. So
# it rises or falls where a large or a small case is first measured, or no longer, and no case has
# changed.
def chain_means(*graphs: Sequence[float | None]) -> list[float | None]:
    """Return the mean of several graphs over the same commits, of which each may lack values.

    The last mean is the geometric mean of the values that there are. An earlier one is the mean
    after it, divided by the geometric mean of the ratios of the graphs that have both. Where none
    has both there is no mean: None.
    """
    means: list[float | None] = [None] * len(graphs[0])
    last = None  # the position of the earliest mean so far
    for position in reversed(range(len(means))):
        present = [graph for graph in graphs if not util.is_na(graph[position])]
        if last is None:
            if present:
                means[position] = util.geom_mean_na(graph[position] for graph in present)
                last = position
            continue
        ratios = []
        for graph in present:
            before, after = graph[position], graph[last]
            if before and after and not util.is_na(after):
                ratios.append(after / before)
        if ratios:
            means[position] = means[last] / util.geom_mean_na(ratios)
            last = position
    return means
