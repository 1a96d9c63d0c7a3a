"""Which cases of the suite stand behind asv's benchmarks, and which of them a run measures.

asv takes the product of a benchmark's parameters. It starts a process for each combination that it
selected, and prints a row for each one that it did not. Most combinations are no case of the
profile that is measured.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from framebench.engine.runner import explain_unsupported
from framebench.models import spec
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite import profiles
from framebench.suite.case import DEFAULT_SIZE, Case
from framebench.suite.sequences import drop_duplicates

if TYPE_CHECKING:  # benchmark processes read this file too, and need nothing of asv itself
    from asv.benchmarks import Benchmarks


class SuiteClass(NamedTuple):
    """The cases that a class in `benchmarks/` measures."""

    workload: str
    framework: str
    scenario: str
    size: str

    @property
    def name(self) -> str:
        """Return the name that the class must have: `transformer.TransformerTorchTrainTiny`."""
        workload = spec.load_workload(self.workload).benchmark
        scenario = self.scenario.title().replace("_", "")
        size = "" if self.size == DEFAULT_SIZE else self.size.title()
        return f"{self.workload}.{workload}{self.framework.title()}{scenario}{size}"


@cache
def list_suite_classes() -> dict[str, SuiteClass]:
    """Return the suite's classes by their names."""
    classes = {}
    for case in list_all_cases():
        suite_class = SuiteClass(case.workload, case.framework, case.scenario, case.size)
        classes[suite_class.name] = suite_class
    return classes


@cache
def list_all_cases() -> tuple[Case, ...]:
    """Return the cases of all profiles, each once.

    The list makes a benchmark's parameters the same under every profile, so that asv collects the
    results that several profiles measure at one commit.
    """
    cases: list[Case] = []
    for name in profiles.PROFILES:
        cases += profiles.list_profile_cases(name)
    return tuple(drop_duplicates(cases))


def list_class_cases(workload: str, framework: str, scenario: str, size: str) -> list[Case]:
    """Return the cases of a class that its framework and its workload can have."""
    suite_class = SuiteClass(workload, framework, scenario, size)
    cases = []
    for case in list_all_cases():
        case_class = SuiteClass(case.workload, case.framework, case.scenario, case.size)
        if case_class == suite_class and case.support.supported:
            cases.append(case)
    return cases


def parse(benchmark: str) -> SuiteClass | None:
    """Return the suite's class that a benchmark such as `unet3d.UNet3DJaxTrain.x` measures.

    Returns None for a benchmark that is not of the suite, such as one in a file that somebody put
    into `benchmarks/`.
    """
    class_name, _, _ = benchmark.rpartition(".")
    return list_suite_classes().get(class_name)


def select_of_framework(benchmarks: Iterable[str], framework: str) -> list[str]:
    """Return the suite's benchmarks of a framework among these."""
    selected = []
    for name in benchmarks:
        suite_class = parse(name)
        if suite_class is not None and suite_class.framework == framework:
            selected.append(name)
    return selected


def select_of_users(benchmarks: Iterable[str]) -> list[str]:
    """Return the benchmarks that are not of the suite: asv runs them as it would anywhere."""
    return [name for name in benchmarks if parse(name) is None]


def select_by_parameters(
    benchmarks: Benchmarks, name: str, profile_name: str | None = None
) -> dict[int, Case]:
    """Return the selected cases of a benchmark by their index in the product of its parameters.

    They are those of the profile, by default of the one that is measured.
    """
    profile_name = profile_name or profiles.read_profile_name()
    suite_class = parse(name)
    if suite_class is None:
        return {}
    # as asv has them: each value as Python writes it
    strategies, batches = benchmarks[name]["params"]
    selected = {}
    for case in list_cases_of_class_in_profile(suite_class, profile_name):
        strategy_index = strategies.index(repr(case.strategy))
        index = strategy_index * len(batches) + batches.index(repr(case.batch))
        if index in benchmarks.benchmark_selection[name]:
            selected[index] = case
    return selected


@cache  # called for each benchmark, whenever a case is done
def list_cases_of_class_in_profile(suite_class: SuiteClass, profile_name: str) -> list[Case]:
    """Return the cases of a class that a profile measures."""
    class_cases = list_class_cases(*suite_class)
    return [case for case in profiles.list_profile_cases(profile_name) if case in class_cases]


def select(benchmarks: Benchmarks, names: Iterable[str]) -> Benchmarks:
    """Return asv's benchmarks whose names are in `names`.

    Of the suite's own benchmarks only the cases of the profile are selected.
    """
    selection = {}
    for name in names:
        if parse(name) is None:
            selection[name] = benchmarks.benchmark_selection[name]
            continue
        indices = list(select_by_parameters(benchmarks, name))
        if indices:
            selection[name] = indices
    selected = benchmarks.filter_out(set(benchmarks) - set(selection))
    selected.benchmark_selection.update(selection)
    return selected


def select_framework(benchmarks: Benchmarks, framework: str) -> Benchmarks:
    """Return asv's selection with only the cases of one framework."""
    return select(benchmarks, select_of_framework(benchmarks, framework))


def list_measurable(benchmarks: Benchmarks, framework: str) -> list[Case]:
    """Return the selected cases of a framework that this machine can measure, in order."""
    selected: set[Case] = set()
    for name in select_of_framework(benchmarks, framework):
        selected.update(select_by_parameters(benchmarks, name).values())
    cases = [case for case in profiles.list_profile_cases() if case in selected]
    return [case for case in cases if not explain_unsupported(case)]


def list_run_cases(selection: dict[str, Any]) -> list[Case]:
    """Return all cases that an `asv run` measures, once for each environment of their framework.

    `selection` is what asv has decided; it is empty before that.
    """
    cases = []
    for environment in selection.get("environments", ()):
        cases += list_measurable(selection["benchmarks"], environment.framework)
    return cases


def has_any(benchmarks: Benchmarks) -> bool:
    """Return whether asv selected any case of the profile, or any benchmark of a user's."""
    return bool(select_of_users(benchmarks)) or any(
        select_framework(benchmarks, name) for name in FRAMEWORKS
    )


def find_profiles(benchmarks: Benchmarks) -> list[str]:
    """Return the profiles that have some of the cases that asv selected."""
    profiles_with_cases = []
    for profile_name in profiles.PROFILES:
        if any(select_by_parameters(benchmarks, name, profile_name) for name in benchmarks):
            profiles_with_cases.append(profile_name)
    return profiles_with_cases
