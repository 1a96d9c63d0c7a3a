"""What `lint-imports` cannot say by itself of our modules; the contracts are in pyproject.toml."""

from __future__ import annotations

import sys
from graphlib import CycleError, TopologicalSorter
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from importlinter.domain.helpers import module_expressions_to_modules


def whole(graph: ImportGraph, expressions: Any) -> set[str]:
    """The modules that are named so, and those inside of them."""
    roots = {module.name for module in module_expressions_to_modules(graph, expressions)}
    return roots.union(*(graph.find_descendants(root) for root in roots))


class NoCircles(Contract):
    """No module imports itself through others. Import statements inside functions and for type checking count."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        try:
            TopologicalSorter({m: graph.find_modules_directly_imported_by(m) for m in graph.modules}).prepare()
        except CycleError as error:
            return ContractCheck(kept=False, metadata={"circle": error.args[1]})
        return ContractCheck(kept=True)

    def render_broken_contract(self, check: ContractCheck) -> None:
        output.print_error(" <- ".join(check.metadata["circle"]))


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
