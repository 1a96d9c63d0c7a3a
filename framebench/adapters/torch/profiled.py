"""What one compiled step of PyTorch does, as the profiler records it.

`observe.py` counts eager steps under a dispatch mode. Under such a mode Dynamo skips every frame: it would count an eager step,
whatever the timed ones are.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

from framebench.adapters.base import Evidence
from framebench.adapters.torch.observe import PRODUCTS
from framebench.suite.trees import samples

# The profiler's names of a call of what Dynamo compiled, of a run of a graph that Inductor generated, of the backward pass.
REGION, GRAPH, BACKWARD = "Torch-Compiled Region", "## Call CompiledFxGraph", "autograd::engine::evaluate_function"
MODEL = "the compiled model"
UPDATE = "Optimizer.step"
TYPES = {"float": "float32", "double": "float64", "c10::BFloat16": "bfloat16", "c10::Half": "float16"}
MATRIX = ("addmm", "mm", "bmm")


class Profiled:
    """Counts what one step does of which the forward pass is `model`, as it was compiled or not. Without `model` passes are not
    told apart. `called`: the blocks that are called one by one, where the model is not compiled."""

    def __init__(self, model: nn.Module | None, blocks: int, called: Iterable[nn.Module] = ()) -> None:
        self.model, self.blocks, self.called = model, blocks, list(called)
        self.passes = self.samples_per_pass = self.block_runs = 0

    def __enter__(self) -> Profiled:
        self.stack = contextlib.ExitStack()
        self.profile = self.stack.enter_context(profile(activities=[ProfilerActivity.CPU], record_shapes=True))
        if self.model is not None:
            self.stack.callback(self.model.register_forward_pre_hook(self.on_pass, with_kwargs=True).remove)
            self.stack.callback(self.model.register_forward_hook(self.after_pass).remove)
        for block in self.called:
            self.stack.callback(block.register_forward_pre_hook(self.on_block).remove)
        return self

    def __exit__(self, *error: Any) -> None:
        self.stack.close()
        self.events = list(self.profile.events() or ())
        self.recorded = {e.correlation_id(): e for e in self.profile.profiler.kineto_results.events()}  # with types and strides

    def on_block(self, module: Any, args: Any) -> None:
        self.block_runs += 1

    def on_pass(self, module: Any, args: Any, named: Any) -> None:
        self.passes += 1
        self.samples_per_pass = samples((args, named))
        self.mark = record_function(MODEL)
        self.mark.__enter__()

    def after_pass(self, module: Any, args: Any, output: Any) -> None:
        self.mark.__exit__(None, None, None)

    def evidence(self) -> Evidence:
        """What the backward pass keeps is not seen, and neither are blocks of a compiled model: None."""
        products = self.products()
        orders = Counter(order(self.recorded[e.id]) for e in products if short(e) == "convolution")
        regions = [e for e in self.events if e.name.startswith(REGION)]
        ran = [e for e in self.events if e.name.startswith(GRAPH)]
        graphs = [within(e, BACKWARD) for e in ran]
        return {
            "blocks": self.blocks,
            "block_runs": self.block_runs if self.called else None,
            "saved_tensors": None,
            "forward_passes": self.passes if self.model is not None else None,
            "samples_per_pass": self.samples_per_pass if self.model is not None else None,
            "compiled_regions": len(regions),
            "regions_of_the_update": sum(within(e, UPDATE) for e in regions),
            "graphs_of_the_update": sum(within(e, UPDATE) for e in ran),
            "graphs_forward": graphs.count(False),
            "graphs_backward": graphs.count(True),
            "products": dict(Counter(dtype(self.recorded[e.id]) for e in products)),
            "products_outside_graphs": sum(
                not within(e, GRAPH) and (within(e, MODEL) or within(e, BACKWARD)) for e in products
            ),
            "products_recomputed": _recomputed(products),
            "convolutions": {"channels_last": 0, "channels_first": 0} | orders,
            "operators": dict(Counter(short(e) for e in self.events if "::" in e.name)),
            "operators_outside_graphs": sum(e.name.startswith("aten::") and not within(e, GRAPH) for e in self.events),
            "nodes_of_autograd": sum(e.name.startswith(BACKWARD) for e in self.events),
        }

    def products(self) -> list[Any]:
        """The innermost: autocast calls an operator again with what it has cast."""
        product_events = [e for e in self.events if short(e).startswith(PRODUCTS)]
        outer = {id(parent) for e in product_events for parent in _parents(e)}
        return [e for e in product_events if id(e) not in outer]


def short(event: Any) -> str:
    return str(event.name).rpartition("::")[2]


def _parents(event: Any) -> Iterator[Any]:
    while (event := event.cpu_parent) is not None:
        yield event


def within(event: Any, name: str) -> bool:
    return any(parent.name.startswith(name) for parent in _parents(event))


def dtype(product: Any) -> str:
    """Of its first input."""
    name = product.dtypes()[0]
    return TYPES.get(name, name)


def order(convolution: Any) -> str:
    """Of the input's axes; a single channel has both orders at once. PyTorch 2.11's profiler has no strides."""
    if not hasattr(convolution, "structured_input_strides"):
        return "unknown"
    shape, strides = convolution.structured_input_shapes()[0], convolution.structured_input_strides()[0]
    return "channels_last" if strides[1] == 1 < shape[1] else "channels_first"


def _recomputed(products: list[Any]) -> int:
    """Products of the forward pass that the backward pass repeats. A convolution or an attention is told by its name. A matrix
    product has two derivatives, so that all beyond twice the forward pass's are repeated ones."""
    names = {back: Counter(short(e) for e in products if within(e, BACKWARD) == back) for back in (False, True)}
    by_name = sum(n for name, n in names[True].items() if name not in MATRIX and "backward" not in name)
    forward, backward = (sum(names[back][name] for name in MATRIX) for back in (False, True))
    return by_name + max(0, backward - 2 * forward)
