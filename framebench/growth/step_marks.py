"""Find the function of a training script whose calls are its steps, and mark it.

It is found in the script's source, which is not run.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from types import MethodType
from typing import Any

from framebench.suite.user_file import Fault, parse_file

MARK = "__framebench_step__"  # the decorator that a marked function gets
STEPS_OF_OPTIMIZER = "steps of its optimizer"
FORWARD_PASSES = "forward passes of its outermost module"
WORDS_OF_STEPS = ("train", "step", "update")  # in the name of a function that makes a step


class MarkedStep:
    """Wrap a function of a script, of which each call is a step."""

    def __init__(self, function: Callable[..., Any], end: Callable[[Any], None]) -> None:
        """Call `end` with the result of each call of `function`."""
        self.function = function
        self.end = end

    def __call__(self, *arguments: Any, **kwargs: Any) -> Any:
        """Make a step, and tell that it ended."""
        result = self.function(*arguments, **kwargs)
        self.end(result)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return the method of an instance, where the function is one of a class."""
        return self if instance is None else MethodType(self, instance)


def choose_functions(file: str, framework: str, step_at: str) -> tuple[set[str], str]:
    """Return the functions whose calls are steps, and what a step is called in messages.

    There are no such functions if the optimizer or the outermost module tells that a step was made.
    Raises Fault if nothing tells it, or if the file has no function `step_at`.
    """
    tree = parse_file(file)
    if step_at:
        if step_at not in list_functions(tree, only_compiled=False):
            functions = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
            functions += list_functions(tree, only_compiled=True)  # such as step = jax.jit(train)
            names = ", ".join(dict.fromkeys(functions)) or "none"
            raise Fault(f"{file} has no function `{step_at}` for --step-at; it defines: {names}")
        return {step_at}, f"calls of {step_at}()"
    if framework == "jax":
        name = choose_compiled(file, list_functions(tree, only_compiled=True))
        return {name}, f"calls of {name}()"
    if framework == "torch" and not trains(tree):
        return set(), FORWARD_PASSES
    return set(), STEPS_OF_OPTIMIZER


def choose_compiled(file: str, names: list[str]) -> str:
    """Return the compiled function of a script in JAX that makes a step. Raises Fault."""
    candidates = names
    if len(names) > 1:
        candidates = [name for name in names if any(word in name for word in WORDS_OF_STEPS)]
    if len(candidates) == 1:
        return candidates[0]
    listed = ", ".join(names) or "none"
    raise Fault(
        f"{file}: which function makes a step? It compiles: {listed}; say it with "
        "--step-at FUNCTION"
    )


def list_functions(tree: ast.Module, only_compiled: bool) -> list[str]:
    """Return the names of functions and methods, and of variables assigned from a call, each once.

    Such a variable may be a function: `step = compile(train)`. With `only_compiled`, return only
    those with a `jit` decorator or assigned from a call of `jit`.
    """
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            makers, defined = node.decorator_list, [node.name]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            makers = [node.value]
            defined = [target.id for target in node.targets if isinstance(target, ast.Name)]
        else:
            continue
        if not only_compiled or any(map(names_jit, makers)):
            names += defined
    return list(dict.fromkeys(names))


def names_jit(expression: ast.expr) -> bool:
    """Return whether an expression is `jit`, `jax.jit`, or a call of it or of a partial of it."""
    if isinstance(expression, ast.Call):
        return names_jit(expression.func) or any(map(names_jit, expression.args[:1]))
    if isinstance(expression, ast.Attribute):
        return expression.attr == "jit"
    return isinstance(expression, ast.Name) and expression.id == "jit"


def trains(tree: ast.Module) -> bool:
    """Return whether a script mentions a backward pass or an optimizer."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("backward", "optim", "fit"):
            return True
        if isinstance(node, ast.ImportFrom | ast.Import):
            names = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                names.append(node.module or "")
            if any("optim" in name or "Trainer" in name for name in names):
                return True
    return False


class StepMarker(ast.NodeTransformer):
    """Give functions of some names the decorator `MARK`, outside of all others."""

    def __init__(self, names: set[str]) -> None:
        """Mark the functions that have one of these names."""
        self.names = names

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Mark a function that has one of the names."""
        self.generic_visit(node)
        if node.name in self.names:
            node.decorator_list.insert(0, ast.Name(MARK, ast.Load()))
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Mark a function that is assigned to one of the names, as `step = jax.jit(loss)`."""
        self.generic_visit(node)
        targets = {target.id for target in node.targets if isinstance(target, ast.Name)}
        if targets & self.names and isinstance(node.value, ast.Call):
            node.value = ast.Call(ast.Name(MARK, ast.Load()), [node.value], [])
        return node


def parse_marked(file: str, functions: set[str]) -> ast.Module:
    """Return a script's syntax tree, with its functions of these names marked. Raises Fault."""
    tree = copy.deepcopy(parse_file(file))  # the tree that is returned is cached, and shared
    marked: ast.Module = StepMarker(functions).visit(tree)
    return ast.fix_missing_locations(marked)
