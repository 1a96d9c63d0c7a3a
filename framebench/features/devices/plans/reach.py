"""Which code of ours a plan can reach: definitions by the names that other reached code mentions.

A definition is reached as soon as its name is mentioned anywhere in what is reached, also as an attribute or in a string; a
method by an attribute or a string. So too much is reached rather than too little. A strategy's switch is reached by its
strategy alone; the proof that it returns is never asked for in a plan.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

OURS = ("ABC", "Protocol", "Adapter")  # ends of bases' names: methods of such classes are called by our own code alone
PROOF = "proof"


@dataclass(frozen=True)
class Piece:
    """A definition, or a statement that always runs."""

    names: frozenset[str]  # that reach it; none: it always runs
    mentions: frozenset[str]
    text: str  # without comments, docstrings and places
    switch: bool = False


@cache  # by the text, which may change while a path stays
def pieces(text: str) -> tuple[Piece, ...]:
    """Of a module."""
    return tuple(piece for node in without_docstrings(text).body for piece in _pieces(node))


def without_docstrings(text: str) -> ast.Module:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return tree


def reached(files: Iterable[Path], roots: Iterable[str], switches: Iterable[str]) -> list[str]:
    """The text of all that is reached from the names in `roots`, and of these switches; sorted, wherever it lies."""
    waiting = {piece for file in files for piece in pieces(file.read_text(encoding="utf-8"))}
    on, names, found = set(switches), set(roots), set[Piece]()
    while new := {one for one in waiting if (on & one.names if one.switch else not one.names or names & one.names)}:
        found |= new
        waiting -= new
        names.update(*(piece.mentions for piece in new))
    return sorted(piece.text for piece in found)


@cache
def mentions(text: str) -> frozenset[str]:
    """In a whole module."""
    return frozenset(_mentions(without_docstrings(text)))


def _pieces(node: ast.stmt) -> Iterator[Piece]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from _imports(node)
    elif isinstance(node, ast.ClassDef) and _ours_alone(node):
        methods = [one for one in node.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("__")]
        node.body = [one for one in node.body if one not in methods]
        yield _piece([node.name], node)
        yield from (_piece([], method, node.name, method.name) for method in methods)
    elif isinstance(node, ast.FunctionDef) and any(isinstance(d, ast.Name) and d.id == "switch" for d in node.decorator_list):
        yield _piece([node.name], _without_proof(node), switch=True)
    elif isinstance(node, ast.ClassDef | ast.FunctionDef):
        yield _piece([node.name], node)
    else:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        yield _piece([one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)], node)


def _ours_alone(node: ast.ClassDef) -> bool:
    """Nothing of a framework's, which might call methods by names that we do not mention."""
    ours = all(isinstance(base, ast.Name) and base.id.endswith(OURS) for base in node.bases)
    named = {one.id for decorator in node.decorator_list for one in ast.walk(decorator) if isinstance(one, ast.Name)}
    return ours and named <= {"dataclass"}


def _piece(names: Iterable[str], node: ast.AST, owner: str = "", method: str = "", switch: bool = False) -> Piece:
    """A method is reached as an attribute alone."""
    reaching = [f".{method}"] if method else [spelled for name in names for spelled in (name, f".{name}")]
    return Piece(frozenset(reaching), frozenset(_mentions(node)), f"{owner} {ast.dump(node)}", switch)


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[Piece]:
    """One by one. Where a module of ours lies does not count."""
    module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
    place = "" if module.startswith("framebench") else module
    for alias in node.names:
        bound = alias.asname or alias.name.partition(".")[0]
        yield Piece(frozenset([bound, f".{bound}"]), frozenset([alias.name]), f"import {place} {alias.name} {bound}")


def _without_proof(switch: ast.FunctionDef) -> ast.FunctionDef:
    proofs = [n for n in switch.body if isinstance(n, ast.Return) or (isinstance(n, ast.FunctionDef) and n.name == PROOF)]
    switch.body = [node for node in switch.body if node not in proofs]
    switch.returns = None
    return switch


def _mentions(node: ast.AST) -> Iterator[str]:
    """Names; attributes with a dot before them. A string may be either."""
    own = {id(place) for one in ast.walk(node) if isinstance(one, ast.ClassDef) for place in _own_attributes(one)}
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            yield one.id
        elif isinstance(one, ast.Attribute) and id(one) not in own:
            yield f".{one.attr}"
        elif isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value.isidentifier():
            yield from (one.value, f".{one.value}")
        elif isinstance(one, ast.alias):
            yield from (one.name, one.asname or one.name)


def _own_attributes(node: ast.ClassDef) -> Iterator[ast.Attribute]:
    """Where a class whose bases are all a framework's looks at what it has itself put into `self`."""
    if not node.bases or not all(isinstance(base, ast.Attribute) for base in node.bases):
        return
    places = [one for one in ast.walk(node) if isinstance(one, ast.Attribute) and getattr(one.value, "id", "") == "self"]
    assigned = {one.attr for one in places if isinstance(one.ctx, ast.Store)}
    yield from (one for one in places if one.attr in assigned)
