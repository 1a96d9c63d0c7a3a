"""What decides a case's program besides the framework's version: our own sources. A prediction is taken up while they are the
same; comments and docstrings do not count."""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

from framebench.features.devices.catalog import Device
from framebench.models import spec
from framebench.records.provenance import PACKAGE
from framebench.suite.case import Case

HERE = Path(__file__).parent


def fingerprint(case: Case, device: Device) -> str:
    """Of the adapter, the model, the planner, the strategy's row and the device's figures."""
    rows = [(part.name, part.how, sorted(part.options.items(), key=str), part.micro_batches) for part in case.parts]
    told = (_sources(case.framework, case.workload), repr(case.config), repr(case.optimizer), repr(rows), repr(device))
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


@cache
def _sources(framework: str, workload: str) -> str:
    folders = [PACKAGE / "adapters", PACKAGE / "adapters" / framework, PACKAGE / "models", HERE]
    if workload != spec.OWN:
        folders.append(PACKAGE / "models" / workload)
    files = [path for folder in folders for path in sorted(folder.glob("*.py")) if folder != HERE or plans(path, framework)]
    return hashlib.sha256("".join(map(meaning, files)).encode()).hexdigest()


def plans(path: Path, framework: str) -> bool:
    """Whether a module of this feature is part of the framework's planner."""
    return path.name.startswith(f"{framework}_") or (framework == "torch" and path.name in ("allocator.py", "blocks.py"))


def meaning(path: Path) -> str:
    """The module without comments and docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)
