"""When each buffer of a compiled program is filled and last read, and what it is for."""

from __future__ import annotations

import re
from collections import defaultdict

from framebench.adapters.jax.hlo import HloBuffer, Instruction, Positions
from framebench.explain.account import Account

MARK = "layer:"  # before a module's path among the names of an operation
ALIASES = ("bitcast", "get-tuple-element", "optimization-barrier", "tuple")  # nothing runs


class Walk:
    """Goes through the program once, in order, and notes for each buffer when it is filled and last read.

    A loop's body is walked once; what the loop carries is alive until its end.
    """

    def __init__(self, program: dict[str, list[Instruction]], buffers: dict[str, dict[str, HloBuffer]], trains: bool) -> None:
        self.program, self.buffers, self.trains = program, buffers, trains
        self.layers: dict[str, str] = {}  # by instruction
        self.account = Account()
        self.account.turn("forward")

    def run(self, computation: str, given: list[Positions]) -> Positions:
        """The values of its result."""
        values_by_name: dict[str, Positions] = {}
        result: Positions = {}
        for instruction in self.program[computation]:
            values = self.execute(instruction, values_by_name, given)
            values_by_name[instruction.name] = values
            if instruction.root:
                result = values
        return result

    def execute(self, i: Instruction, values_by_name: dict[str, Positions], given: list[Positions]) -> Positions:
        if i.opcode == "parameter" and given:
            return given[int(i.operands[0])]
        operands = [values_by_name.get(name, {}) for name in i.operands] if i.opcode != "parameter" else []
        inner = self.called(i, operands)
        self.layers[i.name] = self.layer(i)
        if i.opcode not in (*ALIASES, "parameter", "constant"):
            self.account.events += 1
            self.account.turn(self.phase_of(self.name(i)))
            for buffer in (b for positions in (*operands, inner) for values in positions.values() for b in values):
                buffer.died = self.account.events + 1
                if i.opcode not in ("while", "call", "conditional"):
                    buffer.read_in.add(self.account.phase)
        return _passed_on(i, operands) | inner | {index: [self.fill(b, i)] for index, b in self.buffers.get(i.name, {}).items()}

    def called(self, i: Instruction, operands: list[Positions]) -> Positions:
        """What a loop, a call or a branch results in."""
        if i.opcode == "while":
            (body,), (condition,) = i.list_called("body"), i.list_called("condition")
            self.run(condition, operands)
            return merged(operands[0], self.run(body, operands))
        if i.opcode == "call":
            return self.run(i.list_called("to_apply")[0], operands)
        if i.opcode == "conditional":
            names = re.findall(r"%([\w.\-]+)", i.attributes.partition("branch_computations={")[2].partition("}")[0])
            branches = names or i.list_called("true_computation", "false_computation")
            return merged(*(self.run(name, [given]) for name, given in zip(branches, operands[1:])))
        return {}

    def name(self, i: Instruction) -> str:
        """Its own, or that of the last of those which it fuses."""
        fused = [
            inner.op_name for called in i.list_called("calls") for inner in self.program[called] if inner.opcode != "parameter"
        ]
        return next(filter(None, [i.op_name, *reversed(fused)]), "")

    def layer(self, i: Instruction) -> str:
        """What the compiler put in has no name: it belongs to where its operand comes from."""
        name = self.name(i)
        if marks := re.findall(MARK + r"([\w.]*)", name):
            return marks[-1] or "(model)"
        if name and i.opcode == "parameter":
            return module(name)
        if name:
            return "(optimizer)" if self.account.phase == "optimizer" else "(loss)"
        return next((self.layers[operand] for operand in i.operands if operand in self.layers), "(compiler)")

    def phase_of(self, name: str) -> str:
        if not name:
            return self.account.phase
        if "transpose(" in name or "rematted_computation" in name:
            return "backward"
        if not self.trains or "jvp(" in name or MARK in name:
            return "forward"
        if "/while/" in name:
            return "backward"  # gradients of micro-batches being added
        return "forward" if len(self.account.phases) == 1 else "optimizer"

    def fill(self, buffer: HloBuffer, i: Instruction) -> HloBuffer:
        buffer.born, buffer.died = self.account.events, self.account.events + 1
        buffer.phase, buffer.layer = self.account.phase, self.layers[i.name]
        buffer.by = self.name(i).rpartition("/")[2] or i.opcode
        if "rematted_computation" in self.name(i):
            buffer.kind = "recomputed"
        return buffer


def _passed_on(i: Instruction, operands: list[Positions]) -> Positions:
    """What an instruction's result has in common with its operands."""
    if i.opcode == "tuple":
        return {f"{n},{index}".strip(","): values for n, one in enumerate(operands) for index, values in one.items()}
    if i.opcode == "get-tuple-element":
        wanted = re.search(r"index=(\d+)", i.attributes)
        assert wanted
        inside = [(index.partition(","), values) for index, values in operands[0].items()]
        return {rest: values for (first, _, rest), values in inside if first == wanted[1]}
    return dict(operands[0]) if i.opcode in ALIASES else {}


def merged(*parts: Positions) -> Positions:
    values_by_index: Positions = defaultdict(list)
    for part in parts:
        for index, values in part.items():
            values_by_index[index] += [v for v in values if v not in values_by_index[index]]
    return dict(values_by_index)


def share(values: list[HloBuffer]) -> None:
    """Memory belongs to the last who wrote into it: an operator may work in place, a loop on what it carries."""
    places: dict[int, list[HloBuffer]] = defaultdict(list)
    for new in sorted(values, key=lambda v: v.born):
        number, start = new.place
        others = places[number] = [old for old in places[number] if old.died > new.born]
        for old in others:
            if old.place[1] < start + new.size and start < old.place[1] + old.size:
                old.died = new.born
        others.append(new)


def module(argument: str) -> str:
    """The path in an argument's name, without the parameter's own."""
    path = re.findall(r"\w+", "".join(argument.replace("['frozen']", "").partition("['")[1:]))
    return ".".join(path[:-1])
