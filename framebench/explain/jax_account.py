"""Account for one step of JAX by the compiler's plan: when each buffer is filled and last read.

XLA reserves the whole plan (arguments, outputs, one block for all temporaries) before the first
instruction. The account says what the plan is needed for. It is read from two texts that XLA dumps:
the program in the order in which it runs, and which buffer lies where.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import jax

from framebench.adapters.jax.adapter import JaxAdapter
from framebench.adapters.jax.hlo import HloBuffer, Positions, parse_assignment, parse_instructions
from framebench.adapters.jax.places import name_modules
from framebench.adapters.jax.program import StepProgram, read_plan_parts
from framebench.explain.jax_buffers import ProgramWalk, end_overwritten, find_module
from framebench.instruments.memory_timeline import NEVER, Value

HOW = (
    "buffers of the compiled step, from the instruction that fills one to the last that reads it; "
    "an event is an instruction. The whole plan is reserved from the first event on. A fused "
    "operator is named by its last part. The phase is that of what an instruction computes: the "
    "compiler may run some of the backward pass, such as the reversal of a convolution's weights, "
    "before the forward pass has ended"
)
# kinds by the beginnings of arguments' names; a function of `*arguments` has numbers for names
ARGUMENT_KINDS = {
    "params": "parameter",
    "constants['frozen']": "parameter",
    "stats": "buffer",
    "state": "optimizer state",
    "x": "input",
    "y": "input",
    "arguments[0]": "parameter",
    "arguments[1]": "buffer",
    "arguments[2]['frozen']": "parameter",
    "arguments[3]": "input",
}
# kinds of results by scenario, in the order in which a step returns them
RESULT_KINDS = {
    "train": ("new parameter", "new buffer", "new optimizer state", "output"),
    # where the graph is kept, its residuals are returned last
    "eval": ("output", "new buffer", "saved for backward"),
}


def explain_step(adapter: JaxAdapter) -> dict[str, Any]:
    """Return the account of the adapter's compiled step, as fields of an `Explanation`."""
    with tempfile.TemporaryDirectory() as folder:
        program = compile_step(adapter, folder)
        (hlo,) = Path(folder).glob("*after_optimizations.txt")
        (plan,) = Path(folder).glob("*after_optimizations-buffer-assignment.txt")
        computations, entry = parse_instructions(hlo.read_text())
        positions, allocations = parse_assignment(plan.read_text())
    # no caller passes arguments to the entry
    walk = ProgramWalk(computations, positions, adapter.case.scenario_spec.trains)
    result = walk.walk(entry, [])
    walk.account.events += 1  # the end of the step: its results are alive until then
    for instruction in computations[entry]:
        if instruction.opcode == "parameter":
            for buffer in positions[instruction.name].values():
                allocation, _start = buffer.place
                _size, purpose = allocations[allocation]
                label_argument(buffer, instruction.op_name, is_donated="maybe-live-out" in purpose)
    buffers: list[HloBuffer] = []
    for buffers_by_index in positions.values():
        buffers += buffers_by_index.values()
    label_temporaries(buffers)
    label_results(result, adapter, program)
    end_overwritten(buffers)
    next_to_step = Value(
        "other", "(beside the step)", "before", size=adapter.count_unplanned_bytes()
    )
    walk.account.values = [*buffers, next_to_step]
    return {**walk.account.as_dict(), "how": HOW, "plan": summarize_plan(program, allocations)}


def compile_step(adapter: JaxAdapter, folder: str) -> StepProgram:
    """Compile the adapter's step again, and let XLA dump its texts into the folder.

    The program has the names of modules in it, which change neither the program nor its plan.
    """
    # a model of shapes only, so that memory does not hold the weights twice
    model = adapter.make_abstract(adapter.config, adapter.recipe.training)
    with name_modules(model):
        program = adapter.make_program(adapter.take_apart(model).graph)
        program.options = {**program.options, "xla_dump_to": folder}
        program.prepare(*adapter.list_arguments())
    return program


def label_argument(buffer: HloBuffer, op_name: str, is_donated: bool) -> None:
    """Label an argument's buffer by the argument's name.

    `state[0].mu['blocks'][0]['fc1']['bias']` is an optimizer state of blocks.0.fc1. An argument
    that is not donated lives on after the step: no result lies in its place.
    """
    if not is_donated:
        buffer.died = NEVER
    buffer.kind = "other"
    for begin, kind in ARGUMENT_KINDS.items():
        if op_name.startswith(begin):
            buffer.kind = kind
            break
    buffer.layer = find_module(op_name)
    buffer.phase = "before"
    buffer.by = ""


def label_temporaries(buffers: list[HloBuffer]) -> None:
    """Label buffers that are neither argument nor result, by the phases that make and read them."""
    for buffer in buffers:
        if buffer.kind != "temporary":
            continue
        if buffer.phase == "forward" and "backward" in buffer.read_in:
            buffer.kind = "saved for backward"
        elif buffer.phase == "backward" and "optimizer" in buffer.read_in:
            buffer.kind = "gradient"


def label_results(result: Positions, adapter: JaxAdapter, program: StepProgram) -> None:
    """Label the buffers that the step returns: the updated trees, and the loss or the logits."""
    kinds = RESULT_KINDS[adapter.case.scenario]
    (traced,) = program.traced.values()
    leaves = jax.tree_util.tree_leaves_with_path(traced.out_info)
    for index, buffers in result.items():
        # the first key says which of the step's results it is, the others lead to a parameter
        path, _leaf = leaves[int(index or 0)]
        place_in_result, *inside = path
        names = [str(key.key) for key in inside if hasattr(key, "key")]
        layer = ".".join(names[:-1])  # the last is the parameter's
        for buffer in buffers:
            buffer.died = NEVER
            if buffer.phase != "before":  # otherwise an argument is returned unchanged
                buffer.kind = kinds[place_in_result.idx]
                buffer.layer = layer or buffer.layer


def summarize_plan(program: StepProgram, allocations: dict[int, tuple[int, str]]) -> dict[str, int]:
    """Return the bytes of the plan's parts as XLA reports them, by name.

    `in all` is the whole plan, and `by its allocations` the sum of the allocations that XLA dumped:
    a test compares the two.
    """
    (executable,) = program.compiled.values()
    sizes = read_plan_parts(executable)
    sizes["in all"] = program.plan
    sizes["by its allocations"] = sum(size for size, _ in allocations.values())
    return sizes
