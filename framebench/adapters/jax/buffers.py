"""JAX's account of one step, from the compiler's plan: every buffer of the executable, from the instruction that fills it to
the last that reads it, in the order in which the executable runs.

XLA reserves the whole plan (arguments, outputs, one block for all temporaries) before the first instruction. The account says
what the plan is needed for. Read are the two texts that XLA dumps: the scheduled program, and which buffer lies where.
"""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
from flax import nnx

from framebench.adapters.jax.program import Program
from framebench.instruments.memory_timeline import NEVER, Account, Value

if TYPE_CHECKING:
    from framebench.adapters.jax.adapter import JaxAdapter

HOW = (
    "buffers of the compiled step, from the instruction that fills one to the last that reads it; an event is an instruction. "
    "The whole plan is reserved from the first event on. A fused operator is named by its last part"
)
MARK = "layer:"  # before a module's path among the names of an operation
ARGUMENTS = {  # how the names of arguments begin; a function of `*arguments` has numbers instead
    "params": "parameter", "constants['frozen']": "parameter", "stats": "buffer", "state": "optimizer state",
    "x": "input", "y": "input", "arguments[0]": "parameter", "arguments[1]": "buffer", "arguments[2]['frozen']": "parameter",
    "arguments[3]": "input",
}  # fmt: skip
RESULTS = {
    "train": ("new parameter", "new buffer", "new optimizer state", "output"),
    "eval": ("output", "new buffer", "saved for backward"),  # the last are the residuals of a graph that is kept
}
ALIASES = ("bitcast", "get-tuple-element", "optimization-barrier", "tuple")  # nothing runs


@dataclass(eq=False)
class Buffer(Value):
    """Where it lies, and in which phases it is read."""

    place: tuple[int, int] = (0, 0)  # allocation, offset
    read_in: set[str] = field(default_factory=set)


Positions = dict[str, list[Buffer]]  # what may lie at an index of an instruction's result; "" if it is no tuple


@dataclass
class Instruction:
    name: str
    opcode: str
    operands: list[str]
    attributes: str
    root: bool

    @property
    def op_name(self) -> str:
        """Where it comes from, such as `jit(step)/transpose(jvp(layer:))/layer:blocks.0/add`."""
        found = re.search(r'op_name="([^";]*)', self.attributes)
        return found[1].replace("\\'", "'") if found else ""

    def calls(self, *roles: str) -> list[str]:
        return [name for role in roles for name in re.findall(rf"\b{role}=\{{?%([\w.\-]+)", self.attributes)]


def instructions(text: str) -> tuple[dict[str, list[Instruction]], str]:
    """Each computation's instructions in the order in which they run, and the name of the entry."""
    found: dict[str, list[Instruction]] = {}
    entry = name = ""
    for line in text.splitlines():
        if head := re.match(r"(ENTRY )?%([\w.\-]+) \(.*\{$", line):
            name = head[2]
            found[name], entry = [], name if head[1] else entry
        elif part := re.match(r"\s+(ROOT )?%([\w.\-]+) = (.*)", line):
            call = part[3][closing(part[3]) :] if part[3].startswith("(") else part[3].partition(" ")[2]
            opcode, _, rest = call.strip().partition("(")
            inside = rest[: closing("(" + rest) - 2]
            operands = [inside.strip()] if opcode == "parameter" else re.findall(r"%([\w.\-]+)", inside)
            found[name].append(Instruction(part[2], opcode, operands, rest[len(inside) :], bool(part[1])))
    return found, entry


