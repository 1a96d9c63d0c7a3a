"""Have strategies checked in float64, once per code, environment and kind of processor.

A separate process computes the same strategy at the smallest size (`worker/mathematics.py`). Its
outcome stands for every batch and size of the strategy, and is cached until the code changes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from framebench.engine import environments, runner
from framebench.engine.environments import Environment
from framebench.engine.runner import Options
from framebench.engine.supervisor import Outcome, Worker
from framebench.engine.timed_process import Variant
from framebench.instruments import nvml
from framebench.models.spec import find_folders
from framebench.records import lines, provenance
from framebench.records.lines import BadRecord
from framebench.suite.case import Case, find_first_batch
from framebench.suite.result import Mathematics
from framebench.suite.sequences import cut_into_batches

WORKER = "framebench.worker.mathematics"
SMALLEST = "tiny"
# A process is limited to so many cases, since what each leaves in memory adds up.
CASES_OF_A_PROCESS = 12
# Variables that make libraries use other instructions, and so other kernels.
LIMITING = (
    "ATEN_CPU_CAPABILITY",
    "MKL_ENABLE_INSTRUCTIONS",
    "ONEDNN_MAX_CPU_ISA",
    "OPENBLAS_CORETYPE",
    "XLA_FLAGS",
)
OUTCOMES = TypeAdapter(dict[str, Mathematics])  # in a line of the cache, by case


def check(
    variants: list[Variant], options: Options, on_phase: Callable[[Case, str], None]
) -> dict[Variant, Mathematics]:
    """Return whether each variant's strategy is right in float64, computing what is not cached.

    Where there are no references, it counts as passed and not computed.
    """
    outcomes: dict[Variant, Mathematics] = {}
    groups: dict[Path, dict[Variant, Case]] = defaultdict(dict)  # by file of the cache
    for variant in variants:
        case = find_representative(variant.case)
        if case is not None:
            groups[find_cache_file(variant.environment, case, options)][variant] = case
            continue
        reason = (
            f"there are no float64 references for {variant.case.golden_key}, and none for it "
            "at a smaller size"
        )
        outcomes[variant] = Mathematics(variant.case.id, computed=False, passed=True, reason=reason)
    # several processes at once might need more than a GPU's memory
    processes = 1 if nvml.list_gpus() else len(options.list_cores())
    for file, representatives in groups.items():
        first = next(iter(representatives))
        outcome_by_case = compute_missing(
            file,
            list(dict.fromkeys(representatives.values())),
            first.environment,
            options,
            # progress names the case that was requested, and not the one that stands for it
            partial(on_phase, first.case),
            processes=processes,
        )
        for variant, case in representatives.items():
            outcomes[variant] = outcome_by_case[case.id]
    return outcomes


def find_representative(case: Case) -> Case | None:
    """Return the case that stands for this one in float64.

    The representative has the same strategy, at the smallest size with references. None if no size
    has references.
    """
    for size in dict.fromkeys((SMALLEST, case.size)):
        if size not in case.workload_spec.sizes or size in case.workload_spec.without_golden:
            continue
        candidate = replace(case, size=size)
        candidate = replace(candidate, batch=find_first_batch(candidate))
        if candidate.support.supported and candidate.golden_key in case.workload_spec.golden:
            return candidate
    return None


def find_cache_file(environment: Environment, case: Case, options: Options) -> Path:
    """Return the file of the cache to which a line is added for each case.

    Its name has the environment and a digest of the code, the interpreter, the processor, the GPU
    and the variables that the process gets.
    """
    variables = runner.make_worker_variables(environment, case, "time", options)
    limits = {name: os.environ.get(name, "") for name in LIMITING}
    parts = [
        digest_sources(),
        str(environment.python),
        provenance.describe_hardware().get("cpu"),
        list(nvml.list_gpus()),
        variables,
        limits,
    ]
    key = json.dumps(parts, sort_keys=True)
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    folder = environments.cache() / "mathematics"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{environment.name}-{digest}.jsonl"


@cache
def digest_sources() -> str:
    """Return a digest of all that can change what a step computes: code and references."""
    digest = hashlib.sha256()
    for folder in (provenance.PACKAGE, *find_folders().values()):
        for pattern in ("*.py", "strategies/*.toml", "golden.json", "tensors.json.gz"):
            for file in sorted(folder.rglob(pattern)):
                digest.update(file.read_bytes())
    return digest.hexdigest()


def read_lines(file: Path) -> dict[str, Mathematics]:
    """Return the outcomes in a file by case, or none if there is no such file.

    A line that cannot be read is left out: it was cut off when its process was killed, or a crash
    of the machine damaged it.
    """
    outcomes: dict[str, Mathematics] = {}
    with suppress(BadRecord):  # there is no file
        for line in lines.read_lines(file):
            with suppress(ValidationError):
                outcomes |= OUTCOMES.validate_json(line.text)
    return outcomes


def compute_missing(
    file: Path,
    cases: list[Case],
    environment: Environment,
    options: Options,
    on_phase: Callable[[str], None],
    baseline: Case | None = None,
    processes: int = 1,
) -> dict[str, Mathematics]:
    """Compute the cases that are missing in the file, in `processes` processes at once.

    Return the outcomes of all cases by id. Cases of a user's model are compared with their
    `baseline`, which each process computes. If a process dies, the case that it was at is returned
    as not computed, with the reason, and another process computes the remaining ones. Raises
    OSError if an outcome could not be written: nobody would know that the case is wrong.
    """
    outcomes = read_lines(file)
    # not written into the file: a process may die of something that does not happen again
    died: dict[str, Mathematics] = {}
    while True:
        missing = [case for case in cases if case.id not in outcomes and case.id not in died]
        if not missing:
            return outcomes | died
        size = min(CASES_OF_A_PROCESS, math.ceil(len(missing) / processes))
        batches = list(cut_into_batches(missing, size))[:processes]
        ends = run_workers(file, batches, environment, options, on_phase, baseline)
        outcomes = read_lines(file)
        for end in ends:
            errno = end.answer.get("errno")
            if errno is not None:
                raise OSError(errno, os.strerror(errno), str(file))
        for batch, end in zip(batches, ends, strict=True):
            uncomputed = [case.id for case in batch if case.id not in outcomes]
            if uncomputed:  # the process died at the first of these and never began the others
                fatal, *_never_begun = uncomputed
                reason = f"the step does not run in float64: {end.reason or end.status}"
                died[fatal] = Mathematics(fatal, computed=False, passed=True, reason=reason)


def run_workers(
    file: Path,
    batches: list[list[Case]],
    environment: Environment,
    options: Options,
    on_phase: Callable[[str], None],
    baseline: Case | None,
) -> list[Outcome]:
    """Run a process for each batch, and return how each ended.

    A process appends a line to the file for each of its cases.
    """
    orders: dict[str, object] = {"file": str(file)}
    if baseline is not None:
        orders["baseline"] = baseline.id
    outcomes = []
    with ExitStack() as stack:
        workers = []
        for batch in batches:
            variables = runner.make_worker_variables(environment, batch[0], "time", options)
            orders_of_batch = {**orders, "cases": [case.id for case in batch]}
            worker = Worker(environment, WORKER, orders_of_batch, variables)
            stack.callback(worker.kill)
            workers.append(worker)
        # while one worker is listened to, the others go on; a worker answers after each case, so
        # the limit holds for a single case
        for worker in workers:
            outcomes.append(worker.end(on_phase, options.time_limit_s))
    return outcomes
