"""A user's model file: what is in it without running it, its cases, and the run of its baseline."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framebench.engine import environments, installed, runner
from framebench.engine.capacity import read_free_memory
from framebench.engine.environments import Environment, Say
from framebench.engine.runner import Options
from framebench.engine.supervisor import Outcome, Worker
from framebench.models.spec import USER_MODEL, load_workload
from framebench.models.user_model import FOLDER_VARIABLE, describe_types
from framebench.records.pins import REQUIREMENTS
from framebench.strategies.registry import BASELINES
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import AS_WRITTEN, Case
from framebench.suite.counting import format_count
from framebench.suite.user_file import HELD_PARTS, Fault, list_definitions, list_imports
from framebench.user_file import strategies as applicable

# by framework the packages that a file in it imports
PACKAGES = {"torch": {"torch"}, "jax": {"jax", "flax"}, "jittor": {"jittor"}}
REQUIRED = ("model", "batch")  # functions of the file
OPTIONAL = ("optimizer", "blocks", "loss", "split", "step")
SHARE_OF_FREE_MEMORY = 0.8  # the most that a process with the file may take
OTHERS = "name an interpreter that has it with --env, or --env installed for this one"


@dataclass(frozen=True)
class UserModel:
    """A file that has what it needs, as far as that can be seen without running it."""

    file: Path  # absolute
    framework: str
    batch: int
    defined: tuple[str, ...]  # the functions of OPTIONAL that it has
    package: str = ""  # imported by the file, and in a pinned environment
    scenario: str = applicable.SCENARIOS[0]

    @property
    def name(self) -> str:
        """Return what stands in its cases' names in the place of the size."""
        return re.sub(r"[^\w-]", "_", self.file.stem)

    @property
    def folder(self) -> str:
        """Return the folder of its records: two files of one name in two folders share nothing."""
        return f"{self.name}-{hashlib.sha256(str(self.file).encode()).hexdigest()[:6]}"

    def make_case(self, strategy: str) -> Case:
        """Return the case of a strategy."""
        return Case(USER_MODEL, self.framework, self.scenario, strategy, self.batch, self.name)

    @property
    def baseline(self) -> Case:
        """Return the case that the strategies are compared with."""
        return self.make_case(BASELINES[self.scenario])


def inspect_file(
    file: Path,
    batch: int,
    framework: str | None = None,
    scenario: str = applicable.SCENARIOS[0],
) -> UserModel:
    """Return a description of the model in a file, without running it. Raises Fault."""
    if scenario not in applicable.SCENARIOS:
        choices = " or ".join(applicable.SCENARIOS)
        raise Fault(f"--scenario {scenario}: a user model is measured in {choices}")
    path = str(file.absolute())
    names = list_definitions(path)
    if not framework:
        framework = find_framework(path)
    if framework not in FRAMEWORKS:
        raise Fault(f"--framework {framework}: choose from {', '.join(FRAMEWORKS)}")
    missing = [f"`{name}`" for name in REQUIRED if name not in names]
    if missing:
        raise Fault(
            f"{file} has no {' and no '.join(missing)}; it needs {' and '.join(REQUIRED)}, and "
            "loss unless the model returns the loss itself: see docs/try.md, and examples/cnn.py"
        )
    optional = tuple(name for name in OPTIONAL if name in names)
    return UserModel(file.absolute(), framework, batch, optional, find_package(path), scenario)


def find_framework(path: str) -> str:
    """Return the framework that the file imports. Raises Fault."""
    packages = list_imports(path)
    frameworks = [name for name, of_framework in PACKAGES.items() if packages & of_framework]
    if len(frameworks) == 1:
        return frameworks[0]
    packages_found = " and ".join(frameworks) or f"none of {', '.join(PACKAGES)}"
    raise Fault(f"{path} imports {packages_found}: say with --framework which it is written in")


def find_package(path: str) -> str:
    """Return the first imported package that has a pinned environment of its own, or ''."""
    for name in sorted(list_imports(path) - {*FRAMEWORKS}):
        if (REQUIREMENTS / f"{name}.txt").exists():
            return name
    return ""


def choose_environment(model: UserModel, env: str | None, say: Say) -> Environment:
    """Return what `--env` names, or else the pinned environment. Raises SetupError.

    Where there is a pinned one with a package that the file imports, that is taken.
    """
    if env is None and model.package:
        return environments.ensure(model.framework, say=say, package=model.package)
    return installed.find_environments([model.framework], env, say)[model.framework]


