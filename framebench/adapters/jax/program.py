"""A JAX function as a compiled program, and what can be read from it: equations, products, bytes.

A *product* is a matmul or a convolution.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax import Array
from jax.extend.core import ClosedJaxpr, Jaxpr

from framebench.adapters.jax.hlo import Instruction, parse_instructions

PRODUCTS = ("dot_general", "conv_general_dilated")
# what XLA leaves to cuBLAS, cuDNN or oneDNN
LIBRARY_PRODUCT = re.compile(r'custom_call_target="[^"]*(?:gemm|matmul|conv|fmha)')
# a line of the optimised HLO, and the type of its result
DIRECT_PRODUCT = re.compile(r"= (\w+)\[\S* (?:dot|convolution)\(")
LIBRARY_CALL = re.compile(
    r"= \(?(\w+)\[.* custom-call\("
    r'.*custom_call_target="[^"]*(?:gemm|matmul|conv)'
)
# Fusion repeats element-wise operations, but not these
REDUCTION = " reduce("
TYPES = {"f64": "float64", "f32": "float32", "bf16": "bfloat16", "f16": "float16"}


class StepProgram:
    """A function compiled ahead of time, once for each shape of its last argument.

    An `eager` one runs operation by operation.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        precision: str,
        eager: bool,
        options: dict[str, str | bool],
        **jit_options: Any,
    ) -> None:
        """Set a program up without compiling it.

        Args:
            function: What it computes.
            precision: Of products in float32, see `jax.default_matmul_precision`.
            eager: Whether to run without compiling.
            options: The compiler's.
            jit_options: Those of `jax.jit`.
        """
        self.function = function
        self.precision = precision
        self.eager = eager
        self.options = options
        self.jitted = jax.jit(function, **jit_options)
        self.compiled: dict[tuple[int, ...], Any] = {}
        self.traced: dict[tuple[int, ...], Any] = {}
        self.compilations = 0
        self.plan = 0  # bytes of the largest executable

    def __call__(self, *arguments: Any) -> Any:
        """Run the function, compiled before if this shape of the last argument is new."""
        if self.eager:
            with jax.disable_jit(), jax.default_matmul_precision(self.precision):
                return self.function(*arguments)
        self.prepare(*arguments)
        return self.compiled[find_last_shape(arguments)](*arguments)

    def prepare(self, *arguments: Any) -> None:
        """Compile for these arguments' shape, unless that is done or the program is eager."""
        shape = find_last_shape(arguments)
        if self.eager or shape in self.compiled:
            return
        traced = self.trace(*arguments)
        compiled = traced.lower().compile(self.options)
        self.traced[shape] = traced
        self.compiled[shape] = compiled
        self.compilations += 1
        self.plan = max(self.plan, count_plan_bytes(compiled))

    def trace(self, *arguments: Any) -> Any:
        """Return the function as JAX traces it with these arguments, which may be shapes alone."""
        with jax.default_matmul_precision(self.precision):
            return self.jitted.trace(*arguments)

    def count_text(self, text: str) -> int:
        """Return how often the optimised HLO of all executables has this text."""
        return sum(compiled.as_text().count(text) for compiled in self.compiled.values())

    def clear(self) -> None:
        """Forget what was compiled."""
        self.compiled.clear()


