"""The strategy table is total, and each of its cells has a test.

`test_torch_strategies.py` and its neighbours run a framework's cases.
"""

from __future__ import annotations

import re
from operator import attrgetter

import pytest
from _pytest.mark import ParameterSet

from framebench.engine import environments
from framebench.models.spec import list_workloads, load_workload
from framebench.strategies.registry import STRATEGIES
from framebench.strategies.strategy import FRAMEWORKS, Native, Strategy, Support
from framebench.suite.case import Case
from framebench.suite.profiles import list_cases
from tests.marks import needs_gpu
from tests.processes import ROOT
from tests.suite.chosen_cases import choose_fewest, find_faults, list_supported


def test_a_missing_cell_stops_the_import():
    with pytest.raises(ValueError, match="no support for jax, jittor"):
        Strategy(
            "new",
            scenarios=("train",),
            axis="axis",
            summary="",
            effect="",
            support={"torch": Native("")},
        )


def test_every_variant_of_a_strategy_is_declared():
    variants = {""}  # of a strategy that has the workload as it is
    for name in list_workloads():
        variants |= set(load_workload(name).variants)
    for strategy in STRATEGIES.values():
        assert strategy.variant in variants


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_supported_strategy_is_without_a_test(framework):
    """Tests verify the small cases of `list_supported`; what needs a GPU is left to a GPU."""
    covered = {(case.scenario, case.strategy) for case in list_supported(framework)}
    for case in list_cases():
        if case.framework == framework and case.support.gpu:
            covered.add((case.scenario, case.strategy))
    for case in list_cases():
        # combinations of strategies are pairs, which test_pairs.py has
        is_single = (case.scenario, case.strategy) in STRATEGIES
        if case.framework == framework and is_single and case.support.supported:
            assert (case.scenario, case.strategy) in covered, case.id


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_switch_of_a_framework_is_left_out(framework):
    """Whatever its adapter enters as a switch is run, or needs a GPU or a process of its own."""
    switches = set()
    for file in (ROOT / "framebench/adapters" / framework).glob("*.py"):
        if file.name != "ranks.py":
            switches |= set(re.findall(r"^@switch\ndef (\w+)", file.read_text(), re.MULTILINE))
    covered = set()
    for case in choose_fewest(framework):
        covered |= {part.switch for part in case.parts}
    for case in list_cases():
        for part in case.strategy_spec.parts:
            if case.framework == framework and is_special(part.support[framework]):
                covered.add(part.switch)
    assert switches
    assert switches - covered == set()


def is_special(support: Support) -> bool:
    """Return whether a case needs a GPU, or a process of its own."""
    return support.supported and (support.gpu or bool(support.env))


def test_a_batch_that_does_not_divide_is_unsupported():
    assert not Case.from_id("unet3d/torch/train/accumulate/b2/full").support.supported


def make_param(case: Case) -> ParameterSet:
    """Return the parameter of a case whose variables must precede the import.

    It is tested in one workload. Jittor's core is built anew for them, which takes minutes: where
    that has not happened yet, it is for `make test-all`, too.
    """
    home = environments.describe(case.framework).home
    name = case.support.env.get("cache_name")
    is_built = bool(home and name and list(home.glob(f".cache/jittor/jt*/*/*/*/*/*/{name}")))
    is_quick = is_built and case.workload == "transformer"
    return pytest.param(case, id=case.id, marks=() if is_quick else pytest.mark.all_cases)


SUPPORTED = [case for framework in FRAMEWORKS for case in list_supported(framework)]
FOR_A_GPU = [case for case in SUPPORTED if case.support.gpu]
WITH_VARIABLES = [case for case in SUPPORTED if case.support.env and not case.support.gpu]


@pytest.mark.slow
@pytest.mark.parametrize("case", [make_param(case) for case in WITH_VARIABLES])
def test_strategies_that_need_environment_variables_are_right_and_confirmed(case, environment):
    assert find_faults(environment[case.framework], [case], dict(case.support.env)) == {}


@pytest.mark.gpu
@pytest.mark.slow
@needs_gpu
@pytest.mark.parametrize("case", FOR_A_GPU, ids=attrgetter("id"))
def test_strategies_that_need_a_gpu_are_right_and_confirmed(case, environment):
    assert find_faults(environment[case.framework], [case], dict(case.support.env)) == {}
