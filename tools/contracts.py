"""Kinds of contracts that `lint-imports` lacks; the contracts themselves are in pyproject.toml."""

from __future__ import annotations

import sys
from graphlib import CycleError, TopologicalSorter
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from importlinter.domain.helpers import module_expressions_to_modules


def expand(graph: ImportGraph, expressions: Any) -> set[str]:
    """Return the modules that are named so, and those inside of them."""
    modules = {module.name for module in module_expressions_to_modules(graph, expressions)}
    for root in list(modules):
        modules |= graph.find_descendants(root)
    return modules


class NoCircles(Contract):
    """No module imports itself through others.

    Import statements inside functions and for type checking count.
    """

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Return whether there is no circle, or else the first one that is found."""
        imports = {}
        for module in graph.modules:
            imports[module] = graph.find_modules_directly_imported_by(module)
        try:
            TopologicalSorter(imports).prepare()
        except CycleError as error:
            return ContractCheck(kept=False, metadata={"circle": error.args[1]})
        return ContractCheck(kept=True)

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print the circle."""
        output.print_error(" <- ".join(check.metadata["circle"]))


class Reach(Contract):
    """`modules` need only the `allowed` libraries next to the standard one, whatever they import.

    Those in `without` are left out.
    """

    modules: Any = fields.SetField(subfield=fields.ModuleExpressionField())
    without: Any = fields.SetField(subfield=fields.ModuleExpressionField(), required=False)
    allowed: Any = fields.SetField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Return the chains of imports that lead to a library which is not allowed."""
        libraries = {module for module in graph.modules if graph.is_module_squashed(module)}
        forbidden = libraries - sys.stdlib_module_names - set(self.allowed)
        chains = []
        for module in expand(graph, self.modules) - expand(graph, self.without or []):
            for library in forbidden:
                chain = graph.find_shortest_chain(importer=module, imported=library)
                if chain:
                    chains.append(chain)
        return ContractCheck(kept=not chains, metadata={"chains": sorted(chains)})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each chain."""
        for chain in check.metadata["chains"]:
            output.print_error(" -> ".join(chain))
