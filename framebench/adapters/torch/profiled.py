"""Count what one compiled step of PyTorch does, as the profiler records it.

`observe.py` counts eager steps under a dispatch mode. Under such a mode Dynamo skips every frame,
so the step would be eager even if the timed steps are compiled.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

from framebench.adapters.base import Evidence
from framebench.adapters.torch.observe import MATMULS, OTHER_PRODUCTS
from framebench.suite.trees import read_batch_length

# the profiler's names of a call of what Dynamo compiled, of a run of a graph that Inductor
# generated, of the backward pass, and of the optimizer's update
REGION = "Torch-Compiled Region"
GRAPH = "## Call CompiledFxGraph"
BACKWARD = "autograd::engine::evaluate_function"
UPDATE = "Optimizer.step"
MODEL = "the compiled model"  # the name of the mark that we set around a forward pass
MODULE = "module "  # begins the name of the mark that we set around a module's forward pass
TYPES = {
    "float": "float32",
    "double": "float64",
    "c10::BFloat16": "bfloat16",
    "c10::Half": "float16",
}
MATRIX = ("addmm", "mm", "bmm")


class ProfiledContext:
    """Context that records a profile, as `events` and `recorded` once it is left."""

    def __enter__(self) -> Self:
        """Start the profiler, and set the hooks."""
        self.stack = contextlib.ExitStack()
        profiler = profile(activities=[ProfilerActivity.CPU], record_shapes=True)
        self.profiler = self.stack.enter_context(profiler)
        self.set_hooks(self.stack.enter_context)
        return self

    def set_hooks(self, enter: Callable[[Any], Any]) -> None:
        """Set hooks, and `enter` the handle of each, which removes it when the context ends."""

    def __exit__(self, *error: Any) -> None:
        """Remove the hooks, stop the profiler, and keep its events.

        The raw ones, by the ids of the others, have types and strides.
        """
        self.stack.close()
        self.events = list(self.profiler.events() or ())
        raw_events = self.profiler.profiler.kineto_results.events()
        self.recorded = {event.correlation_id(): event for event in raw_events}


class Profiled(ProfiledContext):
    """Context that counts what one compiled step does.

    Args:
        model: The module that the step calls for a forward pass, compiled or not. Without it
            passes cannot be told apart.
        block_count: How many blocks the model has.
        hooked_blocks: The blocks whose executions are counted. They are none if the model is
            compiled as a whole, since its blocks are then not called one by one.
    """

    def __init__(
        self, model: nn.Module | None, block_count: int, hooked_blocks: Iterable[nn.Module] = ()
    ) -> None:
        """Keep what to hook into when the context begins."""
        self.model = model
        self.block_count = block_count
        self.hooked_blocks = list(hooked_blocks)
        self.passes = 0
        self.samples_per_pass = 0
        self.block_runs = 0

    def set_hooks(self, enter: Callable[[Any], Any]) -> None:
        """Hook into the model and the blocks."""
        if self.model is not None:
            enter(self.model.register_forward_pre_hook(self.before_pass, with_kwargs=True))
            enter(self.model.register_forward_hook(self.after_pass))
        for block in self.hooked_blocks:
            enter(block.register_forward_pre_hook(self.before_block))

    def before_block(self, module: Any, args: Any) -> None:
        """Count an execution of a block."""
        self.block_runs += 1

    def before_pass(self, module: Any, args: Any, kwargs: Any) -> None:
        """Count a forward pass and mark its beginning in the profile."""
        self.passes += 1
        self.samples_per_pass = read_batch_length((args, kwargs))
        self.mark = record_function(MODEL)
        self.mark.__enter__()

    def after_pass(self, module: Any, args: Any, output: Any) -> None:
        """Mark the end of a forward pass in the profile."""
        self.mark.__exit__(None, None, None)

    def evidence(self) -> Evidence:
        """Return the counts by the names that proofs call them by.

        None stands for what a profile does not show: saved tensors, and blocks of a compiled model.
        """
        has_passes = self.model is not None
        regions = self.list_events(REGION)
        graphs = self.list_events(GRAPH)
        graphs_backward = count_within(graphs, BACKWARD)
        operators = [event for event in self.events if "::" in event.name]
        aten_operators = self.list_events("aten::")
        operators_in_graphs = count_within(aten_operators, GRAPH)
        return {
            "blocks": self.block_count,
            "block_runs": self.block_runs if self.hooked_blocks else None,
            "saved_tensors": None,
            "forward_passes": self.passes if has_passes else None,
            "samples_per_pass": self.samples_per_pass if has_passes else None,
            "compiled_regions": len(regions),
            "regions_of_the_update": count_within(regions, UPDATE),
            "graphs_of_the_update": count_within(graphs, UPDATE),
            "graphs_forward": len(graphs) - graphs_backward,
            "graphs_backward": graphs_backward,
            "operators": dict(Counter(shorten_name(event) for event in operators)),
            "operators_outside_graphs": len(aten_operators) - operators_in_graphs,
            "nodes_of_autograd": len(self.list_events(BACKWARD)),
            **self.count_matmuls(),
        }

    def list_events(self, name: str) -> list[Any]:
        """Return the events whose name begins with this text."""
        return [event for event in self.events if event.name.startswith(name)]

    def count_matmuls(self) -> Evidence:
        """Count matmuls and convolutions by their type, place and memory format."""
        matmuls = list_innermost(self.events, MATMULS)
        if self.model is not None:  # else forward passes in a closure look like the update's own
            matmuls = [event for event in matmuls if not is_of_update(event)]
        dtypes: Counter[str] = Counter()
        convolutions = Counter({"channels_last": 0, "channels_first": 0})
        outside = 0
        for matmul in matmuls:
            recorded = self.recorded[matmul.id]
            dtypes[read_dtype(recorded)] += 1
            if shorten_name(matmul) == "convolution":
                convolutions[read_order(recorded)] += 1
            is_of_pass = is_within(matmul, MODEL) or is_within(matmul, BACKWARD)
            if is_of_pass and not is_within(matmul, GRAPH):
                outside += 1
        return {
            "products": dict(dtypes),
            "products_outside_graphs": outside,
            "products_recomputed": count_recomputed(matmuls),
            "convolutions": dict(convolutions),
        }


class MatmulPlaces(ProfiledContext):
    """Context that counts the matmuls of a model's forward passes by their place and type.

    A place is the name of the module, or `loss` outside of modules, and that of the operator.
    Forward passes that a backward pass repeats are counted apart. The rest of a backward pass is
    not counted: it has the types of the forward pass.

    The profiler counts, since no dispatch mode sees the matmuls inside of layers that are one
    operator while no gradient is asked for, as those of an encoder are.
    """

    def __init__(self, model: nn.Module) -> None:
        """Name the modules for the places, and start all counts at zero."""
        self.names = {module: name for name, module in model.named_modules()}
        self.running: list[record_function] = []  # a mark of each module, the innermost one last
        self.dtypes: Counter[str] = Counter()  # of all matmuls that are counted
        self.in_float32: Counter[str] = Counter()  # by place
        self.repeated_in_float32: Counter[str] = Counter()  # by place, in a backward pass

    def set_hooks(self, enter: Callable[[Any], Any]) -> None:
        """Mark each module in the profile."""
        enter(nn.modules.module.register_module_forward_pre_hook(self.enter_module))
        # always: a repeated pass ends by an error as soon as it has all that is needed
        leave = self.leave_module
        enter(nn.modules.module.register_module_forward_hook(leave, always_call=True))

    def __exit__(self, *error: Any) -> None:
        """Stop the profiler, and count what it has recorded."""
        super().__exit__(*error)
        for matmul in list_innermost(self.events, MATMULS + OTHER_PRODUCTS):
            self.count(matmul, self.recorded[matmul.id])

    def count(self, matmul: Any, recorded: Any) -> None:
        """Count a matmul, given as the profiler's event and the raw one, unless it is backward."""
        names = [str(parent.name) for parent in iterate_parents(matmul)]  # the innermost first
        innermost = next((name for name in names if name.startswith((MODULE, BACKWARD))), "loss")
        if innermost.startswith(BACKWARD):
            return
        dtype = read_dtype(recorded)
        self.dtypes[dtype] += 1
        if dtype == "float32":
            place = f"{innermost.removeprefix(MODULE)}: {shorten_name(matmul)}"
            if is_within(matmul, BACKWARD):
                self.repeated_in_float32[place] += 1
            else:
                self.in_float32[place] += 1

    def enter_module(self, module: nn.Module, args: Any) -> None:
        """Mark that a module's forward pass begins."""
        mark = record_function(MODULE + self.names.get(module, ""))
        mark.__enter__()
        self.running.append(mark)

    def leave_module(self, module: nn.Module, args: Any, output: Any) -> None:
        """Mark that a module's forward pass has ended."""
        self.running.pop().__exit__(None, None, None)


