"""Bugs in a step of PyTorch's adapter, each as a mistake in a strategy would make it.

A bug says whether it can be planted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Bug = Callable[[Any], bool]


def forgotten_zero_grad(adapter: Any) -> bool:
    """Gradients of the step before are still there."""
    adapter.optimizer.zero_grad = lambda **_: None
    return True


def wrong_scaling(adapter: Any) -> bool:
    """The loss of each micro-batch is not divided by their number; without micro-batches it is
    halved.
    """
    backward, factor = (
        adapter.recipe.backward,
        float(adapter.micro_batches) if adapter.micro_batches > 1 else 0.5,
    )
    adapter.recipe.backward = lambda loss: backward(loss * factor)
    return True


def dropped_layer(adapter: Any) -> bool:
    """The largest layer that gives what it gets by its shape is passed by."""
    shapes: dict[Any, bool] = {}

    def seen(module: Any, args: Any, output: Any) -> None:
        alike = (
            len(args) == 1
            and isinstance(args[0], torch.Tensor)
            and isinstance(output, torch.Tensor)
        )
        shapes[module] = alike and args[0].shape == output.shape

    leaves = [m for m in adapter.model.modules() if not [*m.children()] and [*m.parameters()]]
    handles = [leaf.register_forward_hook(seen) for leaf in leaves]
    with torch.no_grad():
        adapter.model(adapter.inputs[0])
    for handle in handles:
        handle.remove()
    adapter.restore()
    passed = max(
        (m for m in leaves if shapes.get(m)),
        key=lambda m: sum(p.numel() for p in m.parameters()),
        default=None,
    )
    if passed is not None:
        passed.forward = lambda x: x
    return passed is not None


def stale_weights(adapter: Any) -> bool:
    """Passes see the weights of the step before: an update comes too late."""
    update = adapter.optimizer.step
    pending: list[list[torch.Tensor]] = []

    def late(*args: Any, **named: Any) -> None:
        before = [p.detach().clone() for p in adapter.parameters()]
        update(*args, **named)
        after = [p.detach().clone() for p in adapter.parameters()]
        shown = pending.pop() if pending else before
        pending.append(after)
        with torch.no_grad():
            for p, old in zip(adapter.parameters(), shown):
                p.copy_(old)

    adapter.optimizer.step = late
    return True


def missing_gradient(adapter: Any) -> bool:
    """One layer in the middle gets none."""
    weights = [p for p in adapter.parameters() if p.requires_grad and p.ndim > 1]
    weights[len(weights) // 2].register_hook(torch.zeros_like)
    return True


def off_by_a_tenth(adapter: Any) -> bool:
    """The gradient of one layer in the middle: the smallest of these bugs."""
    weights = [p for p in adapter.parameters() if p.requires_grad and p.ndim > 1]
    weights[len(weights) // 2].register_hook(lambda gradient: 1.1 * gradient)
    return True


BUGS: dict[str, Bug] = {
    bug.__name__: bug
    for bug in (
        forgotten_zero_grad,
        wrong_scaling,
        dropped_layer,
        stale_weights,
        missing_gradient,
        off_by_a_tenth,
    )
}
