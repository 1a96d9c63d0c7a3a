"""What decides a case's program besides the framework's version: our own sources. A prediction is taken up while they are the
same. Comments and docstrings do not count, nor where a module lies."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from framebench.features.devices.catalog import Device
from framebench.models import spec
from framebench.records.provenance import PACKAGE
from framebench.suite.case import Case

FEATURE = Path(__file__).parents[1]
PLANNERS = {"torch": FEATURE / "simulation", "jax": FEATURE / "xla"}
OTHERS = {"torch": ("flax_", "jittor_"), "jax": ("torch_", "jittor_")}  # of a workload's files, those of other frameworks


def fingerprint(case: Case, device: Device) -> str:
    """Of the adapter, the model, the planner, the strategy's row and the device's figures."""
    rows = [(part.name, part.how, sorted(part.options.items(), key=str), part.micro_batches) for part in case.parts]
    told = (_sources(case.framework, case.workload), repr(case.config), repr(case.optimizer), repr(rows), repr(device))
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


@cache
def _sources(framework: str, workload: str) -> str:
    folders = [PACKAGE / "adapters", PACKAGE / "adapters" / framework, PACKAGE / "models"]
    if workload != spec.OWN:
        folders.append(PACKAGE / "models" / workload)
    files = [path for folder in folders for path in folder.glob("*.py") if not path.name.startswith(OTHERS.get(framework, ()))]
    return of_files(files + planner(framework))


def planner(framework: str) -> list[Path]:
    """The modules that plan a framework's cases; none of a framework that is not planned."""
    return list(PLANNERS[framework].glob("[!_]*.py")) if framework in PLANNERS else []


def of_files(files: Iterable[Path]) -> str:
    """Of what the modules mean, in whatever order and wherever they lie."""
    return hashlib.sha256("".join(sorted(map(meaning, files))).encode()).hexdigest()


def meaning(path: Path) -> str:
    """The module without comments and docstrings, and of our own modules only the names that it imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    ours = [node for node in tree.body if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("framebench")]
    tree.body = [node for node in tree.body if node not in ours]
    return ast.dump(tree) + repr(sorted((name.name, name.asname or "") for node in ours for name in node.names))
