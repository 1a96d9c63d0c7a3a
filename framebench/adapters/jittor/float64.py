"""Steps of Jittor in float64, for reference values on a CPU.

Jittor's kernels compute in the type of what they are given, and its relays to oneDNN take float32
alone. But a few things become float32 on the way, whatever they meet. While `switch_on` is in
force they are replaced:

- A number of Python's is stored as float32 (`ArrayOp`, src/pyjt/py_array_op.cc), and so is an
  array or a list of float64. 0.1 is then off by 1.5e-8, in a model, a loss and an optimizer.
- The derivatives of `mean` and `erf` multiply by a constant that was rounded to float32
  (`make_number`, src/ops/op_utils.cc). A mean becomes a sum and a division, `erf` gets a derivative
  of its own.
- Random numbers are float32 whatever type is requested (`jt.random`, __init__.py), and so is a new
  array whose type nobody names, and what a library function makes of booleans, such as
  `jt.init.eye`.
- Variables that a user's file has made when it was imported are float32. Those that its globals
  lead to become float64 in place (`widen_variables`).

Nothing of Jittor is changed for a step in float32: `switch_off` puts back what was there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import jittor as jt
import numpy as np
from jittor import Var

from framebench.adapters.replacing import replace_attributes

Function = Callable[..., Any]
NUMBERS = (float, np.floating)  # np.float64 is a float, np.float32 is not
DEFAULT = "float32"  # the type of an array for which nobody names one

# Python's operators; there are also those for numbers on the left ("radd") and in place ("iadd")
ARITHMETIC = "add sub mul truediv floordiv mod pow"
COMPARISONS = "lt le gt ge eq ne"
TWO_OPERANDS = (
    "add subtract multiply divide floor_divide mod pow maximum minimum less less_equal greater "
    "greater_equal equal not_equal"
)
ONE_OPERAND = (
    "abs negative exp log sqrt sigmoid floor ceil round sin cos tan asin acos atan sinh cosh tanh "
    "asinh acosh atanh"
)

REPLACED = ("array", "code", "erf", "random", "reduce", "unary")
ORIGINAL: dict[str, Function] = {name: getattr(jt, name) for name in REPLACED}
ASSIGN = Var.assign
replacements = ExitStack()
NARROW_VARIABLE = re.compile(r"Var\([^,]*,b?float(32|16),")  # a node of `jt.dump_all_graphs`
NARROW_CONSTANT = re.compile(r"\bfloat(32)? \w+ = .*?;")  # in a source in C++


class NoFloat64(Exception):
    """Jittor computes a part of the step in float32 whatever it is given; the message names it."""


def switch_on() -> None:
    """Replace Jittor's functions that would compute in float32, until `switch_off`."""
    switch_off()
    for name in ARITHMETIC.split():
        for prefix in ("", "r", "i"):
            widen_operands_of(Var, f"__{prefix}{name}__")
    for name in COMPARISONS.split():
        widen_operands_of(Var, f"__{name}__")
    for name in TWO_OPERANDS.split():
        widen_operands_of(Var, name)
        widen_operands_of(jt, name)
    for name in ONE_OPERAND.split():
        widen_operands_of(jt, name)
    for owner in (jt, Var):
        replace(owner, "erf", compute_erf)
        replace(owner, "erfinv", refuse_erfinv)
        replace(owner, "mean", compute_mean)
        replace(owner, "reduce", compute_reduction)
        widen_operands_of(owner, "ternary", first=1)  # after the condition
    widen_operands_of(jt, "ternary_out_hint", first=1)  # nn.relu
    widen_operands_of(Var, "__setitem__", first=2)  # after the variable and the indices
    replace(Var, "assign", assign)
    for name in ("float", "float32", "astype", "cast", "unary"):
        replace(Var, name, wrap_cast(getattr(Var, name)))
    replace(jt, "cast", wrap_cast(jt.cast))
    replace(jt, "array", make_array)
    replace(jt, "code", make_code_operator)
    replace(jt, "random", draw)
    replace(jt, "unary", cast_or_make)


