"""Find in which layers of a model a step makes products in float32, by the names in its trace."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
from flax import nnx
from jax.extend.core import ClosedJaxpr, Jaxpr

from framebench.adapters.jax.adapter import JaxAdapter
from framebench.adapters.jax.program import (
    PRODUCTS,
    list_equations,
    list_inner_programs,
    wrap_calls,
)

MARK = "layer:"  # stands before a module's path in an operation's name
LAYER = re.compile(rf"{MARK}([\w.]*)")
BACKWARD = "transpose("  # in the name of an operation of the backward pass


@contextmanager
def name_modules(model: nnx.Module) -> Iterator[None]:
    """Trace operations, in this context, with the path of their module in their names."""
    modules: list[tuple[Any, Any]] = list(nnx.iter_modules(model))
    for path, module in modules:
        module.scope = MARK + ".".join(map(str, path))
    with wrap_calls([module for _, module in modules], add_scope):
        yield


def add_scope(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a module's `__call__` that names the operations inside it."""

    def call_in_scope(self: Any, *arguments: Any, **options: Any) -> Any:
        with jax.named_scope(getattr(self, "scope", "")):
            return call(self, *arguments, **options)

    return call_in_scope


def list_widened_layers(adapter: JaxAdapter) -> list[str]:
    """Return the layers with a `dtype` of their own whose forward pass has products in float32.

    Each is a text such as `blocks.0.up: dot_general`.

    A strategy of mixed precision sets the `dtype` of every layer that has one. Other modules, such
    as a user's own with nothing but weights, compute in the type that follows from their operands.
    The step is traced anew, with the names of its modules, and not run.
    """
    model = adapter.make_abstract(adapter.config, adapter.recipe.training)
    with_dtype = set()
    for path, module in nnx.iter_modules(model):
        if hasattr(module, "dtype"):
            with_dtype.add(".".join(map(str, path)))
    with name_modules(model):
        program = adapter.make_program(adapter.take_apart(model).graph)
        traced = program.trace(*adapter.list_arguments())
    widened = set()
    for layer, product in iterate_forward_products(traced.jaxpr):
        types = {str(operand.aval.dtype) for operand in product.invars}
        if layer in with_dtype and "float32" in types:
            widened.add(f"{layer}: {product.primitive.name}")
    return sorted(widened)


def iterate_forward_products(
    jaxpr: Jaxpr | ClosedJaxpr, outer_name: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield the products of a traced step's forward pass, each with the path of its module.

    The equations inside loops and calls are yielded once each. `outer_name` is the name of the
    equation that has this program inside.
    """
    for equation in list_equations(jaxpr):
        name = f"{outer_name}/{equation.source_info.name_stack}"
        if BACKWARD in name:
            continue
        if equation.primitive.name in PRODUCTS:
            layers = LAYER.findall(name)
            yield layers[-1] if layers else "", equation
        for inner in list_inner_programs(equation):
            yield from iterate_forward_products(inner, name)
