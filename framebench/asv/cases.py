"""Which cases lie behind asv's benchmarks.

asv takes the product of a benchmark's parameter lists, most of which is no case of any profile, and starts a process for
each combination that it has selected, and shows a row for each that it has not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from asv.benchmarks import Benchmarks

from framebench.engine.runner import unsupported
from framebench.models.spec import names, workload
from framebench.suite.case import DEFAULT_SIZE, Case
from framebench.suite.profiles import profile, profile_name
from framebench.suite.strategy import FRAMEWORKS


def own(benchmarks: Benchmarks, framework: str) -> Benchmarks:
    """asv's selection without other frameworks and without combinations that are no case: asv shows n/a for these, and starts
    no process."""
    chosen = {name: [place for place, _ in selected(benchmarks, name)] for name in of_framework(benchmarks, framework)}
    kept = benchmarks.filter_out({name for name in benchmarks if not chosen.get(name)})
    kept.benchmark_selection.update((name, chosen[name]) for name in kept)
    return kept


def measured(selection: dict[str, Any]) -> list[Case]:
    """All that asv selected and that can be measured, in every environment; of several versions of a framework once for each.
    Nothing before asv has decided."""
    return [case for env in selection.get("environments", ()) for case in planned(selection["benchmarks"], env.framework)]


def planned(benchmarks: Benchmarks, framework: str) -> list[Case]:
    """Those of one framework."""
    selected_cases = {case for name in of_framework(benchmarks, framework) for _, case in selected(benchmarks, name)}
    return [case for case in profile() if case in selected_cases and not unsupported(case)]


def selected(benchmarks: Any, name: str) -> Iterator[tuple[int, Case]]:
    """The profile's cases that asv selected of a benchmark, each after its place in the product of the parameters."""
    params, places = benchmarks[name]["params"], frozenset(benchmarks.benchmark_selection[name])
    suite_class = parse(name)
    if suite_class is None:
        return
    for case in behind(*suite_class, profile_name()):
        indices = [p.index(repr(value)) for p, value in zip(params, (case.scenario, case.strategy, case.batch), strict=True)]
        place = int(np.ravel_multi_index(indices, [len(p) for p in params]))
        if place in places:
            yield place, case


@cache  # asked for each benchmark, whenever a case is done
def behind(workload: str, framework: str, size: str, profile_name: str) -> list[Case]:
    named = (workload, framework, size)
    return [case for case in profile(profile_name) if (case.workload, case.framework, case.size) == named]


class SuiteClass(NamedTuple):
    """What a class of the suite's benchmarks measures."""

    workload: str
    framework: str
    size: str


def parse(benchmark: str) -> SuiteClass | None:
    """Return what `resnet50.ResNet50TorchTiny.track_step_time` measures: ResNet-50, torch, tiny.

    None for a benchmark that is not of the suite, as a file that somebody put into `benchmarks/` has.
    """
    module, _, rest = benchmark.partition(".")
    class_name, _, _ = rest.partition(".")
    if module not in names():
        return None
    prefix = workload(module).benchmark
    for framework in FRAMEWORKS:
        start = f"{prefix}{framework.title()}"
        if class_name.startswith(start):
            size = class_name.removeprefix(start).lower() or DEFAULT_SIZE
            return SuiteClass(module, framework, size)
    return None


def of_framework(benchmarks: Iterable[str], framework: str) -> list[str]:
    """Return the suite's benchmarks of a framework among these."""
    chosen = []
    for name in benchmarks:
        suite_class = parse(name)
        if suite_class is not None and suite_class.framework == framework:
            chosen.append(name)
    return chosen


def foreign(benchmarks: Iterable[str]) -> list[str]:
    """Return the benchmarks that are not of the suite, which nothing here can run."""
    return [name for name in benchmarks if parse(name) is None]
