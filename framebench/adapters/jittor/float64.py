"""Steps of Jittor in float64, for reference values on a CPU.

Jittor's kernels compute in the type of what they are given, and its relays to oneDNN take float32
alone. But a few things become float32 on the way, whatever they meet. While `switch_on` is in
force they are replaced:

- A number of Python's is stored as float32 (`ArrayOp`, src/pyjt/py_array_op.cc), and so is an
  array or a list of float64. 0.1 is then off by 1.5e-8, in a model, a loss and an optimizer.
- The derivatives of `mean` and `erf` multiply by a constant that was rounded to float32
  (`make_number`, src/ops/op_utils.cc). A mean becomes a sum and a division, `erf` gets a derivative
  of its own.
- Random numbers are float32 whatever is asked for (`jt.random`, __init__.py), and so is a new array
  whose type nobody names, and what a library function makes of booleans.

Nothing of Jittor is changed for a step in float32: `switch_off` puts back what was there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import jittor as jt
import numpy as np
from jittor import Var

Function = Callable[..., Any]
NUMBERS = (float, np.floating)  # np.float64 is a float, np.float32 is not
DEFAULT = "float32"  # the type of an array for which nobody names one

OPERATORS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"),
    *("radd", "rsub", "rmul", "rtruediv", "rfloordiv", "rmod", "rpow"),
    *("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"),
    *("lt", "le", "gt", "ge", "eq", "ne"),
)
TWO_OPERANDS = (
    *("add", "subtract", "multiply", "divide", "floor_divide", "mod", "pow", "maximum", "minimum"),
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"),
)
ONE_OPERAND = (
    *("abs", "negative", "exp", "log", "sqrt", "sigmoid", "erf", "floor", "ceil", "round"),
    *("sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
)

REPLACED = ("array", "code", "erf", "random", "reduce", "unary")
ORIGINAL: dict[str, Function] = {name: getattr(jt, name) for name in REPLACED}
_replaced = ExitStack()
NARROW = re.compile(r"Var\([^,]*,b?float(32|16),")  # a node of `jt.dump_all_graphs`


class NoFloat64(Exception):
    """Jittor computes a part of the step in float32 whatever it is given; the message names it."""


def switch_on() -> None:
    """Replace what would become float32, until `switch_off`."""
    switch_off()
    for name in OPERATORS:
        replace(Var, f"__{name}__", with_wide_numbers(getattr(Var, f"__{name}__")))
    for name in TWO_OPERANDS:
        replace(Var, name, with_wide_numbers(getattr(Var, name)))
        replace(jt, name, with_wide_numbers(getattr(jt, name)))
    for name in ONE_OPERAND:
        replace(jt, name, with_wide_numbers(getattr(jt, name)))
    for owner in (jt, Var):
        replace(owner, "erf", erf)
        replace(owner, "erfinv", erfinv)
        replace(owner, "mean", mean)
        replace(owner, "reduce", reduce)
        replace(owner, "ternary", with_wide_choices(owner.ternary))
    replace(Var, "__setitem__", with_wide_value(Var.__setitem__))
    replace(Var, "assign", with_wide_array(Var.assign))
    for name in ("float", "float32"):
        replace(Var, name, from_booleans_and_integers(getattr(Var, name)))
    replace(jt, "ternary_out_hint", with_wide_choices(jt.ternary_out_hint))  # nn.relu
    replace(jt, "array", array)
    replace(jt, "code", code)
    replace(jt, "random", random)
    replace(jt, "unary", unary)


def switch_off() -> None:
    """Put back what Jittor had."""
    _replaced.close()


def replace(owner: Any, name: str, function: Function) -> None:
    _replaced.enter_context(mock.patch.object(owner, name, function))


def scalar(number: float) -> Var:
    """Return a variable of one number, which takes the type of what it is combined with."""
    with jt.flag_scope(auto_convert_64_to_32=0):
        return jt.ops.array(np.array(number, np.float64))


def wide_number(operand: Any) -> Any:
    """Return a number with a fraction as float64, and anything else as it is."""
    return scalar(float(operand)) if isinstance(operand, NUMBERS) else operand


def widened(operand: Any) -> Any:
    """Return a number or a variable of integers as float64, and anything else as it is."""
    if isinstance(operand, Var) and not operand.dtype.is_float():
        return operand.float64()
    return wide_number(operand)


def with_wide_numbers(function: Function) -> Function:
    """Return the same function of operands among which numbers of Python's are float64."""

    def call(*operands: Any, **options: Any) -> Any:
        if any(isinstance(operand, NUMBERS) for operand in operands):
            operands = tuple(widened(operand) for operand in operands)
        return function(*operands, **options)

    return call


def with_wide_choices(ternary: Function) -> Function:
    """Return the same choice between two operands; the condition stays what it is."""
    wide_pair = with_wide_numbers(lambda *pair: pair)
    return lambda condition, *pair: ternary(condition, *wide_pair(*pair))


def with_wide_value(setitem: Function) -> Function:
    """Return the same assignment to a part of a variable; its indices stay what they are."""
    return lambda x, slices, value: setitem(x, slices, wide_number(value))


