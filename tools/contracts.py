"""What `lint-imports` cannot say by itself of our modules; the contracts are in pyproject.toml."""

from __future__ import annotations

import re
import sys
from graphlib import CycleError, TopologicalSorter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from importlinter.domain.helpers import module_expressions_to_modules


def whole(graph: ImportGraph, expressions: Any) -> set[str]:
    """The modules that are named so, and those inside of them."""
    roots = {module.name for module in module_expressions_to_modules(graph, expressions)}
    return roots.union(*(graph.find_descendants(root) for root in roots))


class NoCircles(Contract):
    """No module imports itself through others. Import statements inside functions and for type checking count.

    Calls by the hooks of `framebench.extensions` are no import statements, and are not seen.
    """

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        try:
            TopologicalSorter({m: graph.find_modules_directly_imported_by(m) for m in graph.modules}).prepare()
        except CycleError as error:
            return ContractCheck(kept=False, metadata={"circle": error.args[1]})
        return ContractCheck(kept=True)

    def render_broken_contract(self, check: ContractCheck) -> None:
        output.print_error(" <- ".join(check.metadata["circle"]))


def source_of(module: str) -> str:
    """Its text; nothing is imported but for its outermost package."""
    package, *inner = module.split(".")
    spec = find_spec(package)
    assert spec
    assert spec.origin
    file = Path(spec.origin).parent.joinpath(*inner)
    return (file / "__init__.py" if file.is_dir() else file.with_suffix(".py")).read_text()


class Leaves(Contract):
    """What lies in the folders of `folder` is imported, and its module named in a text, from inside of its own folder alone.

    Calls by the hooks of `framebench.extensions` name no module, and are not seen.
    """

    folder: Any = fields.StringField()

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        leaves = {m: leaf for leaf in graph.find_children(self.folder) for m in {leaf} | graph.find_descendants(leaf)}
        wrong = [
            (importer, leaf)
            for leaf in sorted(leaves)
            for importer in sorted(graph.find_modules_that_directly_import(leaf))
            if leaves.get(importer) != leaves[leaf]
        ]
        ours = [module for module in sorted(graph.modules) if not graph.is_module_squashed(module)]
        wrong += [
            (module, leaf)
            for module in ours
            for leaf in sorted(graph.find_children(self.folder))
            if re.search(rf"[\"']{re.escape(leaf)}\b", source_of(module)) and leaves.get(module) != leaf
        ]
        return ContractCheck(kept=not wrong, metadata={"wrong": wrong})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for importer, leaf in check.metadata["wrong"]:
            output.print_error(f"{importer} -> {leaf}")


class Reach(Contract):
    """`modules`, but those in `without`, need only the `allowed` libraries beside the standard one, whatever they import."""

    modules: Any = fields.SetField(subfield=fields.ModuleExpressionField())
    without: Any = fields.SetField(subfield=fields.ModuleExpressionField(), required=False)
    allowed: Any = fields.SetField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        foreign = {m for m in graph.modules if graph.is_module_squashed(m)} - sys.stdlib_module_names - set(self.allowed)
        modules = whole(graph, self.modules) - whole(graph, self.without or [])
        chains = (graph.find_shortest_chain(importer=module, imported=other) for module in modules for other in foreign)
        return ContractCheck(kept=not (forbidden_chains := sorted(filter(None, chains))), metadata={"chains": forbidden_chains})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for chain in check.metadata["chains"]:
            output.print_error(" -> ".join(chain))