def switch_off() -> None:
    """Restore the functions that `switch_on` replaced."""
    replacements.close()


def replace(owner: Any, name: str, function: Function) -> None:
    """Replace an attribute until `switch_off`."""
    replacements.enter_context(replace_attributes(owner, **{name: function}))


def make_scalar(number: float) -> Var:
    """Return a variable of one number, which takes the type of the other operand."""
    with jt.flag_scope(auto_convert_64_to_32=0):
        return jt.ops.array(np.array(number, np.float64))


def widen(operand: Any) -> Any:
    """Return a number or a variable of integers as float64, and anything else unchanged."""
    if isinstance(operand, NUMBERS):
        return make_scalar(float(operand))
    if isinstance(operand, Var) and not operand.dtype.is_float():
        return operand.float64()
    return operand


def widen_operands_of(owner: Any, name: str, first: int = 0) -> None:
    """Replace a function by one that takes its operands, from the first one on, as float64.

    It does so if a number of Python's with a fraction is among them.
    """
    function = getattr(owner, name)

    def call(*arguments: Any, **options: Any) -> Any:
        operands = arguments[first:]
        if any(isinstance(operand, NUMBERS) for operand in operands):
            operands = tuple(map(widen, operands))
        return function(*arguments[:first], *operands, **options)

    replace(owner, name, call)


def assign(x: Var, value: Any) -> Any:
    """Assign to a whole variable, which keeps the type of the assigned value."""
    return ASSIGN(x, make_array(value) if isinstance(value, np.ndarray) else value)


def wrap_cast(cast: Function) -> Function:
    """Return a cast to float32 that widens booleans and integers, which lose no precision.

    Floating-point numbers are not changed: a cast of float64 to float32 is found by `check_graph`.
    """

    def cast_or_widen(x: Var, *arguments: Any, **options: Any) -> Var:
        # `x.float()` names no type
        dtype = next(iter((*arguments, *options.values())), DEFAULT)
        if not x.dtype.is_float() and name_type(dtype) == DEFAULT:
            return x.float64()
        return cast(x, *arguments, **options)

    return cast_or_widen


def name_type(dtype: Any) -> str:
    """Return the name of a type that is given as a text, a type of NumPy's, or `jt.float32`."""
    return getattr(dtype, "__name__", str(dtype))


def cast_or_make(x: Any, dtype: Any) -> Var:
    """Cast, or make a variable of a number as `jt.zeros`, `jt.ones` and `jt.full` do."""
    if not isinstance(x, Var) and str(dtype) in (DEFAULT, "float64"):
        return make_scalar(float(x))
    if not isinstance(x, Var):
        return ORIGINAL["unary"](x, dtype)
    return wrap_cast(ORIGINAL["unary"])(x, dtype)


def widen_variables(variables: Iterable[Var]) -> None:
    """Convert variables from float32 to float64 in place, until `switch_off`."""
    for variable in variables:
        if str(variable.dtype) == DEFAULT:
            convert_in_place(variable, "float64")
            replacements.callback(convert_in_place, variable, DEFAULT)


def convert_in_place(variable: Var, dtype: str) -> None:
    """Give a variable another type. Whoever holds it has it in the new type then.

    A variable whose gradient is stopped keeps it stopped.
    """
    is_frozen = variable.is_stop_grad()
    variable.update(ORIGINAL["unary"](variable.detach(), dtype))
    if is_frozen:
        variable.stop_grad()
    else:
        variable.start_grad()


def make_array(data: Any, dtype: Any = None) -> Var:
    """Make a variable of a number, a list, an array or a variable.

    Floats of the default type become float64, whether the type is named or not; others keep theirs.
    """
    if not isinstance(data, Var):
        data = np.asarray(data)
        if data.dtype.kind == "f" and name_type(dtype or DEFAULT) == DEFAULT:
            dtype = "float64"
    return ORIGINAL["array"](data, dtype)


def draw(shape: Any, dtype: Any = DEFAULT, type: str = "uniform") -> Var:
    """Draw random numbers, as float64."""
    return ORIGINAL["random"](shape, dtype, type).float64()


