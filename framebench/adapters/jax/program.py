"""A JAX function as a compiled program, and what can be read from it: equations, products, bytes."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
from jax import Array
from jax.extend.core import ClosedJaxpr, Jaxpr

from framebench.adapters.jax import hlo

PRODUCTS = ("dot_general", "conv_general_dilated")
LIBRARY = r'custom_call_target="[^"]*(?:gemm|matmul|conv|fmha)'  # a product that XLA leaves to cuBLAS, cuDNN or oneDNN
TYPES = {"f64": "float64", "f32": "float32", "bf16": "bfloat16", "f16": "float16"}


class Program:
    """A function compiled ahead of time, once for each shape of its last argument; or `eager`, operation by operation."""

    def __init__(
        self, function: Callable[..., Any], precision: str, eager: bool, options: dict[str, str | bool], **jit: Any
    ) -> None:
        self.function, self.precision, self.eager, self.options = function, precision, eager, options
        self.jitted = jax.jit(function, **jit)
        self.compiled: dict[tuple[int, ...], Any] = {}
        self.traced: dict[tuple[int, ...], Any] = {}
        self.compilations = 0
        self.plan = 0  # bytes of the largest

    def __call__(self, *arguments: Any) -> Any:
        if self.eager:
            with jax.disable_jit(), jax.default_matmul_precision(self.precision):
                return self.function(*arguments)
        self.prepare(*arguments)
        return self.compiled[last_shape(arguments)](*arguments)

    def prepare(self, *arguments: Any) -> None:
        """Compile for these arguments' shape, unless that is done."""
        shape = last_shape(arguments)
        if not self.eager and shape not in self.compiled:
            self.compile(shape, *arguments)

    def compile(self, shape: tuple[int, ...], *arguments: Any) -> None:
        self.traced[shape] = self.trace(*arguments)
        self.compiled[shape] = self.traced[shape].lower().compile(self.options)
        self.compilations += 1
        self.plan = max(self.plan, plan_bytes(self.compiled[shape]))

    def trace(self, *arguments: Any) -> Any:
        with jax.default_matmul_precision(self.precision):
            return self.jitted.trace(*arguments)

    def clear(self) -> None:
        """Forget what was compiled."""
        self.compiled.clear()


def last_shape(arguments: tuple[Any, ...]) -> tuple[int, ...]:
    """Of the last one; where that has several arrays, or none, of the first array from there."""
    last = arguments[-1] if hasattr(arguments[-1], "shape") else jax.tree.leaves((arguments[-1], arguments[-2]))[0]
    shape: tuple[int, ...] = last.shape
    return shape


def unique_bytes(arrays: list[Array]) -> int:
    """On the device that holds most, of several."""
    return max(bytes_by_device(arrays).values(), default=0)


def bytes_by_device(arrays: list[Array]) -> dict[int, int]:
    """Buffers that arrays share are counted once."""
    buffers_by_device: dict[int, dict[int, int]] = {}
    for array in arrays:
        for part in parts(array):
            (device,) = part.devices()
            buffers_by_device.setdefault(device.id, {})[part.unsafe_buffer_pointer()] = part.nbytes
    return {device: sum(sizes.values()) for device, sizes in sorted(buffers_by_device.items())}


def buffers(tree: Any) -> set[int]:
    """Where the arrays lie."""
    return {part.unsafe_buffer_pointer() for array in jax.tree.leaves(tree) for part in parts(array)}


def parts(array: Array) -> list[Array]:
    """Those on each device."""
    return [array] if len(array.devices()) == 1 else [shard.data for shard in array.addressable_shards]


def plan_bytes(compiled: Any) -> int:
    """What one run of the executable needs by XLA's plan. Its own `peak_memory_in_bytes` leaves temporaries out on the CPU."""
    m = compiled.memory_analysis()
    return m.argument_size_in_bytes + m.output_size_in_bytes + m.temp_size_in_bytes - m.alias_size_in_bytes


def equations(jaxpr: Jaxpr | ClosedJaxpr) -> Iterator[Any]:
    """Every equation, those inside loops and calls once each."""
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield eqn
        for value in jax.tree.leaves(eqn.params, is_leaf=lambda v: isinstance(v, Jaxpr | ClosedJaxpr)):
            if isinstance(value, Jaxpr | ClosedJaxpr):
                yield from equations(value)


def products(jaxpr: ClosedJaxpr) -> list[Any]:
    return [e for e in equations(jaxpr) if e.primitive.name in PRODUCTS]


def with_batch(jaxprs: Iterable[ClosedJaxpr]) -> int:
    """Products of matrices in batches, as attention's are."""
    matrix_products = [eq for q in jaxprs for eq in products(q) if eq.primitive.name == "dot_general"]
    return sum(bool(eq.params["dimension_numbers"][1][0]) for eq in matrix_products)


def as_large(jaxpr: ClosedJaxpr, rows: int, columns: int, width: int) -> int:
    """How many results have so many columns and at least so many rows. A matrix of `width` rows is the transposed embedding."""
    shapes = [v.aval.shape for e in equations(jaxpr) for v in e.outvars if v.aval.shape != (width, columns)]
    return sum(s[-1:] == (columns,) and math.prod(s) >= rows * columns for s in shapes)


def compiled_products(compiled: Any) -> Counter[str]:
    """Products in the optimised HLO by result type: XLA:CPU turns some convolutions into dots, XLA:GPU calls libraries."""
    direct = r"= (\w+)\[\S* (?:dot|convolution)\("
    library = r"= \(?(\w+)\[.* custom-call\(.*custom_call_target=\"[^\"]*(?:gemm|matmul|conv)"
    return Counter(re.findall(direct, text := compiled.as_text())) + Counter(re.findall(library, text))


def compiled_operands(compiled: Any) -> Counter[str]:
    """What the products of the optimised HLO multiply, by type: the compiler may have widened what it was given."""
    operand_types: Counter[str] = Counter()
    for computation in hlo.instructions(compiled.as_text())[0].values():
        types = {i.name: i.result.partition("[")[0] for i in computation}
        for i in computation:
            if i.opcode in ("dot", "convolution") or (i.opcode == "custom-call" and re.search(LIBRARY, i.attributes)):
                operand_types.update(TYPES.get(types[name], types[name]) for name in i.operands[:2])
    return operand_types


def reductions(compiled: Any) -> int:
    """In the optimised HLO. Fusion repeats element-wise operations, these it does not."""
    return compiled.as_text().count(" reduce(")