def list_innermost(events: list[Any], names: tuple[str, ...]) -> list[Any]:
    """Return the events whose operator's name begins so, without those that have another inside.

    Autocast calls an operator again inside of itself, with cast arguments: both count once.
    """
    matmuls = [event for event in events if shorten_name(event).startswith(names)]
    outer: set[int] = set()
    for event in matmuls:
        outer.update(id(parent) for parent in iterate_parents(event))
    return [event for event in matmuls if id(event) not in outer]


def record_events(adapter: Any) -> list[Any]:
    """Run one more step of an adapter, and return the profiler's events."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        adapter.one_step()
        adapter.synchronize()
    return list(profiler.events() or ())


def read_dtype(matmul: Any) -> str:
    """Return the type of the first operand of a matmul, given as the profiler's raw event."""
    first_dtype, *_ = matmul.dtypes()
    return TYPES.get(first_dtype, first_dtype)


def shorten_name(event: Any) -> str:
    """Return an operator's name without its namespace."""
    return str(event.name).rpartition("::")[2]


def iterate_parents(event: Any) -> Iterator[Any]:
    """Yield the events that an event lies in, the innermost first."""
    parent = event.cpu_parent
    while parent is not None:
        yield parent
        parent = parent.cpu_parent


def is_within(event: Any, name: str) -> bool:
    """Return whether an event lies in another one whose name begins with this text."""
    return any(parent.name.startswith(name) for parent in iterate_parents(event))