def compute_mean(x: Var, *dims: Any, **options: Any) -> Var:
    """Return the mean as a sum that is divided.

    The derivative of Jittor's own mean computes 1 / n in float32 (src/ops/reduce_op.cc).
    """
    total = widen(x).sum(*dims, **options)
    return total / (x.numel() // total.numel())


def compute_reduction(x: Var, op: Any, *dims: Any, **options: Any) -> Var:
    """Reduce a variable; a mean is a sum, divided."""
    if str(op) == "mean":
        return compute_mean(x, *dims, **options)
    return ORIGINAL["reduce"](x, op, *dims, **options)


def make_code_operator(*arguments: Any, **options: Any) -> Any:
    """Make an operator from sources in C++, as pooling does.

    Raises NoFloat64 if a source declares a number of float32.
    """
    for argument in (*arguments, *options.values()):  # a source, or a list of them
        narrow = NARROW_CONSTANT.search(str(argument))
        if narrow:
            raise NoFloat64(f"jt.code, whose source has float32: {narrow[0]}")
    return ORIGINAL["code"](*arguments, **options)


class Erf(jt.Function):
    """The error function with a derivative in float64.

    Jittor's own derivative has 2 / sqrt(pi) in float32 (src/ops/unary_op.cc).
    """

    def execute(self, x: Var) -> Var:
        """Return the error function."""
        self.x = x.detach()
        with jt.no_grad():
            return ORIGINAL["erf"](self.x)

    def grad(self, upstream: Var) -> Var:
        """Return the derivative, in float64."""
        return upstream * jt.exp(-self.x * self.x) * (2 / math.sqrt(math.pi))


def compute_erf(x: Any) -> Var:
    """Return the error function, with a derivative in float64."""
    return Erf.apply(widen(x))


def refuse_erfinv(x: Any) -> Var:
    """Raise NoFloat64."""
    raise NoFloat64("erfinv: its derivative takes sqrt(pi) / 2 in float32 (src/ops/unary_op.cc)")


@contextmanager
def refuse_float32() -> Iterator[None]:
    """Raise NoFloat64 if the step that is built in this context has a float32 variable.

    The graph is checked at the end and before each `sync` within the step, which drops variables.
    """
    with ExitStack() as stack:
        for owner in (jt, Var):
            stack.enter_context(replace_attributes(owner, sync=wrap_sync(owner.sync)))
        yield
    check_graph()


def wrap_sync(sync: Function) -> Function:
    """Return a `sync` that first checks the graph."""

    def check_and_sync(*arguments: Any, **options: Any) -> Any:
        check_graph()
        return sync(*arguments, **options)

    return check_and_sync


def check_graph() -> None:
    """Raise NoFloat64 if the waiting graph has a floating-point variable that is not float64."""
    graph = jt.dump_all_graphs()
    # `binary.add` of the node `Op(35:1:1:1:i2:o1:s0:g1,binary.add->36)`
    operators = [re.sub(r"^Op\([^,]*,|->.*$", "", node) for node in graph.nodes_info]
    narrow = {i for i, node in enumerate(graph.nodes_info) if NARROW_VARIABLE.match(node)}
    types = set()
    for i in narrow:
        makers = [operators[maker] for maker in graph.inputs[i]]
        users = [operators[user] for user in graph.outputs[i]]
        operands: set[int] = set()
        for maker in graph.inputs[i]:
            operands.update(graph.inputs[maker])
        if graph.nodes_info[i].endswith("[1,]") and set(users) == {"setitem"}:
            continue  # a zero in the derivative of an assignment (src/ops/setitem_op.cc)
        if makers == ["random"]:
            continue  # to be cast by `draw`: as good as any other numbers
        if operands & narrow:
            continue  # float32 only because an operand is
        source = ", ".join(makers) or (
            "a variable from before the step, which belongs into a global of the file, or into "
            "model() or batch(n)"
        )
        types.add(f"{source} (for {', '.join(users)})")
    if types:
        raise NoFloat64(f"Jittor computes in float32: {'; '.join(sorted(types))}")
