"""Which cases lie behind asv's benchmarks.

asv takes the product of a benchmark's parameter lists, most of which is no case of any profile, and starts a process for
each combination that it has selected, and shows a row for each that it has not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import Any

import numpy as np
from asv.benchmarks import Benchmarks

from framebench.engine.runner import unsupported
from framebench.models.spec import workload
from framebench.suite.case import DEFAULT_SIZE, Case
from framebench.suite.profiles import profile, profile_name
from framebench.suite.strategy import FRAMEWORKS


def own(benchmarks: Benchmarks, framework: str) -> Benchmarks:
    """asv's selection without other frameworks and without combinations that are no case: asv shows n/a for these, and starts
    no process."""
    chosen = {
        name: [place for place, _ in selected(benchmarks, name)] for name in benchmarks if _framework_of(name) == framework
    }
    kept = benchmarks.filter_out({name for name in benchmarks if not chosen.get(name)})
    kept.benchmark_selection.update((name, chosen[name]) for name in kept)
    return kept


def measured(selection: dict[str, Any]) -> list[Case]:
    """All that asv selected and that can be measured, in every environment; of several versions of a framework once for each.
    Nothing before asv has decided."""
    return [case for env in selection.get("environments", ()) for case in planned(selection["benchmarks"], env.framework)]


def planned(benchmarks: Benchmarks, framework: str) -> list[Case]:
    """Those of one framework."""
    selected_cases = {case for name in benchmarks if _framework_of(name) == framework for _, case in selected(benchmarks, name)}
    return [case for case in profile() if case in selected_cases and not unsupported(case)]


def selected(benchmarks: Any, name: str) -> Iterator[tuple[int, Case]]:
    """The profile's cases that asv selected of a benchmark, each after its place in the product of the parameters."""
    params, places = benchmarks[name]["params"], frozenset(benchmarks.benchmark_selection[name])
    framework = _framework_of(name)
    size = _after_workload(name).removeprefix(framework) or DEFAULT_SIZE
    for case in behind(name.split(".")[0], framework, size, profile_name()):
        indices = [p.index(repr(value)) for p, value in zip(params, (case.scenario, case.strategy, case.batch), strict=True)]
        place = int(np.ravel_multi_index(indices, [len(p) for p in params]))
        if place in places:
            yield place, case


@cache  # asked for each benchmark, whenever a case is done
def behind(workload: str, framework: str, size: str, profile_name: str) -> list[Case]:
    named = (workload, framework, size)
    return [case for case in profile(profile_name) if (case.workload, case.framework, case.size) == named]


def _framework_of(benchmark: str) -> str:
    """`torch` of `resnet50.ResNet50TorchTiny.track_step_time`."""
    return next(f for f in FRAMEWORKS if _after_workload(benchmark).startswith(f))


def _after_workload(benchmark: str) -> str:
    name, of_class, *_ = benchmark.split(".")
    return of_class.removeprefix(workload(name).benchmark).lower()


def without_empty_rows(format_result: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """asv's table of a benchmark, without the rows that have nothing but n/a: in a large profile they are hundreds."""

    @wraps(format_result)
    def shown(result: Any, benchmark: dict[str, Any], *options: Any) -> list[str]:
        lines, names = format_result(result, benchmark, *options), benchmark["param_names"]
        head = next((line.split() for line in lines if names[:1] == line.split()[:1]), [])
        parameters = len(set(head).intersection(names))  # the others have a column for each value
        return [line for line in lines if set(line.split()[parameters:]) != {"n/a"}]

    return shown