def closing(text: str) -> int:
    """The place after the parenthesis that closes the one at the beginning."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return place + 1
    return len(text)


def assignment(text: str) -> tuple[dict[str, dict[str, Buffer]], dict[int, tuple[int, str]]]:
    """Buffers by instruction and index of its result, and size and purpose of each allocation. Without what is no memory of the
    step: constants, and the values inside of fused operators."""
    buffers: dict[str, dict[str, Buffer]] = defaultdict(dict)
    allocations: dict[int, tuple[int, str]] = {}
    number = -1
    for line in text.splitlines():
        if head := re.match(r"allocation (\d+): size (\d+), (.*):$", line):
            number = int(head[1])
            if not re.search(r"thread-local|constant", head[3]):
                allocations[number] = int(head[2]), head[3]
        elif number in allocations and (
            found := re.match(r" value: <\d+ ([\w.\-]+)(?:\{([\d,]*)\})? @\d+> \(size=(\d+),offset=(\d+)\)", line)
        ):
            name, index, size, offset = found[1], found[2] or "", int(found[3]), int(found[4])
            buffers[name][index] = Buffer("temporary", "", "", size=size, place=(number, offset))
    return buffers, allocations


class Walk:
    """Goes through the program once, in order, and notes for each buffer when it is filled and last read.

    A loop's body is walked once; what the loop carries is alive until its end.
    """

    def __init__(self, program: dict[str, list[Instruction]], buffers: dict[str, dict[str, Buffer]], trains: bool) -> None:
        self.program, self.buffers, self.trains = program, buffers, trains
        self.layers: dict[str, str] = {}  # by instruction
        self.account = Account()
        self.account.turn("forward")

    def run(self, computation: str, given: list[Positions]) -> Positions:
        """The values of its result."""
        known: dict[str, Positions] = {}
        result: Positions = {}
        for instruction in self.program[computation]:
            values = self.execute(instruction, known, given)
            known[instruction.name] = values
            if instruction.root:
                result = values
        return result

    def execute(self, i: Instruction, known: dict[str, Positions], given: list[Positions]) -> Positions:
        if i.opcode == "parameter" and given:
            return given[int(i.operands[0])]
        operands = [known.get(name, {}) for name in i.operands] if i.opcode != "parameter" else []
        inner = self.called(i, operands)
        self.layers[i.name] = self.layer(i)
        if i.opcode not in (*ALIASES, "parameter", "constant"):
            self.account.events += 1
            self.account.turn(self.phase_of(self.name(i)))
            for buffer in (b for positions in (*operands, inner) for values in positions.values() for b in values):
                buffer.died = self.account.events + 1
                if i.opcode not in ("while", "call", "conditional"):
                    buffer.read_in.add(self.account.phase)
        return passed_on(i, operands) | inner | {index: [self.fill(b, i)] for index, b in self.buffers.get(i.name, {}).items()}

    def called(self, i: Instruction, operands: list[Positions]) -> Positions:
        """What a loop, a call or a branch results in."""
        if i.opcode == "while":
            (body,), (condition,) = i.calls("body"), i.calls("condition")
            self.run(condition, operands)
            return merged(operands[0], self.run(body, operands))
        if i.opcode == "call":
            return self.run(i.calls("to_apply")[0], operands)
        if i.opcode == "conditional":
            names = re.findall(r"%([\w.\-]+)", i.attributes.partition("branch_computations={")[2].partition("}")[0])
            branches = names or i.calls("true_computation", "false_computation")
            return merged(*(self.run(name, [given]) for name, given in zip(branches, operands[1:])))
        return {}

    def name(self, i: Instruction) -> str:
        """Its own, or that of the last of those which it fuses."""
        fused = [inner.op_name for called in i.calls("calls") for inner in self.program[called] if inner.opcode != "parameter"]
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

    def fill(self, buffer: Buffer, i: Instruction) -> Buffer:
        buffer.born, buffer.died = self.account.events, self.account.events + 1
        buffer.phase, buffer.layer = self.account.phase, self.layers[i.name]
        buffer.by = self.name(i).rpartition("/")[2] or i.opcode
        if "rematted_computation" in self.name(i):
            buffer.kind = "recomputed"
        return buffer


def passed_on(i: Instruction, operands: list[Positions]) -> Positions:
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
    found: Positions = defaultdict(list)
    for part in parts:
        for index, values in part.items():
            found[index] += [v for v in values if v not in found[index]]
    return dict(found)


def share(values: list[Buffer]) -> None:
    """Memory belongs to the last who wrote into it: an operator may work in place, a loop on what it carries."""
    places: dict[int, list[Buffer]] = defaultdict(list)
    for new in sorted(values, key=lambda v: v.born):
        number, start = new.place
        others = places[number] = [old for old in places[number] if old.died > new.born]
        for old in others:
            if old.place[1] < start + new.size and start < old.place[1] + old.size:
                old.died = new.born
        others.append(new)


@contextmanager
def scoped(model: nnx.Module) -> Iterator[None]:
    """The names of operations tell the path of the module that they are from."""
    modules = [(".".join(map(str, path)), module) for path, module in nnx.iter_modules(model)]
    with ExitStack() as stack:
        for kind in {type(module) for _, module in modules}:
            if callable(getattr(kind, "__call__", None)):  # noqa: B004
                stack.callback(setattr, kind, "__call__", kind.__call__)
                kind.__call__ = marked(kind.__call__)
        for path, module in modules:
            module.scope = MARK + path
        yield


def marked(call: Callable[..., Any]) -> Callable[..., Any]:
    def inside(self: Any, *arguments: Any, **options: Any) -> Any:
        with jax.named_scope(getattr(self, "scope", "")):
            return call(self, *arguments, **options)

    return inside


def compiled(adapter: JaxAdapter, folder: str) -> Program:
    """The adapter's step once more, with modules' names in it and its texts in the folder."""
    model = adapter.abstract(adapter.config, adapter.training)
    with scoped(model):
        program = adapter.programmed(adapter.split(model).graph)
        program.options = program.options | {"xla_dump_to": folder}
        program.prepare(*adapter.arguments())
    return program


def name_argument(buffer: Buffer, op_name: str) -> None:
    """`state[0].mu['blocks'][0]['fc1']['bias']` is an optimizer state of blocks.0.fc1."""
    buffer.kind = next((kind for begin, kind in ARGUMENTS.items() if op_name.startswith(begin)), "other")
    buffer.layer, buffer.phase, buffer.by = module(op_name), "before", ""


def module(argument: str) -> str:
    """The path in an argument's name, without the parameter's own."""
    path = re.findall(r"\w+", "".join(argument.replace("['frozen']", "").partition("['")[1:]))
    return ".".join(path[:-1])


def name_results(result: Positions, adapter: JaxAdapter, program: Program) -> None:
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


def name_kinds(values: list[Buffer]) -> None:
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
        computations, entry = instructions(hlo.read_text())
        buffers, allocations = assignment(plan.read_text())
    walk = Walk(computations, buffers, adapter.case.stage.trains)
    result = walk.run(entry, [])
    walk.account.events += 1
    for i in computations[entry]:
        for buffer in buffers[i.name].values() if i.opcode == "parameter" else ():
            name_argument(buffer, i.op_name)
            if "maybe-live-out" not in allocations[buffer.place[0]][1]:
                buffer.died = NEVER  # not donated
    values = [b for positions in buffers.values() for b in positions.values()]
    name_kinds(values)
    name_results(result, adapter, program)
    share(values)
    beside = Value("other", "(beside the step)", "before", size=adapter.beside())
    walk.account.values = [*values, beside]
    return walk.account.as_dict() | {"how": HOW, "plan": sizes(program, allocations)}


def sizes(program: Program, allocations: dict[int, tuple[int, str]]) -> dict[str, int]:
    """What XLA reports of its plan, and the sum of what it assigned."""
    (executable,) = program.compiled.values()
    reported = executable.memory_analysis()
    parts = {"arguments": "argument", "outputs": "output", "temporaries": "temp", "aliased": "alias"}
    found = {name: getattr(reported, f"{field}_size_in_bytes") for name, field in parts.items()}
    return found | {"in all": program.plan, "by its allocations": sum(size for size, _ in allocations.values())}
