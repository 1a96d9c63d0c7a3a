"""JAX's account of one step, from the compiler's plan: every buffer of the executable, from the instruction that fills it to
the last that reads it, in the order in which the executable runs.

XLA reserves the whole plan (arguments, outputs, one block for all temporaries) before the first instruction. The account says
what the plan is needed for. Read are the two texts that XLA dumps: the scheduled program, and which buffer lies where.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import jax
from flax import nnx

from framebench.adapters.jax.adapter import JaxAdapter
from framebench.adapters.jax.hlo import HloBuffer, Positions, parse_assignment, parse_instructions
from framebench.adapters.jax.program import StepProgram
from framebench.explain.jax_buffers import MARK, Walk, module, share
from framebench.instruments.memory_timeline import NEVER, Value

HOW = (
    "buffers of the compiled step, from the instruction that fills one to the last that reads it; an event is an instruction. "
    "The whole plan is reserved from the first event on. A fused operator is named by its last part"
)
ARGUMENTS = {  # how the names of arguments begin; a function of `*arguments` has numbers instead
    "params": "parameter", "constants['frozen']": "parameter", "stats": "buffer", "state": "optimizer state",
    "x": "input", "y": "input", "arguments[0]": "parameter", "arguments[1]": "buffer", "arguments[2]['frozen']": "parameter",
    "arguments[3]": "input",
}  # fmt: skip
RESULTS = {
    "train": ("new parameter", "new buffer", "new optimizer state", "output"),
    "eval": ("output", "new buffer", "saved for backward"),  # the last are the residuals of a graph that is kept
}


@contextmanager
def _scoped(model: nnx.Module) -> Iterator[None]:
    """The names of operations tell the path of the module that they are from."""
    modules: list[tuple[str, Any]] = [(".".join(map(str, path)), module) for path, module in nnx.iter_modules(model)]
    with ExitStack() as stack:
        for kind in {type(module) for _, module in modules}:
            if callable(getattr(kind, "__call__", None)):  # noqa: B004
                stack.callback(setattr, kind, "__call__", kind.__call__)
                kind.__call__ = _marked(kind.__call__)
        for path, module in modules:
            module.scope = MARK + path
        yield


def _marked(call: Callable[..., Any]) -> Callable[..., Any]:
    def inside(self: Any, *arguments: Any, **options: Any) -> Any:
        with jax.named_scope(getattr(self, "scope", "")):
            return call(self, *arguments, **options)

    return inside


def compiled(adapter: JaxAdapter, folder: str) -> StepProgram:
    """The adapter's step once more, with modules' names in it and its texts in the folder."""
    model = adapter.make_abstract(adapter.config, adapter.recipe.training)
    with _scoped(model):
        program = adapter.make_program(adapter.take_apart(model).graph)
        program.options = program.options | {"xla_dump_to": folder}
        program.prepare(*adapter.list_arguments())
    return program


def _name_argument(buffer: HloBuffer, op_name: str) -> None:
    """`state[0].mu['blocks'][0]['fc1']['bias']` is an optimizer state of blocks.0.fc1."""
    buffer.kind = next((kind for begin, kind in ARGUMENTS.items() if op_name.startswith(begin)), "other")
    buffer.layer, buffer.phase, buffer.by = module(op_name), "before", ""


def _name_results(result: Positions, adapter: JaxAdapter, program: StepProgram) -> None:
    """What the step returns: the updated trees, and the loss or the logits."""
    (traced,) = program.traced.values()
    leaves = jax.tree_util.tree_flatten_with_path(traced.out_info)[0]
    for index, buffers in result.items():
        path = leaves[int(index or 0)][0]
        inside = [str(key.key) for key in path[1:] if hasattr(key, "key")]
        for buffer in buffers:
            buffer.died = NEVER
            if buffer.phase != "before":
                buffer.kind = RESULTS[adapter.case.scenario][path[0].idx]
                buffer.layer = ".".join(inside[:-1]) or buffer.layer


def _name_kinds(values: list[HloBuffer]) -> None:
    """Of what is neither argument nor result: by the phase that makes it, and those that read it."""
    for value in values:
        if value.kind == "temporary" and value.phase == "forward" and "backward" in value.read_in:
            value.kind = "saved for backward"
        elif value.kind == "temporary" and value.phase == "backward" and "optimizer" in value.read_in:
            value.kind = "gradient"


def account(adapter: JaxAdapter) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(adapter, folder)
        (hlo,), (plan,) = (Path(folder).glob(f"*after_optimizations{end}.txt") for end in ("", "-buffer-assignment"))
        computations, entry = parse_instructions(hlo.read_text())
        buffers, allocations = parse_assignment(plan.read_text())
    walk = Walk(computations, buffers, adapter.case.stage.trains)
    result = walk.run(entry, [])
    walk.account.events += 1
    for i in computations[entry]:
        for buffer in buffers[i.name].values() if i.opcode == "parameter" else ():
            _name_argument(buffer, i.op_name)
            if "maybe-live-out" not in allocations[buffer.place[0]][1]:
                buffer.died = NEVER  # not donated
    values = [b for positions in buffers.values() for b in positions.values()]
    _name_kinds(values)
    _name_results(result, adapter, program)
    share(values)
    beside = Value("other", "(beside the step)", "before", size=adapter.count_unplanned_bytes())
    walk.account.values = [*values, beside]
    return walk.account.as_dict() | {"how": HOW, "plan": _sizes(program, allocations)}


def _sizes(program: StepProgram, allocations: dict[int, tuple[int, str]]) -> dict[str, int]:
    """What XLA reports of its plan, and the sum of what it assigned."""
    (executable,) = program.compiled.values()
    reported = executable.memory_analysis()
    parts = {"arguments": "argument", "outputs": "output", "temporaries": "temp", "aliased": "alias"}
    bytes_by_part = {name: getattr(reported, f"{field}_size_in_bytes") for name, field in parts.items()}
    return bytes_by_part | {"in all": program.plan, "by its allocations": sum(size for size, _ in allocations.values())}