def find_last_shape(arguments: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the shape of the last argument.

    If that is a tree of several arrays, or of none, it is the shape of the first array from there.
    """
    last = arguments[-1]
    if not hasattr(last, "shape"):
        last = jax.tree.leaves((arguments[-1], arguments[-2]))[0]
    shape: tuple[int, ...] = last.shape
    return shape


def count_bytes(arrays: list[Array]) -> int:
    """Return the bytes of these arrays on the device that holds most of them."""
    return max(count_bytes_by_device(arrays).values(), default=0)


def count_bytes_by_device(arrays: list[Array]) -> dict[int, int]:
    """Return the bytes on each device, where arrays that share a buffer count once."""
    sizes_by_device: dict[int, dict[int, int]] = {}
    for array in arrays:
        for shard in list_shards(array):
            (device,) = shard.devices()
            sizes = sizes_by_device.setdefault(device.id, {})
            sizes[shard.unsafe_buffer_pointer()] = shard.nbytes
    return {device: sum(sizes.values()) for device, sizes in sorted(sizes_by_device.items())}


def find_addresses(tree: Any) -> set[int]:
    """Return where the buffers of all arrays of a tree lie."""
    addresses = set()
    for array in jax.tree.leaves(tree):
        for shard in list_shards(array):
            addresses.add(shard.unsafe_buffer_pointer())
    return addresses


def list_shards(array: Array) -> list[Array]:
    """Return the part of an array on each device."""
    if len(array.devices()) == 1:
        return [array]
    return [shard.data for shard in array.addressable_shards]


def count_plan_bytes(compiled: Any) -> int:
    """Return what one run of an executable needs by XLA's plan."""
    # XLA's own `peak_memory_in_bytes` leaves temporaries out on the CPU
    plan = compiled.memory_analysis()
    given_and_made = plan.argument_size_in_bytes + plan.output_size_in_bytes
    return given_and_made + plan.temp_size_in_bytes - plan.alias_size_in_bytes


def walk_equations(*jaxprs: Jaxpr | ClosedJaxpr) -> Iterator[Any]:
    """Yield every equation of these programs, those inside loops and calls once each."""
    for jaxpr in jaxprs:
        for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
            yield equation
            parameters = jax.tree.leaves(equation.params, is_leaf=is_jaxpr)
            yield from walk_equations(*filter(is_jaxpr, parameters))


def is_jaxpr(value: Any) -> bool:
    """Return whether a parameter of an equation is a program, such as the body of a loop."""
    return isinstance(value, Jaxpr | ClosedJaxpr)


def find_products(*jaxprs: ClosedJaxpr) -> list[Any]:
    """Return the equations of these programs that are products."""
    return [e for e in walk_equations(*jaxprs) if e.primitive.name in PRODUCTS]


def count_batched_matmuls(*jaxprs: ClosedJaxpr) -> int:
    """Return how many products are matmuls with an axis of a batch, as attention's are."""
    count = 0
    for equation in find_products(*jaxprs):
        if equation.primitive.name == "dot_general":
            _, (left_batch_axes, _) = equation.params["dimension_numbers"]
            count += bool(left_batch_axes)
    return count


def count_large_results(jaxprs: list[ClosedJaxpr], rows: int, columns: int, width: int) -> int:
    """Return how many results have so many columns and at least so many rows.

    A result of the shape (width, columns) is the transposed embedding, and not counted.
    """
    count = 0
    for equation in walk_equations(*jaxprs):
        for variable in equation.outvars:
            shape = variable.aval.shape
            if shape[-1:] == (columns,) and shape != (width, columns):
                count += math.prod(shape) >= rows * columns
    return count


def count_compiled_products(compiled: Any) -> Counter[str]:
    """Count the products of the optimised HLO by the type of their result.

    XLA:CPU turns some convolutions into dots, XLA:GPU calls libraries.
    """
    text = compiled.as_text()
    return Counter(DIRECT_PRODUCT.findall(text)) + Counter(LIBRARY_CALL.findall(text))


def count_operand_types(compiled: Any) -> Counter[str]:
    """Count the operands of the products of the optimised HLO by their type.

    The compiler may have widened what it was given.
    """
    counts: Counter[str] = Counter()
    computations, _ = parse_instructions(compiled.as_text())
    for instructions in computations.values():
        types = {each.name: each.result.partition("[")[0] for each in instructions}
        for instruction in instructions:
            if is_compiled_product(instruction):
                for operand in instruction.operands[:2]:
                    counts[TYPES.get(types[operand], types[operand])] += 1
    return counts


def is_compiled_product(instruction: Instruction) -> bool:
    """Return whether an instruction of the optimised HLO is a product, XLA's own or a library's."""
    if instruction.opcode == "custom-call":
        return bool(LIBRARY_PRODUCT.search(instruction.attributes))
    return instruction.opcode in ("dot", "convolution")
