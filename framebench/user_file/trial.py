"""A model of the user's own: its file looked at, its cases, and references made of its baseline."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framebench.engine import environments, installed, runner
from framebench.engine.capacity import free_memory
from framebench.engine.environments import Environment, Say
from framebench.engine.runner import Options
from framebench.engine.supervisor import Outcome, Worker
from framebench.models.spec import USER_MODEL, load_workload
from framebench.models.user_model import FOLDER_VARIABLE
from framebench.records.pins import REQUIREMENTS
from framebench.strategies.registry import BASELINES
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case
from framebench.suite.user_file import Fault, list_definitions, list_imports
from framebench.user_file import strategies as applicable

PACKAGES = {"torch": {"torch"}, "jax": {"jax", "flax"}, "jittor": {"jittor"}}
FUNCTIONS = ("model", "batch")
OPTIONAL = ("optimizer", "blocks", "loss")
MOST = 0.8  # of the memory that is free, for each process that runs the file
PHASE = re.compile(r"memory ran out during (import of the file|model\(\)|batch\(\))")
EXCEEDS = {
    "import of the file": "what it makes when it is imported alone exceeds", "model()": "the weights alone exceed",
    "batch()": "the batch alone exceeds",
}  # fmt: skip
OTHERS = "name an interpreter that has it with --env, or --env installed for this one"


@dataclass(frozen=True)
class UserModel:
    """A file that has what it needs, as far as that is seen without running it."""

    file: Path  # absolute
    framework: str
    batch: int
    defined: tuple[str, ...]
    package: str = ""  # that it imports, and that there is a pinned environment with
    scenario: str = applicable.SCENARIOS[0]

    @property
    def name(self) -> str:
        """The place of the size in its cases' names."""
        return re.sub(r"[^\w-]", "_", self.file.stem)

    @property
    def folder(self) -> str:
        """Of its records: two files of one name in two folders share nothing."""
        return f"{self.name}-{hashlib.sha256(str(self.file).encode()).hexdigest()[:6]}"

    def case(self, strategy: str) -> Case:
        return Case(USER_MODEL, self.framework, self.scenario, strategy, self.batch, self.name)

    @property
    def baseline(self) -> Case:
        return self.case(BASELINES[self.scenario])


def look(file: Path, batch: int, framework: str | None = None, scenario: str = applicable.SCENARIOS[0]) -> UserModel:
    """Without running it. Raises Fault."""
    if scenario not in applicable.SCENARIOS:
        raise Fault(f"--scenario {scenario}: a model of one's own is measured in {' or '.join(applicable.SCENARIOS)}")
    path = str(file.absolute())
    names = list_definitions(path)
    framework = framework or _framework_of(path)
    if framework not in FRAMEWORKS:
        raise Fault(f"--framework {framework}: choose from {', '.join(FRAMEWORKS)}")
    if missing := [name for name in FUNCTIONS if name not in names]:
        raise Fault(f"{file} has no {' and no '.join(f'`{name}`' for name in missing)}; it needs {', '.join(FUNCTIONS)}, loss")
    package = next((name for name in sorted(list_imports(path) - {*FRAMEWORKS}) if (REQUIREMENTS / f"{name}.txt").exists()), "")
    optional = tuple(name for name in OPTIONAL if name in names)
    return UserModel(file.absolute(), framework, batch, optional, package, scenario)


def _framework_of(path: str) -> str:
    """The one that the file imports. Raises Fault."""
    packages = list_imports(path)
    frameworks = [name for name, own_packages in PACKAGES.items() if packages & own_packages]
    if len(frameworks) != 1:
        which = f"imports {' and '.join(frameworks)}" if frameworks else f"imports none of {', '.join(PACKAGES)}"
        raise Fault(f"{path} {which}: say with --framework which it is written in")
    return frameworks[0]