def with_wide_array(assign: Function) -> Function:
    """Return the same assignment to a whole variable, which takes the type of what it is given."""
    return lambda x, value: assign(x, array(value) if isinstance(value, np.ndarray) else value)


def from_booleans_and_integers(cast: Function) -> Function:
    """Return a cast that widens what has no precision to lose.

    One of float64 to float32 stays, and is found in the graph (`check_graph`).
    """
    return lambda x: cast(x) if x.dtype.is_float() else x.float64()


def unary(x: Any, dtype: Any) -> Var:
    """Cast, or make a variable of a number: `jt.zeros`, `jt.ones` and `jt.full` do the latter."""
    if isinstance(x, Var):
        return ORIGINAL["unary"](x, dtype)
    if str(dtype) in (DEFAULT, "float64"):
        return scalar(float(x))
    return ORIGINAL["unary"](x, dtype)


def array(data: Any, dtype: Any = None) -> Var:
    """Make a variable of a number, a list, an array or a variable."""
    if not isinstance(data, Var):
        named = getattr(dtype, "__name__", str(dtype or DEFAULT))
        data = np.asarray(data)
        if data.dtype.kind == "f" and named == DEFAULT:
            dtype = "float64"
    return ORIGINAL["array"](data, dtype)


def random(shape: Any, dtype: Any = DEFAULT, type: str = "uniform") -> Var:
    return ORIGINAL["random"](shape, dtype, type).float64()


def mean(x: Var, *dims: Any, **options: Any) -> Var:
    """Return a sum, divided.

    The derivative of Jittor's mean takes 1 / n in float32 (src/ops/reduce_op.cc).
    """
    total = widened(x).sum(*dims, **options)
    return total / (x.numel() // total.numel())


def reduce(x: Var, op: Any, *dims: Any, **options: Any) -> Var:
    if str(op) == "mean":
        return mean(x, *dims, **options)
    return ORIGINAL["reduce"](x, op, *dims, **options)


def code(*arguments: Any, **options: Any) -> Any:
    """Make an operator of sources in C++, as pooling does.

    Raises NoFloat64 where a source declares a number of float32.
    """
    for argument in (*arguments, *options.values()):
        sources = argument if isinstance(argument, list) else [argument]
        for source in sources:
            narrow = isinstance(source, str) and re.search(r"\bfloat(32)? \w+ = .*;", source)
            if narrow:
                raise NoFloat64(f"jt.code, whose source has float32: {narrow[0]}")
    return ORIGINAL["code"](*arguments, **options)


class Erf(jt.Function):
    """The error function; its derivative takes 2 / sqrt(pi) in float32 (src/ops/unary_op.cc)."""

    def execute(self, x: Var) -> Var:
        self.x = x.detach()
        with jt.no_grad():
            return ORIGINAL["erf"](self.x)

    def grad(self, upstream: Var) -> Var:
        return upstream * jt.exp(-self.x * self.x) * (2 / math.sqrt(math.pi))


def erf(x: Any) -> Var:
    return Erf.apply(widened(x))


def erfinv(x: Any) -> Var:
    raise NoFloat64("erfinv: its derivative takes sqrt(pi) / 2 in float32 (src/ops/unary_op.cc)")


@contextmanager
def checked() -> Iterator[None]:
    """Look for float32 in the step that is asked for in here. Raises NoFloat64.

    What is waited for within the step is gone afterwards, so it is looked at before.
    """
    with ExitStack() as stack:
        for owner in (jt, Var):
            stack.enter_context(mock.patch.object(owner, "sync", after_check(owner.sync)))
        yield
    check_graph()


def after_check(sync: Function) -> Function:
    def call(*arguments: Any, **options: Any) -> Any:
        check_graph()
        return sync(*arguments, **options)

    return call


def check_graph() -> None:
    """Look at what is not yet computed. Raises NoFloat64.

    Every variable of it that holds floating-point numbers must be float64.
    """
    graph = jt.dump_all_graphs()
    names = [operator_name(node) for node in graph.nodes_info]
    narrow = {i for i, node in enumerate(graph.nodes_info) if NARROW.match(node)}
    found = set()
    for i in narrow:
        makers = graph.inputs[i]
        takers = [names[taker] for taker in graph.outputs[i]]
        if graph.nodes_info[i].endswith("[1,]") and set(takers) == {"setitem"}:
            continue  # a zero in the derivative of an assignment (src/ops/setitem_op.cc)
        if [names[maker] for maker in makers] == ["random"]:
            continue  # to be cast by `random`: as good as any other numbers
        if any(operand in narrow for maker in makers for operand in graph.inputs[maker]):
            continue  # float32 only because an operand is
        source = ", ".join(names[maker] for maker in makers) or "computed before the step"
        found.add(f"{source} (for {', '.join(takers)})")
    if found:
        raise NoFloat64(f"Jittor computes in float32: {'; '.join(sorted(found))}")


def operator_name(node: str) -> str:
    """Return `binary.add` of the node `Op(35:1:1:1:i2:o1:s0:g1,binary.add->36)` of a graph."""
    return re.sub(r"^Op\([^,]*,|->.*$", "", node)
