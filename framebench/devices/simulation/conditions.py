"""Find the truth value by which a program passes its own checks.

Standard library only.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def find_answer(file: str, line: int) -> bool | None:
    """Return the truth value that lets the check in this line pass, or None if there is no check.

    A check has the form `if ...: raise` or `assert`. The truth value is that of the whole
    condition, or of what follows its `not`.
    """
    for node in list_statements(file):
        if isinstance(node, ast.Assert):
            test, passes = node.test, True
        elif isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise):
            test, passes = node.test, False
        else:
            continue
        if test.lineno <= line <= (test.end_lineno or test.lineno):
            is_negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
            return passes != is_negated
    return None


@cache
def list_statements(file: str) -> tuple[ast.AST, ...]:
    """Return all nodes of a file's syntax tree, or none if the file cannot be read."""
    try:
        return tuple(ast.walk(ast.parse(Path(file).read_bytes())))
    except (OSError, SyntaxError, ValueError):
        return ()