@contextmanager
def use_model(model: UserModel, budget: int | None = None) -> Iterator[Path]:
    """Let workers and this process know the model in this context.

    Yields a folder for what is found out about it. `budget` is the bytes that it may take.
    """
    facts = {
        "file": str(model.file),
        "framework": model.framework,
        "batch": model.batch,
        "scenario": model.scenario,
        "defined": model.defined,
        "budget": budget,
        "limit": round(SHARE_OF_FREE_MEMORY * read_free_memory()),
    }
    before = os.environ.get(FOLDER_VARIABLE)
    with tempfile.TemporaryDirectory(
        prefix="framebench-own-", ignore_cleanup_errors=True
    ) as folder:
        (Path(folder) / "own.json").write_text(json.dumps(facts))
        os.environ[FOLDER_VARIABLE] = folder
        try:
            yield Path(folder)
        finally:
            os.environ.pop(FOLDER_VARIABLE, None)
            if before is not None:
                os.environ[FOLDER_VARIABLE] = before


def run_baseline(
    model: UserModel,
    environment: Environment,
    options: Options,
    on_phase: Callable[[str], None],
) -> dict[str, Any]:
    """Run the baseline in a worker, and return its answer (`reference.survey`).

    Raises Fault if nothing can be measured.
    """
    case = model.baseline
    with tempfile.TemporaryDirectory(prefix="framebench-") as folder:
        scratch = Path(folder)
        variables = runner.make_worker_variables(environment, case, "time", options)
        variables |= environment.list_scratch_variables(scratch)
        orders: dict[str, object] = {"case": case.id}
        program = "framebench.user_file.reference"
        worker = Worker(environment, program, orders, variables)
        outcome = worker.end(on_phase, options.time_limit_s)
    if outcome.status != "ok":
        raise Fault(describe_failure(model, outcome))
    return dict(outcome.answer)


def describe_failure(model: UserModel, outcome: Outcome) -> str:
    """Return why the baseline could not be run, in a sentence that begins with the file."""
    reason = outcome.reason or "it ended without a word"
    if outcome.status == "oom":
        facts = load_workload(USER_MODEL).facts
        text = f"{model.file.name} with a batch of {model.batch} does not fit"
        limit, budget = facts.get("limit"), facts.get("budget")
        if limit and outcome.phase not in HELD_PARTS:
            text += f" into the {limit / 2**20:,.1f} MiB that a process may take here"
        elif budget:
            text += f" within the budget of {budget / 2**20:,.1f} MiB"
        if outcome.phase in ("import of the file", "model()"):
            return f"{text}: {reason}; every strategy holds what is made there"
        return f"{text}: {reason}; try a smaller --batch"
    if "ModuleNotFoundError" in reason:
        reason += f"; the pinned environments have a framework and little beside it: {OTHERS}"
    if reason.startswith(str(model.file)):
        return reason
    return f"{model.file}: {reason}"


def list_cases(
    model: UserModel,
    strategies: list[str] | None,
    explain_unsupported: Callable[[Case], str | None] = runner.explain_unsupported,
) -> tuple[list[Case], dict[str, str]]:
    """Return the cases that can be measured here, and by strategy why others cannot.

    The baseline comes first; without `strategies` all are tried that apply. Raises Fault for an
    unknown strategy.
    """
    applying = applicable.list_general_strategies(model.scenario)
    for name in strategies or ():
        applicable.check_strategy(model.scenario, name, applying)
    cases = []
    reasons = {}
    names = [model.baseline.strategy, *(strategies or applying)]
    for name in dict.fromkeys(names):  # each once, in their order
        case = model.make_case(name)
        reason = explain_unsupported(case)
        if reason:
            reasons[name] = reason
        else:
            cases.append(case)
    return cases, reasons


def describe_loss(facts: dict[str, Any]) -> str:
    """Return which numbers of the file's dictionary are added up as the loss, or "" if none are."""
    terms = facts.get("loss_terms", {})
    if not terms.get("counted"):
        return ""
    text = f"the loss is {' + '.join(terms['counted'])}"
    if terms["logged"]:
        text += f", without {', '.join(terms['logged'])}, which no backward pass reaches"
    return text


def describe_facts(model: UserModel, facts: dict[str, Any]) -> str:
    """Return what was found in the file, in a line."""
    if facts["blocks"]:
        inside = facts["block"]
        others = []
        for name in facts.get("levels", ()):
            if name != facts["block"]:
                # several classes are written as the file's `blocks` has them
                others.append(f"({name})" if ", " in name else name)
        if others:  # recomputing other blocks saves less
            inside += f", which save most; the file's `blocks` may name {', '.join(others)}"
        blocks = f"{format_count(len(facts['blocks']), 'block')} ({inside})"
    elif facts.get("linen"):
        blocks = "blocks as the file runs them"  # none are looked for in a Linen module
    else:
        blocks = "no blocks"
    shape = " x ".join(map(str, facts["input"]))
    parameters = f"{facts['parameters']:,} parameters"
    types = describe_types(facts.get("types", {}))
    if types:
        parameters += f" in {types}"
        if model.baseline.strategy == "fp32":
            parameters += f" (so the baseline fp32 is called {AS_WRITTEN})"
    return (
        f"{model.file.name}: {parameters}, {blocks}, input {shape}, optimizer {facts['optimizer']}"
    )
