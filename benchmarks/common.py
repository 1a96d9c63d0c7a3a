"""Base classes of the benchmarks: the metrics of one measured case, and the cases of a class.

A class in `resnet50.py`, `transformer.py` or `unet3d.py` stands for one workload in one framework,
scenario and size. asv measures each of its `track_` methods for each strategy and batch.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, cast

from framebench.asv.block import find_or_measure
from framebench.asv.cases import list_class_cases
from framebench.engine import runner
from framebench.models import spec
from framebench.records.record import Record
from framebench.strategies.registry import SCENARIOS
from framebench.strategies.strategy import TITLES
from framebench.suite import profiles, protocol
from framebench.suite.case import DEFAULT_SIZE, TRIAL_SIZE, Case
from framebench.suite.sequences import drop_duplicates

# asv forks every benchmark process from a server that has read these once.
ENVIRONMENT = os.environ.get("FRAMEBENCH_ENV", "")  # such as torch==2.13.0
PROFILE = tuple(profiles.list_profile_cases())

MIB = 2**20
TrackMethod = Callable[[Any, str, int], float]

# asv compares results of one version only. Without these, every edit of this file would be a new
# version.
VERSION = str(protocol.VERSION)
# Before, the peak was in bytes and by each framework's own counter.
PEAK_VERSION = f"{protocol.VERSION}-MiB"


# what equal processes differ by at so small a peak (studies/noise)
COARSE_PEAK = ", which strays by 0.25 MiB: too coarse to compare"


def metric(title: str, unit: str, version: str = VERSION) -> Callable[[TrackMethod], TrackMethod]:
    """Give a `track_` method the attributes that asv reads; its class completes the title."""

    def describe(method: TrackMethod) -> TrackMethod:
        vars(method).update(title=title, unit=unit, version=version)
        return method

    return describe


class CaseFailed(RuntimeError):
    """The case has no number, which asv shows as "failed"; the message says why."""


class CaseBenchmark(ABC):
    """A workload in one framework, scenario and size; parameters are strategies and batches.

    asv runs every metric of every parameter in a process of its own. The first process that asks
    for a case measures the block that the case is in. All others find their record in the same
    session.
    """

    size: ClassVar[str] = DEFAULT_SIZE
    scenario: ClassVar[str]
    params: ClassVar[list[list[str] | list[int]]]
    param_names: ClassVar[list[str]] = ["strategy", "batch"]
    # More than the limits of a whole block: were asv to stop a case, its reason would be lost.
    timeout = 24 * 3600

    # Abstract, so that asv, which collects every concrete class, passes over the classes in this
    # file.
    @property
    @abstractmethod
    def workload(self) -> str:
        """The name of a folder in `models/`."""

    @property
    @abstractmethod
    def framework(self) -> str:
        """`torch`, `jax` or `jittor`."""

    def __init_subclass__(cls) -> None:
        """Give the class the parameters of its cases, and methods of its own for asv."""
        if isinstance(cls.workload, property):
            return  # a class of this file, which has a scenario and no workload
        workload = spec.load_workload(cast(str, cls.workload))
        framework = cast(str, cls.framework)
        cases = list_class_cases(workload.name, framework, cls.scenario, cls.size)
        # asv's pages open with the first value of each parameter: the baseline at the base batch
        baseline = SCENARIOS[cls.scenario].baseline
        base_batch = workload.preset(cls.size).base
        strategies = drop_duplicates([baseline, *(case.strategy for case in cases)])
        other_batches = {case.batch for case in cases} - {base_batch}
        cls.params = [strategies, [base_batch, *sorted(other_batches)]]
        about = f"{workload.title} in {TITLES[framework]}, {cls.scenario}"
        if cls.size != DEFAULT_SIZE:
            about += f", size {cls.size}"
        for name, method in inspect.getmembers(cls, inspect.isfunction):
            if name.startswith("track_"):
                is_trial = cls.size == TRIAL_SIZE
                copy = copy_for_class(method, about, f"{workload.unit}/s", is_trial)
                setattr(cls, name, copy)

    def setup(self, strategy: str, batch: int) -> None:
        """Find or measure the record that every metric of a case reads.

        asv shows n/a where NotImplementedError is raised here. Raises CaseFailed.
        """
        case = Case(self.workload, self.framework, self.scenario, strategy, batch, self.size)
        if self.framework != ENVIRONMENT.split("==")[0]:
            environment = ENVIRONMENT or "which has no framework"
            raise NotImplementedError(f"{self.framework} is not in this environment, {environment}")
        if case not in PROFILE:
            raise NotImplementedError(
                f"{case.id} is not in the profile {profiles.read_profile_name()}"
            )
        self.record = find_or_measure(case, ENVIRONMENT, PROFILE)
        if self.record.status == "ok":
            return
        reason = f"{self.record.status}: {self.record.reason}"
        if self.record.status == "unsupported" or runner.is_expected_failure(self.record):
            raise NotImplementedError(reason)
        sys.tracebacklimit = 0  # asv prints the traceback, and the reason is not in this file
        raise CaseFailed(reason)

    @metric(
        "peak memory of a step in MiB by host.rss (on a GPU by device.process)", "MiB", PEAK_VERSION
    )
    def track_peak_memory(self, strategy: str, batch: int) -> float:
        """Return the peak in MiB by the instrument that all frameworks share."""
        return read_peak(self.record, self.record.shared_instrument)

    @metric("time of a step", "seconds")
    def track_step_time(self, strategy: str, batch: int) -> float:
        """Return the median seconds of a step."""
        return or_nan(self.record.step_time_s)

    @metric("time of the first step, with compilation", "seconds")
    def track_first_step(self, strategy: str, batch: int) -> float:
        """Return the seconds of the first step, with compilation."""
        return or_nan(self.record.first_step_s)

    @metric("throughput", unit="of the workload")
    def track_throughput(self, strategy: str, batch: int) -> float:
        """Return samples or tokens per second with two decimals: asv would print sixteen digits."""
        return round(or_nan(self.record.throughput), 2)


class OwnCounter(CaseBenchmark):
    """The peak of a framework that counts its bytes itself; PyTorch does so on a GPU only."""

    @metric("peak memory of a step in MiB by the framework's own counter", "MiB")
    def track_own_counter_peak(self, strategy: str, batch: int) -> float:
        """Return the peak in MiB, by `compiler.plan` of JAX or `allocator.in_use` of Jittor."""
        return read_peak(self.record, self.record.own_instrument)


class Training(CaseBenchmark):
    """A step of training."""

    scenario = "train"


class Evaluation(CaseBenchmark):
    """A forward pass in evaluation mode."""

    scenario = "eval"


class FineTuning(CaseBenchmark):
    """A step of training of the upper half of the blocks; the lower half is frozen."""

    scenario = "finetune"


class PairOfModels(CaseBenchmark):
    """Evaluation by two models that differ in their last layer."""

    scenario = "pair"


class InputPipeline(CaseBenchmark):
    """A step of training on images that are read and prepared on the host."""

    scenario = "pipeline"


class VariableLengths(CaseBenchmark):
    """Evaluation of batches whose sequences differ in length."""

    scenario = "varlen"


class Generation(CaseBenchmark):
    """Tokens generated one after the other."""

    scenario = "generate"


class CustomOperator(CaseBenchmark):
    """A step of training whose GELU is a differentiation rule written by hand."""

    scenario = "custom_op"


def copy_for_class(method: TrackMethod, about: str, work_unit: str, is_trial: bool) -> TrackMethod:
    """Return a copy of an inherited method with the class's own title, which asv shows.

    `is_trial` says that the class is of the smallest size, whose peaks are hardly more than noise.
    """

    @functools.wraps(method)
    def track(self: CaseBenchmark, strategy: str, batch: int) -> float:
        return method(self, strategy, batch)

    attributes = vars(track)
    title = attributes["title"]
    if method.__name__ == "track_throughput":
        attributes["unit"] = work_unit
        title = f"{title} in {work_unit}"
    if is_trial and method.__name__ == "track_peak_memory":
        title += COARSE_PEAK
    attributes["pretty_name"] = f"{about}: {title}"
    return track


def read_peak(record: Record, instrument: str | None) -> float:
    """Return a peak in MiB. asv writes "bytes" in powers of 1000, and our tables do not."""
    count = record.peaks.get(instrument or "")
    return or_nan(None if count is None else count / MIB)


def or_nan(value: float | None) -> float:
    """Return NaN, which asv shows as n/a, for a number that a case does not have here."""
    return math.nan if value is None else float(value)
