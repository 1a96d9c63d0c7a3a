"""Find out when each buffer of a compiled program is filled and last read, and what it is for."""

from __future__ import annotations

import re
from collections import defaultdict

from framebench.adapters.jax.hlo import HloBuffer, Instruction, Positions
from framebench.adapters.jax.places import MARK
from framebench.explain.account import Account

ALIASES = ("bitcast", "get-tuple-element", "optimization-barrier", "tuple")  # they compute nothing
CALLERS = ("while", "call", "conditional")  # the instructions inside them read their operands


class ProgramWalk:
    """Walk through a program as it runs, and note when each buffer is filled and last read.

    A loop's body is walked once; what the loop carries is alive until its end.
    """

    def __init__(
        self,
        program: dict[str, list[Instruction]],
        buffers: dict[str, dict[str, HloBuffer]],
        trains: bool,
    ) -> None:
        """Start an account that is in the forward pass."""
        self.program = program  # instructions by computation
        self.buffers = buffers  # by instruction, and by index of its result
        self.trains = trains
        self.layers: dict[str, str] = {}  # by instruction
        self.account = Account()
        self.account.enter_phase("forward")

    def walk(self, computation: str, arguments: list[Positions]) -> Positions:
        """Walk through one computation, and return where its result may lie."""
        results: dict[str, Positions] = {}  # by instruction
        result: Positions = {}
        for instruction in self.program[computation]:
            results[instruction.name] = self.execute(instruction, results, arguments)
            if instruction.root:
                result = results[instruction.name]
        return result

    def execute(
        self, instruction: Instruction, results: dict[str, Positions], arguments: list[Positions]
    ) -> Positions:
        """Note the reads and writes of one instruction, and return where its result may lie.

        `results` has the places of the results before it. `arguments` is empty for the entry of the
        program.
        """
        operands = []
        if instruction.opcode != "parameter":
            operands = [results.get(name, {}) for name in instruction.operands]
        elif arguments:
            # the text of a parameter has its number where others have their operands
            number = int(instruction.operands[0])
            return arguments[number]
        inner = self.walk_called(instruction, operands)
        self.layers[instruction.name] = self.find_layer(instruction)
        if instruction.opcode not in (*ALIASES, "parameter", "constant"):
            self.account.events += 1
            self.account.enter_phase(self.find_phase(instruction))
            self.note_reads(instruction, [*operands, inner])
        filled: Positions = {}
        for index, buffer in self.buffers.get(instruction.name, {}).items():
            self.fill(buffer, instruction)
            filled[index] = [buffer]
        # a buffer of its own takes the place of one that is passed on
        return pass_on(instruction, operands) | inner | filled

    def walk_called(self, instruction: Instruction, operands: list[Positions]) -> Positions:
        """Walk through the computations that a loop, call or branch runs; return its result."""
        if instruction.opcode == "while":
            (body,) = instruction.list_called("body")
            (condition,) = instruction.list_called("condition")
            # the condition is computed before the body, from what the loop carries
            self.walk(condition, operands)
            # the result of a loop that never turns is its operand
            return merge(operands[0], self.walk(body, operands))
        if instruction.opcode == "call":
            (callee,) = instruction.list_called("to_apply")
            return self.walk(callee, operands)
        if instruction.opcode == "conditional":
            _, _, rest = instruction.attributes.partition("branch_computations={")
            branches = re.findall(r"%([\w.\-]+)", rest.partition("}")[0])
            if not branches:
                branches = instruction.list_called("true_computation", "false_computation")
            # the first operand chooses the branch, and each branch has one of the others
            _choice, *operands_of_branches = operands
            results = []
            for branch, operand in zip(branches, operands_of_branches):
                results.append(self.walk(branch, [operand]))
            return merge(*results)
        return {}

    def note_reads(self, instruction: Instruction, operands: list[Positions]) -> None:
        """Note that this instruction reads its operands, which are alive until then."""
        for positions in operands:
            for buffers in positions.values():
                for buffer in buffers:
                    buffer.died = self.account.events + 1
                    # a loop reads in the phases of its instructions, not in its own
                    if instruction.opcode not in CALLERS:
                        buffer.read_in.add(self.account.phase)

    def find_name(self, instruction: Instruction) -> str:
        """Return the name of the operation that an instruction is from.

        If several operations are fused, return the last name among them.
        """
        if instruction.op_name:
            return instruction.op_name
        for computation in reversed(instruction.list_called("calls")):
            for fused in reversed(self.program[computation]):
                if fused.opcode != "parameter" and fused.op_name:
                    return fused.op_name
        return ""

    def find_layer(self, instruction: Instruction) -> str:
        """Return the path of the module that an instruction is from."""
        name = self.find_name(instruction)
        marks = re.findall(MARK + r"([\w.]*)", name)
        if marks:
            return marks[-1] or "(model)"  # the innermost module
        if name and instruction.opcode == "parameter":
            return find_module(name)
        if name:
            return "(optimizer)" if self.account.phase == "optimizer" else "(loss)"
        # an instruction that the compiler added has no name: it belongs to the layer of its operand
        for operand in instruction.operands:
            if operand in self.layers:
                return self.layers[operand]
        return "(compiler)"

    def find_phase(self, instruction: Instruction) -> str:
        """Return the phase of an instruction, by the transformations in its name."""
        name = self.find_name(instruction)
        if not name:
            return self.account.phase
        if "transpose(" in name or "rematted_computation" in name:
            return "backward"
        if not self.trains or "jvp(" in name or MARK in name:
            return "forward"
        if "/while/" in name:
            return "backward"  # gradients of micro-batches being added
        # the loss has no module either: what comes before any backward pass is not the optimizer's
        return "forward" if len(self.account.phases) == 1 else "optimizer"

    def fill(self, buffer: HloBuffer, instruction: Instruction) -> None:
        """Note that an instruction fills a buffer."""
        name = self.find_name(instruction)
        buffer.born = self.account.events
        buffer.died = self.account.events + 1  # until an instruction reads it
        buffer.phase = self.account.phase
        buffer.layer = self.layers[instruction.name]
        buffer.by = name.rpartition("/")[2] or instruction.opcode
        if "rematted_computation" in name:
            buffer.kind = "recomputed"


