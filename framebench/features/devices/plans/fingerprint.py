"""What decides a case's program besides the framework's version: our own sources. A prediction is taken up while they are the
same. Comments, docstrings, what measures and verifies, and where a module lies do not count."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from framebench.features.devices.catalog import Device
from framebench.features.devices.plans.process import module_of
from framebench.features.devices.plans.reach import mentions, reached, without_docstrings
from framebench.models import spec
from framebench.records.pins import pinned_version
from framebench.records.provenance import PACKAGE
from framebench.suite.case import Case

FEATURE = Path(__file__).parents[1]
PLANNERS = {"torch": FEATURE / "simulation", "jax": FEATURE / "xla"}
OTHERS = {"torch": ("flax_", "jittor_"), "jax": ("torch_", "jittor_")}  # of a workload's files, those of other frameworks


def fingerprint(case: Case, device: Device, version: str | None = None) -> str:
    """Of what the planner reaches in adapter and models, the workload, the planner, the strategy's row, the device's figures.
    `version`: of the framework, if it is not the pinned one."""
    rows = [(part.name, part.how, sorted(part.options.items(), key=str), part.micro_batches) for part in case.parts]
    figures = sorted({**dataclasses.asdict(device), "source": ""}.items())
    switches = tuple(sorted(part.how for part in case.parts))
    code = _code(case.framework, version or pinned_version(case.framework), case.workload, switches)
    told = (code, case.scenario, repr(case.config), repr(case.optimizer), repr(rows), repr(figures))
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


@cache
def _code(framework: str, version: str, workload: str, switches: tuple[str, ...]) -> str:
    planners = planner(framework, version)
    own = _of(framework, [PACKAGE / "models" / workload]) if workload != spec.OWN else []
    roots = {name for file in [*planners, *own] for name in mentions(_text(file))}
    return hashlib.sha256(
        "".join([*reached(pool(framework), roots, switches), of_files([*planners, *own])]).encode()
    ).hexdigest()


def pool(framework: str) -> list[Path]:
    """The modules of which a plan reaches some definitions."""
    folders = [PACKAGE / "adapters", PACKAGE / "adapters" / framework, PACKAGE / "models"]
    return [*_of(framework, folders), PACKAGE / "suite" / "trees.py"]


def _of(framework: str, folders: Iterable[Path]) -> list[Path]:
    files = [path for folder in folders for path in folder.glob("*.py")]
    return [path for path in files if not path.name.startswith(OTHERS.get(framework, ()))]


def planner(framework: str, version: str | None = None) -> list[Path]:
    """The modules that plan a framework's cases in this version or the pinned one; none of a framework that is not planned."""
    if framework not in PLANNERS:
        return []
    ours = set(PLANNERS[framework].glob("[!_]*.py"))
    return sorted(ours | {FEATURE / f"{module_of(framework, version or pinned_version(framework)).replace('.', '/')}.py"})


def of_files(files: Iterable[Path]) -> str:
    """Of what the modules mean, in whatever order and wherever they lie."""
    return hashlib.sha256("".join(sorted(meaning(_text(file)) for file in files)).encode()).hexdigest()


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


@cache
def meaning(text: str) -> str:
    """The module without comments and docstrings, and of our own modules only the names that it imports."""
    tree = without_docstrings(text)
    ours = [node for node in tree.body if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("framebench")]
    tree.body = [node for node in tree.body if node not in ours]
    return ast.dump(tree) + repr(sorted((name.name, name.asname or "") for node in ours for name in node.names))