def count_within(events: list[Any], name: str) -> int:
    """Return how many events lie in another one whose name begins with this text."""
    return sum(is_within(event, name) for event in events)


def is_of_update(event: Any) -> bool:
    """Return whether an event is an optimizer's own, and not of a closure that it calls."""
    for parent in iterate_parents(event):
        if parent.name.startswith((MODEL, BACKWARD)):
            return False
        if parent.name.startswith(UPDATE):
            return True
    return False


def read_order(convolution: Any) -> str:
    """Return the memory format of a convolution's input: channels last, first, or `unknown`.

    A single channel has both formats, and counts as channels first. PyTorch 2.11 has no strides in
    its profiles, so the format is unknown there.
    """
    if not hasattr(convolution, "structured_input_strides"):
        return "unknown"
    _batch, channels, *_ = convolution.structured_input_shapes()[0]
    _, channel_stride, *_ = convolution.structured_input_strides()[0]
    if channels > 1 and channel_stride == 1:
        return "channels_last"
    return "channels_first"


def count_recomputed(matmuls: list[Any]) -> int:
    """Return how many matmuls of the forward pass the backward pass repeats.

    A repeated convolution or attention has the name of the forward operator. A matrix product has
    two derivatives, so the products of the backward pass beyond twice those of the forward pass are
    repeated ones.
    """
    by_name = forward = backward = 0
    for matmul in matmuls:
        name = shorten_name(matmul)
        in_backward = is_within(matmul, BACKWARD)
        if name in MATRIX:
            forward += not in_backward
            backward += in_backward
        elif in_backward and "backward" not in name:
            by_name += 1
    return by_name + max(0, backward - 2 * forward)