def pass_on(instruction: Instruction, operands: list[Positions]) -> Positions:
    """Return the buffers that an alias passes on from its operands; none for other opcodes."""
    if instruction.opcode not in ALIASES:
        return {}
    passed: Positions = {}
    if instruction.opcode == "tuple":
        for number, positions in enumerate(operands):
            for index, buffers in positions.items():
                passed[f"{number},{index}".strip(",")] = buffers
    elif instruction.opcode == "get-tuple-element":
        element = re.search(r"index=(\d+)", instruction.attributes)
        assert element
        for index, buffers in operands[0].items():
            first, _, rest = index.partition(",")
            if first == element[1]:
                passed[rest] = buffers
    else:
        passed.update(operands[0])
    return passed


def merge(*parts: Positions) -> Positions:
    """Return the places of a result that comes from one of several branches."""
    merged: Positions = defaultdict(list)
    for part in parts:
        for index, buffers in part.items():
            merged[index] += [buffer for buffer in buffers if buffer not in merged[index]]
    return dict(merged)


def end_overwritten(buffers: list[HloBuffer]) -> None:
    """End the life of each buffer where another is filled in the same place.

    An operator may work in place, and a loop on what it carries: memory belongs to whoever wrote
    into it last.
    """
    alive_by_allocation: dict[int, list[HloBuffer]] = defaultdict(list)
    for new in sorted(buffers, key=lambda buffer: buffer.born):
        allocation, _start = new.place
        # buffers that died before cannot be overwritten
        alive = [old for old in alive_by_allocation[allocation] if old.died > new.born]
        for old in alive:
            if old.overlaps(new):
                old.died = new.born
        alive_by_allocation[allocation] = [*alive, new]


def find_module(argument: str) -> str:
    """Return the module's path in an argument's name.

    For `state[0].mu['blocks'][0]['fc1']['bias']` it is `blocks.0.fc1`.
    """
    _, _, path = argument.replace("['frozen']", "").partition("['")
    names = re.findall(r"\w+", path)
    return ".".join(names[:-1])  # the last is the parameter's
