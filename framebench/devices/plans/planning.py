"""What cases need on a device: from cached predictions, or planned now, two at a time."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import ValidationError

from framebench.devices.catalog import Device, find
from framebench.devices.plans import process, store
from framebench.devices.plans.answer import PlannerAnswer, shorten_error
from framebench.devices.plans.planned import (
    Planned,
    PredictionOrigin,
    Source,
)
from framebench.devices.plans.version import (
    PLANNER_VERSION,
    is_current,
    is_refusal_current,
)
from framebench.devices.simulation import cudnn
from framebench.engine import environments, releases
from framebench.engine.children import CHILDREN
from framebench.engine.environments import Environment, Say, SetupError
from framebench.engine.interrupts import interrupt_on_ending_signals
from framebench.engine.progress import format_duration
from framebench.models import spec
from framebench.ranks.cases import match_cases, parse_rank_case
from framebench.records import provenance
from framebench.records.pins import REQUIREMENTS, find_pinned_version, read_pins
from framebench.suite import hypothetical
from framebench.suite.case import FULL_SIZE, Case, UnknownCase
from framebench.suite.selectors import BRACES, asks_for_ranks, expand_braces, select
from framebench.suite.sequences import drop_duplicates, group_by

POLL_S = 0.1  # between two rounds of killing planners
AT_ONCE = 2  # planners: each keeps one or two cores busy and takes up to 3 GB
JAX_PACKAGES = {"gpu": "jax-cuda", "tpu": "jax-tpu"}  # environments with XLA's compiler
PLUGINS = ("jax-cuda13-plugin", "jax-cuda13-pjrt")  # released together with JAX
# for any release of JAX, the one that is pinned for the current release
ASSEMBLER = ("nvidia-cuda-nvcc", "nvidia-nvvm")
SOURCE_BY_FRAMEWORK: dict[str, Source] = {"jax": "compiler.plan", "torch": "allocator.simulated"}
WHY_NOT_JITTOR = (
    "Jittor decides what it allocates while it runs, and has no mode that runs without a device; "
    "on a CPU its own allocator's peak tells what its tensors take"
)
PlanListener = Callable[[Planned], None]


def select_cases(selector: str) -> list[Case]:
    """Return the cases that a selector names, each once. Raises UnknownCase.

    A selector without globs may have any batch, and any number of ranks. One without a size means
    the size of a published model: the smaller ones are for measurements on a CPU.
    """
    if BRACES.search(selector):
        cases = []
        for one in expand_braces(selector):
            cases += select_cases(one)
        return drop_duplicates(cases)
    is_over_ranks = asks_for_ranks(selector)
    size = selector.rsplit("/", 1)[-1]
    if is_over_ranks and spec.DESCRIBED.fullmatch(size):
        return match_cases(selector)
    described = hypothetical.select_described(selector)
    if described:
        return described
    try:
        return select(selector, FULL_SIZE, ranks=True)
    except UnknownCase:
        if any(glob in selector for glob in "*?["):
            raise
    # not a declared case: one of another batch, or of other ranks
    case_id = hypothetical.add_missing_size(selector, FULL_SIZE)
    return [parse_rank_case(case_id) if is_over_ranks else hypothetical.parse_any_batch(case_id)]


def explain_unpredictable_on_device(case: Case, device: Device) -> str | None:
    """Return why the needs of this case on a device cannot be predicted, or None if they can."""
    if case.framework not in SOURCE_BY_FRAMEWORK:
        return WHY_NOT_JITTOR
    if not case.support.supported:
        return case.support.why
    if case.framework == "torch" and device.kind != "gpu":
        return "PyTorch is planned for GPUs alone"
    return None


def ensure_environment(
    framework: str, device: Device, version: str, say: Say, convolutions: bool = True
) -> Environment:
    """Return the environment that predicts, built now if it is not there. Raises SetupError.

    Without `convolutions` PyTorch's needs no cuDNN: the one with cuDNN is taken if it is built.
    """
    is_pinned = version == find_pinned_version(framework)
    if framework == "torch" and not is_pinned:
        # simulated on fake tensors, so any build of it will do
        return releases.ensure_release(framework, version, package="", more=(), say=say)
    if framework == "torch":
        with_cudnn = environments.describe("torch", package=process.WITH_CUDNN)
        environment = None
        if convolutions or environments.is_built(with_cudnn):
            environment = ensure_cudnn(say)
        return environment or environments.ensure("torch", say=say)
    package = JAX_PACKAGES[device.kind]
    if is_pinned:
        return environments.ensure(framework, say=say, package=package)
    if device.kind != "gpu":
        raise SetupError(
            f"releases are planned for GPUs alone: not {framework} {version} for {device.name}"
        )
    pinned = read_pins(REQUIREMENTS / f"{package}.txt")
    requirements = [f"{name}=={version}" for name in PLUGINS]
    requirements += [f"{name}=={pinned[name]}" for name in ASSEMBLER]
    return releases.ensure_release(framework, version, package=package, more=requirements, say=say)


def ensure_cudnn(say: Say) -> Environment | None:
    """Return PyTorch's environment that has cuDNN, built now if it is not there yet.

    Returns None if the user names another cuDNN. If the environment cannot be built, it says why
    and returns None.
    """
    if cudnn.FOLDER_VARIABLE in os.environ:
        return None
    try:
        return environments.ensure("torch", say=say, package=process.WITH_CUDNN)
    except SetupError as error:
        reason = shorten_error(str(error))
        say(f"cuDNN cannot be had, so convolutions are planned without workspaces: {reason}")
        return None


def plan_all(
    cases: Sequence[Case],
    device: Device,
    results: Path,
    say: Say,
    listener: PlanListener | None = None,
    again: bool = False,
    version: str | None = None,
    environment: Environment | None = None,
    announce: bool = True,
    planners: process.Planners | None = None,
) -> list[Planned]:
    """Return the prediction of each case, in the order of the cases.

    It is cached, or planned now and then cached at once.

    Args:
        cases: Of any framework. What failed before is tried again.
        device: The target device.
        results: The folder of cached predictions.
        say: Called with a sentence about what is being done, where that takes long.
        listener: Called with each prediction.
        again: Whether to recompute what is cached.
        version: Of the framework, if not the pinned one.
        environment: In the place of the pinned ones.
        announce: Whether to say how many cases are planned.
        planners: Those that plan; None starts new ones, and ends them.
    """
    planned = {} if again else find_cached(cases, device, results, version)
    if listener:
        for cached in planned.values():
            listener(cached)
    missing = [case for case in cases if case not in planned]
    workers = count_workers(device)
    to_plan = [case for case in missing if not explain_unpredictable_on_device(case, device)]
    if to_plan and announce:
        say(describe_plans(to_plan, len(cases), device, workers, results))
    ready = {} if environment else ensure_environments(to_plan, device, version, say)
    folder = store.choose_writable_folder(results)
    with (
        interrupt_on_ending_signals(),  # also where no command line has begun it
        contextlib.ExitStack() as stack,
    ):
        planners = planners or stack.enter_context(process.Planners(workers))
        waiting: dict[Future[Planned], Case] = {}
        try:
            for case in missing:
                planner = environment or ready.get(case.framework)
                new_plan = planners.pool.submit(
                    plan_case, case, device, planner, version, planners.servers
                )
                waiting[new_plan] = case
            for done in as_completed(waiting):
                new = planned[waiting[done]] = done.result()
                store.write(folder, new, say)
                if listener:
                    listener(new)
        except BaseException:
            planners.pool.shutdown(wait=False, cancel_futures=True)
            kill_planners(waiting)
            raise
    return [planned[case] for case in cases]


def count_workers(device: Device) -> int:
    """Return how many cases are planned for a device at the same time."""
    return 1 if device.kind == "tpu" else AT_ONCE  # a TPU's compiler takes a lock


def kill_planners(cases: Iterable[Future[Planned]]) -> None:
    """Kill the planners until no thread plans a case: one may only be about to start its planner.

    To end this process, all its threads have to end.
    """
    while not all(case.done() for case in cases):
        CHILDREN.kill()
        time.sleep(POLL_S)


def ensure_environments(
    cases: Iterable[Case], device: Device, version: str | None, say: Say
) -> dict[str, Environment | SetupError]:
    """Return by framework the environment that predicts these cases, or why there is none."""
    ready: dict[str, Environment | SetupError] = {}
    for framework, of_framework in group_by(cases, lambda case: case.framework).items():
        release = version or find_pinned_version(framework)
        convolutions = any(
            case.workload_spec.has_convolutions is not False for case in of_framework
        )
        try:
            ready[framework] = ensure_environment(framework, device, release, say, convolutions)
        except SetupError as error:
            ready[framework] = error
    return ready


def describe_plans(
    missing: Sequence[Case], count: int, device: Device, workers: int, results: Path
) -> str:
    """Return what is planned now of so many cases, how many at once, and about how long it takes.

    `missing` has those without a cached prediction, at least one.
    """
    at_once = min(workers, len(missing))
    how_long = "seconds to minutes each"
    seconds = sum_typical_seconds(missing, device, results)
    if seconds is not None:
        how_long = f"about {format_duration(seconds / at_once)}, as long as earlier ones took"
    if count == 1:
        return f"planning {missing[0].id} for {device.title}: {how_long.removesuffix(' each')}"
    return (
        f"planning {len(missing)} of {count} cases for {device.title}, {at_once} at once: "
        f"{how_long}"
    )


def sum_typical_seconds(cases: Iterable[Case], device: Device, results: Path) -> float | None:
    """Return how long plans of these cases take, one after the other, if each takes the median.

    The median is that of a framework's cached predictions for the device, by any release. Returns
    None if a framework has none.
    """
    total = 0.0
    for framework, count in Counter(case.framework for case in cases).items():
        times = []
        for root in store.list_folders(results):
            pattern = store.find_file(root, device.name, framework, "*")
            for file in sorted(pattern.parent.glob(pattern.name)):
                answered = [one for one in store.read(file).values() if one.has_answer]
                times += [one.origin.wall_s for one in answered]
        if not times:
            return None
        total += count * median(times)
    return total


def planned_for(
    cases: Sequence[Case | str],
    device: str,
    results: Path,
    say: Say,
    release: str | None = None,
) -> list[Planned]:
    """Return the prediction of each case or selector, for other features.

    By a `release` such as jax==0.9.2 only those of its framework. Raises UnknownDevice,
    UnknownCase.
    """
    chosen: list[Case] = []
    for case in cases:
        chosen += select_cases(case) if isinstance(case, str) else [case]
    framework, _, version = (release or "").partition("==")
    of_framework = [case for case in dict.fromkeys(chosen) if framework in ("", case.framework)]
    if chosen and not of_framework:
        raise UnknownCase(
            f"{release} has none of these cases: {', '.join(map(str, cases))}; "
            f"name one of {framework}"
        )
    return plan_all(of_framework, find(device), results, say, version=version or None)


def find_cached(
    cases: Sequence[Case], device: Device, results: Path, version: str | None = None
) -> dict[Case, Planned]:
    """Return the predictions that were saved and can be reused: published ones, and one's own.

    Those of a user's file are never reused, since the file may have changed. A size of another name
    counts if its model is the same, such as `full` and `124M`. `version` is that of the framework,
    by default the pinned one.
    """
    reusable: dict[str, Planned] = {}  # by case
    for root in store.list_folders(results):
        for framework in {case.framework for case in cases}:
            release = version or find_pinned_version(framework)
            file = store.find_file(root, device.name, framework, release)
            for planned in store.read(file).values():
                if is_reusable(planned):
                    reusable[planned.case] = planned
    cached: dict[Case, Planned] = {}
    for case in cases:
        found = reusable.get(case.id) or find_same_model(case, reusable)
        if found and case.workload != spec.USER_MODEL:
            cached[case] = found
    return cached


def find_same_model(case: Case, predictions: Mapping[str, Planned]) -> Planned | None:
    """Return the prediction of the same step under another name of its size, or None.

    The prediction is named as the case is.
    """
    if not case.workload_spec.described:  # without descriptions a model has one name
        return None
    for case_id, prediction in predictions.items():
        other = Case.from_id(case_id)
        try:
            is_same = replace(other, size=case.size) == case and other.config == case.config
        except ValueError:  # a size that this version does not have
            continue
        if is_same:
            return prediction.model_copy(update={"case": case.id})
    return None


def is_reusable(planned: Planned) -> bool:
    """Return whether a cached answer is what would be answered now: what failed is tried again."""
    if planned.outcome == "failed":
        return False
    code = planned.origin.code
    if planned.outcome == "not planned":
        return is_refusal_current(code, planned.reason or "")
    return is_current(code)


def plan_case(
    case: Case,
    device: Device,
    environment: Environment | SetupError | None,
    version: str | None,
    servers: process.Servers,
) -> Planned:
    """Return a case's prediction; a planner's fault is an outcome of it, not an exception."""
    start = time.monotonic()
    obstacle = explain_unpredictable_on_device(case, device)
    if obstacle:
        answer = PlannerAnswer("not planned", obstacle)
    elif not isinstance(environment, Environment):
        answer = PlannerAnswer("failed", f"no compiler for it: {shorten_error(str(environment))}")
    else:
        answer = servers.plan(environment, case, device)
    fields = dataclasses.asdict(answer)
    origin = PredictionOrigin(
        planned_at=datetime.now(UTC),
        command=provenance.describe_command(),
        commit=provenance.find_code(),
        dirty=provenance.is_dirty(),
        code=str(PLANNER_VERSION),
        versions=fields.pop("versions"),
        wall_s=round(time.monotonic() - start, 1),
    )
    about: dict[str, Any] = {
        "case": case.id,
        "device": device.name,
        "framework": case.framework,
        "framework_version": version or find_pinned_version(case.framework),
        "source": SOURCE_BY_FRAMEWORK.get(case.framework),
        "origin": origin,
    }
    try:
        return Planned(**about, **fields)
    except ValidationError as error:
        reason = f"the planner returned no valid prediction: {shorten_error(str(error))}"
        return Planned(**about, outcome="failed", reason=reason)