def environment(model: UserModel, env: str | None, say: Say) -> Environment:
    """What `--env` names, or the pinned one that has what the file imports, if there is one. Raises SetupError."""
    if env is None and model.package:
        return environments.ensure(model.framework, say=say, package=model.package)
    return installed.ready([model.framework], env, say)[model.framework]


@contextmanager
def known(model: UserModel, budget: int | None = None) -> Iterator[Path]:
    """In here workers and this process know the model: a folder for what is found out about it, and what it may take."""
    before = os.environ.get(FOLDER_VARIABLE)
    folder = Path(tempfile.mkdtemp(prefix="framebench-own-"))
    facts = {"file": str(model.file), "framework": model.framework, "batch": model.batch, "defined": model.defined}
    facts |= {"budget": budget, "limit": round(MOST * free_memory())}
    (folder / "own.json").write_text(json.dumps(facts))
    os.environ[FOLDER_VARIABLE] = str(folder)
    try:
        yield folder
    finally:
        os.environ.pop(FOLDER_VARIABLE)
        if before is not None:
            os.environ[FOLDER_VARIABLE] = before
        shutil.rmtree(folder, ignore_errors=True)


def reference(model: UserModel, environment: Environment, options: Options, told: Callable[[str], None]) -> dict[str, Any]:
    """Run the baseline, and return what is in the model: `facts` and `values`. Raises Fault where nothing can be measured."""
    case = model.baseline
    with tempfile.TemporaryDirectory(prefix="framebench-") as scratch:
        variables = runner.worker_variables(environment, case, "time", options) | environment.scratch(Path(scratch))
        orders: dict[str, object] = {"case": case.id}
        worker = Worker(environment, "framebench.user_file.reference", orders, variables, Path(scratch) / "log")
        outcome = worker.end(told, options.time_limit_s)
    if outcome.status != "ok":
        raise Fault(in_words(model, outcome))
    return dict(outcome.answer)


def in_words(model: UserModel, outcome: Outcome) -> str:
    budget, during = load_workload(USER_MODEL).facts.get("budget"), PHASE.search(outcome.reason or "")  # type: ignore[attr-defined]
    if outcome.status == "oom" and budget and during and during[1] in EXCEEDS:
        return f"{model.file}: {EXCEEDS[during[1]]} the budget of {budget / 2**20:,.1f} MiB"
    if outcome.status == "oom":
        return f"{model.file.name} with a batch of {model.batch} does not fit: {outcome.reason}; try a smaller --batch"
    reason = outcome.reason or "it ended without a word"
    if "ModuleNotFoundError" in reason:
        reason += f"; the pinned environments have a framework and little beside it: {OTHERS}"
    return reason if reason.startswith(str(model.file)) else f"{model.file}: {reason}"


def cases(
    model: UserModel, strategies: list[str] | None, unsupported: Callable[[Case], str | None] = runner.unsupported
) -> tuple[list[Case], dict[str, str]]:
    """Those that can be measured here, the baseline first, and why the others cannot. Raises Fault for an unknown strategy."""
    every = applicable.strategies(model.scenario)
    if unknown := [name for name in strategies or () if name not in every]:
        raise Fault(f"no strategy {unknown[0]!r} for a model of one's own; choose from: {', '.join(every)}")
    wanted = list(dict.fromkeys([model.baseline, *(model.case(name) for name in strategies or every)]))
    reasons = {case.strategy: why for case in wanted if (why := unsupported(case))}
    return [case for case in wanted if case.strategy not in reasons], reasons


def in_short(model: UserModel, facts: dict[str, Any]) -> str:
    """What was found in the file."""
    blocks = f"{len(facts['blocks'])} blocks ({facts['block']})" if facts["blocks"] else "no blocks"
    shape = " x ".join(map(str, facts["input"]))
    return f"{model.file.name}: {facts['parameters']:,} parameters, {blocks}, input {shape}, optimizer {facts['optimizer']}"
