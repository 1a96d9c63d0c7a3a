"""A context that changes something takes the change back, also after an error in its block."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.processes import ROOT

# what these do after their block is meant for a block that came to its end alone
ONLY_AFTER_SUCCESS = {
    "refuse_float32": "checks the graph that the block has built",
    "open_session": "says that the session came to its end",
}


def list_contexts(source: str) -> Iterator[ast.FunctionDef]:
    """Yield the functions in the source of a module that `contextmanager` makes contexts of."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
            if any(decorator.endswith("contextmanager") for decorator in decorators):
                yield node


def contains_yield(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(statement))


def list_inner_bodies(statement: ast.stmt) -> list[list[ast.stmt]]:
    """Return the blocks of statements within a statement: of `if` and `else`, of `with` ..."""
    bodies = []
    for _, value in ast.iter_fields(statement):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            bodies.append(value)
    return bodies


def skips_its_end_after_an_error(body: list[ast.stmt]) -> bool:
    """Return whether a statement follows a `yield` that an error in the block would skip.

    A `finally` is never skipped. Neither is what follows `yield` and `return`, which belongs to
    another way through the function.
    """
    for place, statement in enumerate(body):
        if isinstance(statement, ast.FunctionDef) or not contains_yield(statement):
            continue  # a context that is defined here is looked at by itself
        if isinstance(statement, ast.Try) and statement.finalbody:
            continue
        inner_bodies = list_inner_bodies(statement)
        for inner in inner_bodies:
            if skips_its_end_after_an_error(inner):
                return True
        returns = any(isinstance(inner[-1], ast.Return) for inner in inner_bodies)
        following = body[place + 1 :]
        if following and not returns and not isinstance(following[0], ast.Return):
            return True
    return False


def test_contexts_take_their_changes_back_after_an_error():
    skipping = set()
    for file in (ROOT / "framebench").rglob("*.py"):
        for context in list_contexts(file.read_text()):
            if skips_its_end_after_an_error(context.body):
                skipping.add(context.name)
    assert skipping == ONLY_AFTER_SUCCESS.keys()
