"""A JAX function as a compiled program, and what can be read from it: equations, products, bytes.

A *product* is a matmul or a convolution.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend.core import ClosedJaxpr, Jaxpr

from framebench.adapters.jax.hlo import Instruction, parse_instructions
from framebench.adapters.replacing import replace_attributes

PRODUCTS = ("dot_general", "conv_general_dilated")
# calls of products in cuBLAS, cuDNN or oneDNN
LIBRARY_PRODUCT = re.compile(r'custom_call_target="[^"]*(?:gemm|matmul|conv|fmha)')
ATTENTION = 'custom_call_target="__cudnn$fmha'
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
            precision: The precision of float32 products, see `jax.default_matmul_precision`.
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
        """Return the function as JAX traces it with these arguments, which may be mere shapes."""
        with jax.default_matmul_precision(self.precision):
            return self.jitted.trace(*arguments)

    def count_text(self, text: str) -> int:
        """Return how often the optimised HLO of all executables has this text."""
        return sum(compiled.as_text().count(text) for compiled in self.compiled.values())

    def list_plans(self) -> list[Any]:
        """Return XLA's memory plan of each executable."""
        return [compiled.memory_analysis() for compiled in self.compiled.values()]

    def clear(self) -> None:
        """Drop all compiled executables."""
        self.compiled.clear()


def find_last_shape(arguments: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the shape of the last argument, or of the first array in it if it is a tree.

    If the last argument has no array, as where targets are None, the one before it counts.
    """
    *others, last = arguments
    first_array, *_ = jax.tree.leaves((last, others[-1:]))
    shape: tuple[int, ...] = first_array.shape
    return shape


def count_bytes(arrays: list[Array]) -> int:
    """Return the bytes of these arrays on the device that has most of them."""
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


def read_plan_parts(compiled: Any) -> dict[str, int]:
    """Return the bytes of an executable by XLA's plan, by part."""
    plan = compiled.memory_analysis()
    return {
        "arguments": plan.argument_size_in_bytes,
        "outputs": plan.output_size_in_bytes,
        "temporaries": plan.temp_size_in_bytes,
        "aliased": plan.alias_size_in_bytes,
    }


def count_plan_bytes(compiled: Any) -> int:
    """Return the bytes of one run of an executable, by XLA's plan."""
    # XLA's own `peak_memory_in_bytes` leaves temporaries out on the CPU
    parts = read_plan_parts(compiled)
    return parts["arguments"] + parts["outputs"] + parts["temporaries"] - parts["aliased"]


def walk_equations(*jaxprs: Jaxpr | ClosedJaxpr) -> Iterator[Any]:
    """Yield every equation of these programs, those inside loops and calls once each."""
    for jaxpr in jaxprs:
        for equation in list_equations(jaxpr):
            yield equation
            yield from walk_equations(*list_inner_programs(equation))


def list_equations(program: Jaxpr | ClosedJaxpr) -> list[Any]:
    """Return the equations of a program, without those inside its loops and calls."""
    return list(getattr(program, "jaxpr", program).eqns)


def list_inner_programs(equation: Any) -> list[Any]:
    """Return the programs among an equation's parameters, such as the body of a loop."""
    programs = (Jaxpr, ClosedJaxpr)
    parameters = jax.tree.leaves(equation.params, is_leaf=lambda node: isinstance(node, programs))
    return [each for each in parameters if isinstance(each, programs)]


@contextmanager
def wrap_calls(modules: Iterable[Any], wrap: Callable[[Any], Any]) -> Iterator[None]:
    """Replace the `__call__` of the modules' classes, in this context, by `wrap` of it.

    Python looks `__call__` up in the class: each class is wrapped once.
    """
    with ExitStack() as stack:
        for kind in {type(module) for module in modules}:
            stack.enter_context(replace_attributes(kind, __call__=wrap(kind.__call__)))
        yield


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


def list_compiled_products(compiled: Any) -> list[tuple[Instruction, list[str]]]:
    """Return the products of the optimised HLO, XLA's own and a library's, with operand types.

    XLA:CPU turns some convolutions into dots, XLA:GPU calls libraries. The compiler may have
    widened what it was given.
    """
    products = []
    computations, _ = parse_instructions(compiled.as_text())
    for instructions in computations.values():
        types = {each.name: each.result.partition("[")[0] for each in instructions}
        for instruction in instructions:
            calls_library = instruction.opcode == "custom-call"
            if calls_library:
                is_product = bool(LIBRARY_PRODUCT.search(instruction.attributes))
            else:
                is_product = instruction.opcode in ("dot", "convolution")
            if is_product:
                operands = [types[operand] for operand in instruction.operands[:2]]
                products.append((instruction, operands))
    return products


def count_compiled_products(compiled: Any) -> Counter[str]:
    """Count the products of the optimised HLO by the type of their result."""
    counts: Counter[str] = Counter()
    for instruction, _ in list_compiled_products(compiled):
        # a fused attention is several products in one
        if ATTENTION not in instruction.attributes:
            counts[instruction.result.lstrip("(").partition("[")[0]] += 1
    return counts


def count_operand_types(compiled: Any) -> Counter[str]:
    """Count the operands of the products of the optimised HLO by their type."""
    counts: Counter[str] = Counter()
    for _, operands in list_compiled_products(compiled):
        counts.update(TYPES.get(operand, operand) for operand in operands)
    return counts


def count_in_program(program: StepProgram, jaxprs: list[ClosedJaxpr]) -> dict[str, Any]:
    """Return counts of a step's products, of the traced and of the compiled program."""
    requested = find_products(*jaxprs)
    operands: Counter[str] = Counter()
    for product in requested:
        operands.update(str(variable.aval.dtype) for variable in product.invars)
    compiled_operands: Counter[str] = Counter()
    compiled_products: Counter[str] = Counter()
    aliased_bytes = 0
    for executable in program.compiled.values():
        compiled_operands += count_operand_types(executable)
        compiled_products += count_compiled_products(executable)
        aliased_bytes += read_plan_parts(executable)["aliased"]
    return {
        "operands": dict(operands),
        "precision": dict(Counter(str(product.params["precision"]) for product in requested)),
        "products": len(requested),
        "compiled_operands": dict(compiled_operands),
        "compiled_products": dict(compiled_products),
        "compilations": program.compilations,
        "compiler_options": program.options,
        "aliased_bytes": aliased_bytes,
    }


def count_dtypes(tree: Any) -> dict[str, int]:
    """Count the floating-point arrays of each type.

    Single numbers, such as counts of steps, are left out.
    """
    counts: Counter[str] = Counter()
    for array in jax.tree.leaves(tree):
        if array.ndim and jnp.issubdtype(array.dtype, jnp.floating):
            counts[str(array.dtype)] += 1
    return dict(counts)
