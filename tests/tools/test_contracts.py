"""The contracts that `lint-imports` gets from us, on small graphs."""

from __future__ import annotations

import pytest
from grimp import ImportGraph

from tools.contracts import NoCircles, Reach


def make_graph(*imports: str) -> ImportGraph:
    """Make a graph of imports such as `a.b -> c`; what is not below `ours` is a library."""
    graph = ImportGraph()
    for importer, imported in (line.split(" -> ") for line in imports):
        for module in (importer, imported):
            graph.add_module(module, is_squashed=not module.startswith("ours"))
        graph.add_import(importer=importer, imported=imported)
    return graph


@pytest.mark.parametrize(
    ("imports", "is_kept"),
    [
        (("ours.a -> ours.b", "ours.b -> ours.c", "ours.a -> ours.c"), True),
        (("ours.a -> ours.b", "ours.b -> ours.c", "ours.c -> ours.a"), False),
        (("ours.a -> ours", "ours -> ours.a"), False),  # a package and what is in it
    ],
)
def test_import_cycles_are_found(imports, is_kept):
    assert NoCircles("", {}, {}).check(make_graph(*imports), verbose=False).kept == is_kept


@pytest.mark.parametrize(
    ("options", "chains"),
    [
        ({"modules": ["ours.a"], "allowed": ["numpy"]}, [("ours.a.x", "ours.b", "torch")]),
        ({"modules": ["ours.a"], "allowed": ["numpy", "torch"]}, []),
        ({"modules": ["ours.a"], "without": ["ours.a.x"], "allowed": ["numpy"]}, []),
        ({"modules": ["ours.b"], "allowed": []}, [("ours.b", "torch")]),
    ],
)
def test_chains_to_forbidden_imports_are_found(options, chains):
    given = make_graph(
        "ours.a.x -> ours.b", "ours.b -> torch", "ours.a.y -> numpy", "ours.a.y -> json"
    )
    given.add_module("ours.a")
    check = Reach("", {"root_packages": ["ours"]}, options).check(given, verbose=False)
    assert (check.kept, check.metadata["chains"]) == (not chains, chains)
