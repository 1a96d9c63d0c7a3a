"""Find the lines of a file that add something to a list, set or dict, by its name.

They are found in the file's source, which is not run: Python does not tell who put an object into a
container.
"""

from __future__ import annotations

import ast

from framebench.suite.user_file import Fault, parse_file

# methods of lists, deques, sets, dicts and queues
ADDING = ("append", "appendleft", "add", "extend", "insert", "put", "setdefault", "update")


def find_additions(file: str, name: str) -> list[int]:
    """Return the lines that add to a variable or attribute of this name, in their order.

    There are none of a file that cannot be read.
    """
    try:
        tree = parse_file(file)
    except Fault:
        return []
    lines = set()
    for node in ast.walk(tree):
        for container in list_containers(node):
            if get_name(container) == name:
                lines.add(container.lineno)
    return sorted(lines)


def list_containers(node: ast.AST) -> list[ast.expr]:
    """Return the containers that a part of a program adds to.

    It is `outputs` in `outputs.append(x)`, in `outputs += [x]` and in `outputs[0] = x`.
    """
    if isinstance(node, ast.Call):
        method = node.func
        if isinstance(method, ast.Attribute) and method.attr in ADDING:
            return [method.value]
    if isinstance(node, ast.AugAssign):
        return [node.target]
    if isinstance(node, ast.Assign):
        return [target.value for target in node.targets if isinstance(target, ast.Subscript)]
    return []


def get_name(expression: ast.expr) -> str:
    """Return the name of a variable or an attribute; empty for anything else."""
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else ""
